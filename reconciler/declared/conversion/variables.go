package conversion

import (
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// filledNumber is a number that is written with variables: of nothing but digits
// and variables, whose defaults are digits.
var filledNumber = regexp.MustCompile(`^([0-9]|\$\{[A-Za-z_][A-Za-z0-9_]*(:?[=-][0-9]+)?\})+$`)

// unknown reports whether a decision hangs on a variable, ${NAME}, which is filled in after
// files were converted. What depends on one is carried over where it stays exact, and is for a
// person otherwise. In a draft it is decided all the same, because nobody goes by it.
func (r *converter) unknown(n *yaml.Node) bool {
	return yamlnode.HasVariable(n) && !r.opts.UnresolvedVariables
}

// remedy is what to do about a value of the wrong form.
func remedy(n *yaml.Node) string {
	if yamlnode.HasVariable(n) {
		return "; " + yamlnode.Text(n) + " is filled in too late for a conversion: write its value, convert, and put the variable back"
	}
	return "; correct it"
}

// checkSeconds blocks a time that is no number of seconds.
func (r *converter) checkSeconds(o *object, field, now string) {
	switch n := yamlnode.Get(o.node, field); {
	case yamlnode.Absent(n), numbered.MatchString(yamlnode.Text(n)), filledNumber.MatchString(yamlnode.Text(n)):
	case r.unknown(n):
		r.block(o, field, "%s depends on %s, whose value a conversion does not have; write the number, convert, and put the variable back into %s, with an s behind it", field, yamlnode.Text(n), now)
	case !yamlnode.HasVariable(n):
		r.block(o, field, "%s must be a number of seconds; correct it", field)
	}
}

// checkDecided blocks a Provisioner in which a variable decides what else is written.
func (r *converter) checkDecided(o *object) {
	if n := yamlnode.Get(o.node, "spec.consolidation.enabled"); r.unknown(n) {
		r.block(o, "spec.consolidation.enabled", "spec.consolidation.enabled depends on %s, and which policy v1 requires depends on that; write true or false, convert, and put variables into spec.disruption.consolidationPolicy and consolidateAfter", yamlnode.Text(n))
	}
	requirements := yamlnode.Get(o.node, "spec.requirements")
	if o.blocked || yamlnode.Absent(requirements) {
		return
	}
	for _, q := range requirements.Content {
		if key := yamlnode.Get(q, "key"); r.unknown(key) {
			r.block(o, "spec.requirements", "the key of a requirement is %s, and what v1alpha5 added by itself depends on that; write the key, convert, and put the variable back", yamlnode.Text(key))
			return
		}
	}
}

// listed has a person check whether a variable among the values of a selector is a
// list, which v1 takes for one value. The tag of discovery holds a cluster's name,
// which has no comma.
func (r *converter) listed(o *object, line int, selector string, values *yaml.Node) {
	if values == nil || values.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(values.Content); i += 2 {
		if key, n := values.Content[i].Value, values.Content[i+1]; key != "karpenter.sh/discovery" && r.unknown(n) {
			r.requireReview(o, line, "%s: %s is %s: where its value is a list with commas, write a term for each of them, which v1 requires", selector, key, yamlnode.Text(n))
		}
	}
}

// numbered is a whole number of seconds.
var numbered = regexp.MustCompile(`^[0-9]{1,10}$`)
