package ec2query

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// ReadTags reads Tag.1.Key, Tag.1.Value … and refuses what EC2 would.
func ReadTags(forms []query.Form) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range forms {
		k, v := f.Get("Key"), f.Get("Value")
		switch {
		case k == "" || utf8.RuneCountInString(k) > 128 || utf8.RuneCountInString(v) > 256:
			return nil, api.Refuse("InvalidParameterValue", "Tag key '%s' or its value is empty or too long (128 and 256 characters).", k)
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return nil, api.Refuse("InvalidParameterValue", "Tag keys starting with 'aws:' are reserved for internal use: '%s'", k)
		}
		if _, twice := out[k]; twice {
			return nil, api.Refuse("InvalidParameterValue", "Duplicate tag key '%s' specified.", k)
		}
		out[k] = v
	}
	if len(out) > api.MostTags {
		return nil, api.Refuse("TagLimitExceeded", "More than %d tags specified.", api.MostTags)
	}
	return out, nil
}

// TagsOnly reads TagSpecification where only one type of resource can be tagged.
func TagsOnly(f query.Form, resource string) (map[string]string, error) {
	return TagsIn(f.Each("TagSpecification"), resource)
}

// TagsIn reads tag specifications where only one type of resource can be tagged.
func TagsIn(specifications []query.Form, resource string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range specifications {
		if kind := s.Get("ResourceType"); kind != resource {
			return nil, api.Refuse("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind)
		}
		tags, err := ReadTags(s.Each("Tag"))
		if err != nil {
			return nil, err
		}
		maps.Copy(out, tags)
	}
	if len(out) > api.MostTags {
		return nil, api.Refuse("TagLimitExceeded", "More than %d tags specified.", api.MostTags)
	}
	return out, nil
}

// Specified are the tags for a type of resource in TagSpecifications.
func Specified(f query.Form, kind string) map[string]string {
	return Listed(f.Each("TagSpecification"), kind)
}

// Listed are the tags for a type of resource in a list of specifications.
func Listed(specifications []query.Form, kind string) map[string]string {
	out := map[string]string{}
	for _, s := range specifications {
		if s.Get("ResourceType") == kind {
			maps.Copy(out, query.Tags(s.Each("Tag")))
		}
	}
	return out
}

// TagSet shows tags, by their keys.
func TagSet(tags map[string]string) query.Element {
	rows := make([]query.Element, 0, len(tags))
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		rows = append(rows, query.Group("item", query.Text("key", k), query.Text("value", tags[k])))
	}
	return query.List("tagSet", "item", rows)
}
