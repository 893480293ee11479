package aws

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// iamTagged finds the live tags of the entity that a request names.
type iamTagged func(*call) (map[string]string, error)

func iamTagParams(also ...string) []string {
	return append(also, "Tags.member.#.Key", "Tags.member.#.Value")
}

// iamTagOperations are the three that every taggable entity has; name is its
// parameter, and the operations are TagX, UntagX and ListXTags.
func iamTagOperations(kind, name string, find iamTagged) map[string]operation {
	return map[string]operation{
		"Tag" + kind:           {params: iamTagParams(name), run: tagEntity(find)},
		"Untag" + kind:         {params: []string{name, "TagKeys.member.#"}, run: untagEntity(find)},
		"List" + kind + "Tags": {params: iamListing(name), read: true, run: listEntityTags(find)},
	}
}

func tagEntity(find iamTagged) func(*call) (any, error) {
	return func(in *call) (any, error) {
		have, err := find(in)
		if err != nil {
			return nil, err
		}
		tags, err := in.iamTags()
		if err != nil {
			return nil, err
		}
		all := maps.Clone(have)
		maps.Copy(all, tags)
		if len(all) > mostTags {
			return nil, conflict("LimitExceeded", "The number of tags has reached the maximum limit of %d.", mostTags)
		}
		maps.Copy(have, tags)
		return []query.Node{}, nil
	}
}

func untagEntity(find iamTagged) func(*call) (any, error) {
	return func(in *call) (any, error) {
		have, err := find(in)
		if err != nil {
			return nil, err
		}
		for _, k := range in.form.List("TagKeys.member") {
			delete(have, k)
		}
		return []query.Node{}, nil
	}
}

func listEntityTags(find iamTagged) func(*call) (any, error) {
	return func(in *call) (any, error) {
		have, err := find(in)
		if err != nil {
			return nil, err
		}
		var rows []item
		for k, v := range have {
			rows = append(rows, item{k, query.Group("member", query.Text("Key", k), query.Text("Value", v))})
		}
		return in.iamPage("Tags", rows)
	}
}

// iamTags reads the tags of a request and refuses what IAM would.
func (in *call) iamTags() (map[string]string, error) {
	out, seen := map[string]string{}, map[string]bool{}
	for _, f := range in.form.Each("Tags.member") {
		k, v := f.Get("Key"), f.Get("Value")
		switch {
		case k == "" || len(k) > 128 || len(v) > 256:
			return nil, refuse("ValidationError", "1 validation error detected: the tag key '%s' or its value is empty or too long (128 and 256 characters).", k)
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return nil, refuse("InvalidInput", "The tag key '%s' is reserved: it starts with aws:.", k)
		case seen[strings.ToLower(k)]:
			return nil, refuse("InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive: '%s'", k)
		}
		out[k], seen[strings.ToLower(k)] = v, true
	}
	if len(out) > mostTags {
		return nil, refuse("InvalidInput", "More than %d tags were given.", mostTags)
	}
	return out, nil
}

// iamTagsNode shows an entity's tags.
func iamTagsNode(tags map[string]string) query.Node {
	var rows []query.Node
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		rows = append(rows, query.Group("member", query.Text("Key", k), query.Text("Value", tags[k])))
	}
	return query.List("Tags", "member", rows)
}
