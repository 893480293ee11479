package conversion

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// maxTerms is how many terms v1 takes in one selector.
const maxTerms = 30

// selector turns a selector of v1alpha1 into terms: it was a mapping of tags with special keys,
// where a list with commas in a value meant any of them. Terms are or-ed, and so is each list.
func (r *converter) selector(o *object, spec *yaml.Node, old, name string) {
	k, v, i := yamlnode.RemoveEntry(spec, old)
	if k == nil || yamlnode.Absent(v) {
		return
	}
	r.reportAt(o, Lossless, k.Line, "%s is %s now", old, name)
	r.listed(o, k.Line, old, v)
	special := map[string][]string{}
	var tags []*yaml.Node
	for j := 0; j+1 < len(v.Content); j += 2 {
		key, value := v.Content[j], v.Content[j+1]
		switch key.Value {
		case "aws-ids", "aws::ids":
			special["id"] = yamlnode.Elements(value)
			r.book.Keep(k, key, value)
		case "aws::name", "aws::owners":
			if name == "amiSelectorTerms" {
				special[strings.TrimSuffix(strings.TrimPrefix(key.Value, "aws::"), "s")] = yamlnode.Elements(value)
				r.book.Keep(k, key, value)
				continue
			}
			tags = append(tags, key, value)
		default:
			tags = append(tags, key, value)
		}
	}
	var terms []*yaml.Node
	if ids := special["id"]; len(ids) > 0 {
		for _, id := range ids {
			terms = append(terms, yamlnode.Mapping(yamlnode.Scalar("id"), yamlnode.Scalar(id)))
		}
		if len(tags) > 0 || len(special) > 1 {
			r.requireReview(o, k.Line, "%s had ids and more; v1 takes ids alone, as v1alpha1 did with tags: check that they are all that is meant", old)
		}
	} else {
		terms = r.tagTerms(o, k.Line, old, special, tags)
	}
	k.Value = name
	yamlnode.Put(spec, i, k, yamlnode.List(terms...))
}

// tagTerms are the terms of a selector without ids.
func (r *converter) tagTerms(o *object, line int, old string, special map[string][]string, tags []*yaml.Node) []*yaml.Node {
	whole := yamlnode.Mapping()
	if len(tags) > 0 {
		m := yamlnode.Mapping(tags...)
		for j := 1; j < len(m.Content); j += 2 {
			if strings.TrimSpace(yamlnode.Text(m.Content[j])) == "" {
				r.requireReview(o, line, "%s: tag %s has an empty value, which v1 does not take; * is written, for any value: check that it is meant", old, m.Content[j-1].Value)
				m.Content[j] = yamlnode.Quoted("*")
			}
		}
		whole = yamlnode.Mapping(yamlnode.Scalar("tags"), m)
	}
	terms := exploded([]*yaml.Node{whole})
	for _, field := range []string{"name", "owner"} {
		values := special[field]
		if len(values) == 0 {
			continue
		}
		var more []*yaml.Node
		for _, t := range terms {
			for i, value := range values {
				c := t
				if i+1 < len(values) {
					c = yamlnode.CopyWithoutComments(t)
				}
				yamlnode.Set(c, field, yamlnode.Scalar(value))
				more = append(more, c)
			}
		}
		terms = more
	}
	return terms
}

// explode writes the lists with commas in the tags of terms out, which v1 takes
// for a value with commas.
func (r *converter) explode(o *object, terms *yaml.Node, field string) {
	if terms == nil || terms.Kind != yaml.SequenceNode {
		return
	}
	for _, t := range terms.Content {
		r.listed(o, yamlnode.LineOf(o.node, "spec."+field), field, yamlnode.Get(t, "tags"))
	}
	now := exploded(terms.Content)
	if len(now) != len(terms.Content) {
		r.report(o, Lossless, "spec."+field, "%s: lists with commas in tags are a term for each value now", field)
		terms.Content = now
	}
}

func exploded(terms []*yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for _, t := range terms {
		out = append(out, splitTerm(t)...)
	}
	return out
}

// splitTerm is a term for each combination of the values of its tags. The last of
// them is the term itself, with its comments.
func splitTerm(t *yaml.Node) []*yaml.Node {
	tags := yamlnode.Get(t, "tags")
	if tags == nil || tags.Kind != yaml.MappingNode {
		return []*yaml.Node{t}
	}
	for i := 1; i < len(tags.Content); i += 2 {
		values := yamlnode.Elements(tags.Content[i])
		if len(values) < 2 {
			continue
		}
		var out []*yaml.Node
		for j, value := range values {
			c := t
			if j+1 < len(values) {
				c = yamlnode.CopyWithoutComments(t)
			}
			yamlnode.Get(c, "tags").Content[i] = yamlnode.Scalar(value)
			if out = append(out, splitTerm(c)...); len(out) > maxTerms {
				return out[:maxTerms+1]
			}
		}
		return out
	}
	return []*yaml.Node{t}
}

// countTerms is how many terms a selector of v1alpha1, or terms of v1beta1, become.
func countTerms(n *yaml.Node) int {
	if n == nil || n.Kind == yaml.SequenceNode {
		total := 0
		if n != nil {
			for _, t := range n.Content {
				total += min(maxTerms+1, countTerms(yamlnode.Get(t, "tags")))
			}
		}
		return total
	}
	total := 1
	for i := 1; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		total = min(maxTerms+1, total*max(1, len(yamlnode.Elements(n.Content[i]))))
	}
	return total
}

// maxTags is how many tags v1 takes in one term.
const maxTags = 20

// tagged is how many tags a term of some selector has, at most.
func tagged(n *yaml.Node) int {
	most := 0
	switch {
	case n == nil:
		return 0
	case n.Kind == yaml.MappingNode:
		return len(n.Content) / 2
	}
	for _, t := range n.Content {
		most = max(most, tagged(yamlnode.Get(t, "tags")))
	}
	return most
}

// checkTerms blocks selectors that v1 has no room for.
func (r *converter) checkTerms(o *object, at string, fields ...string) {
	for _, field := range fields {
		if n := yamlnode.Get(o.node, at+"."+field); !o.blocked && n != nil && countTerms(n) > maxTerms {
			r.block(o, at+"."+field, "%s.%s becomes more than %d terms, which v1 does not take; choose by one tag", at, field, maxTerms)
		} else if !o.blocked && tagged(n) > maxTags {
			r.block(o, at+"."+field, "%s.%s has more than %d tags, which v1 does not take in a term; choose by fewer", at, field, maxTags)
		}
	}
}

// checkValues blocks a selector of v1alpha1 that names ids, names or owners and none
// of them: v1 has no term for nothing.
func (r *converter) checkValues(o *object, at, field string, selector *yaml.Node) {
	for i := 0; i+1 < len(selector.Content); i += 2 {
		key := selector.Content[i].Value
		special := key == "aws-ids" || key == "aws::ids" || field == "amiSelector" && (key == "aws::name" || key == "aws::owners")
		if special && len(yamlnode.Elements(selector.Content[i+1])) == 0 {
			r.block(o, at+"."+field, "%s.%s: %s is empty; write its value, or remove it and choose by tags", at, field, key)
			return
		}
	}
}
