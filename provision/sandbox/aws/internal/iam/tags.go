package iam

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// tagForm are the characters of keys and values of tags.
var tagForm = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// foldsTags reports the kinds of entity whose tag keys ignore case, as IAM does with
// users and roles only: a tag then replaces the one whose key differs by case.
func foldsTags(kind string) bool { return kind == "Role" }

// dropKey takes a tag away.
func dropKey(tags map[string]string, key string, fold bool) {
	maps.DeleteFunc(tags, func(have, _ string) bool { return have == key || fold && strings.EqualFold(have, key) })
}

// tagged finds the live tags of the entity that a request names.
type tagged func(*api.Call) (map[string]string, error)

func tagParams(also ...string) []string {
	return append(also, "Tags.member.#.Key", "Tags.member.#.Value")
}

// tagOperations are the three that every taggable entity has; name is its
// parameter, and the operations are TagX, UntagX and ListXTags.
func tagOperations(kind, name string, find tagged) map[string]api.Operation {
	return map[string]api.Operation{
		"Tag" + kind:           {Params: tagParams(name), Run: tagEntity(find, foldsTags(kind))},
		"Untag" + kind:         {Params: []string{name, "TagKeys.member.#"}, Run: untagEntity(find, foldsTags(kind))},
		"List" + kind + "Tags": {Params: listing(name), Read: true, Run: listEntityTags(find)},
	}
}

func tagEntity(find tagged, fold bool) func(*api.Call) (any, error) {
	return func(in *api.Call) (any, error) {
		have, err := find(in)
		if err != nil {
			return nil, err
		}
		tags, err := readTags(in, fold)
		if err != nil {
			return nil, err
		}
		all := maps.Clone(have)
		for k, v := range tags {
			dropKey(all, k, fold)
			all[k] = v
		}
		if len(all) > api.MostTags {
			return nil, conflict("LimitExceeded", "The number of tags has reached the maximum limit of %d.", api.MostTags)
		}
		clear(have)
		maps.Copy(have, all)
		return []query.Element{}, nil
	}
}

func untagEntity(find tagged, fold bool) func(*api.Call) (any, error) {
	return func(in *api.Call) (any, error) {
		have, err := find(in)
		if err != nil {
			return nil, err
		}
		for _, k := range in.Form.List("TagKeys.member") {
			dropKey(have, k, fold)
		}
		return []query.Element{}, nil
	}
}

func listEntityTags(find tagged) func(*api.Call) (any, error) {
	return func(in *api.Call) (any, error) {
		have, err := find(in)
		if err != nil {
			return nil, err
		}
		var rows []api.Row
		for k, v := range have {
			rows = append(rows, api.NewRow(k, query.Group("member", query.Text("Key", k), query.Text("Value", v))))
		}
		return page(in, "Tags", rows)
	}
}

// readTags reads the tags of a request and refuses what IAM would; fold is
// whether keys ignore case.
func readTags(in *api.Call, fold bool) (map[string]string, error) {
	out, found := map[string]string{}, map[string]bool{}
	for _, f := range in.Form.Each("Tags.member") {
		k, v := f.Get("Key"), f.Get("Value")
		same := k
		if fold {
			same = strings.ToLower(k)
		}
		_, problem := api.AddTags(nil, map[string]string{k: v})
		switch {
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return nil, api.Refuse("InvalidInput", "The tag key '%s' is reserved: it starts with aws:.", k)
		case problem != "" || !tagForm.MatchString(k) || !tagForm.MatchString(v):
			return nil, api.Refuse("ValidationError", "1 validation error detected: the tag key '%s' or its value is empty, too long (128 and 256 characters), or not of letters, digits, blanks and _.:/=+-@", k)
		case found[same]:
			return nil, api.Refuse("InvalidInput", "Duplicate tag keys found: '%s'", k)
		}
		out[k], found[same] = v, true
	}
	if len(out) > api.MostTags {
		return nil, api.Refuse("InvalidInput", "More than %d tags were given.", api.MostTags)
	}
	return out, nil
}

// tagsElement shows an entity's tags.
func tagsElement(tags map[string]string) query.Element {
	var rows []query.Element
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		rows = append(rows, query.Group("member", query.Text("Key", k), query.Text("Value", tags[k])))
	}
	return query.List("Tags", "member", rows)
}
