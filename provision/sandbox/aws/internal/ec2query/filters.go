package ec2query

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// filter is one condition of a Describe call: any of its values.
type filter struct {
	name   string
	values []string
}

func filters(in *api.Call) ([]filter, error) {
	var out []filter
	for _, f := range in.Form.Each("Filter") {
		next := filter{f.Get("Name"), f.List("Value")}
		if next.name == "" || len(next.values) == 0 {
			return nil, api.Refuse("InvalidParameterValue", "A filter needs a name and at least one value; got name '%s' with %d values.", next.name, len(next.values))
		}
		out = append(out, next)
	}
	return out, nil
}

// Attributes maps the filters that a kind of thing has to the values that each
// thing has for it.
type Attributes[T any] map[string]func(T) []string

// One is an attribute with exactly one value.
func One[T any](get func(T) string) func(T) []string {
	return func(v T) []string { return []string{get(v)} }
}

// Choose keeps the things that pass all filters of the request. Filters that
// the kind does not have are an error by name; tags is nil for kinds without.
func Choose[T any](in *api.Call, things []T, known Attributes[T], tags func(T) map[string]string) ([]T, error) {
	fs, err := filters(in)
	if err != nil {
		return nil, err
	}
	for _, f := range fs {
		if _, ok := known[f.name]; !ok && !(tags != nil && isTagFilter(f.name)) {
			return nil, api.Refuse("InvalidParameterValue", "The filter '%s' is invalid", f.name)
		}
	}
	var out []T
	for _, v := range things {
		if passes(fs, v, known, tags) {
			out = append(out, v)
		}
	}
	return out, nil
}

func passes[T any](fs []filter, v T, known Attributes[T], tags func(T) map[string]string) bool {
	for _, f := range fs {
		var have []string
		if get, ok := known[f.name]; ok {
			have = get(v)
		} else {
			have = tagValues(f.name, tags(v))
		}
		hit := slices.ContainsFunc(have, func(h string) bool {
			return slices.ContainsFunc(f.values, func(want string) bool { return query.Wildcard(want, h) })
		})
		if !hit {
			return false
		}
	}
	return true
}

func isTagFilter(name string) bool {
	return name == "tag-key" || name == "tag-value" || strings.HasPrefix(name, "tag:") && len(name) > len("tag:")
}

// tagValues is what a tag filter compares: one tag's value, all keys or all
// values.
func tagValues(filter string, tags map[string]string) []string {
	switch filter {
	case "tag-key":
		return slices.Collect(maps.Keys(tags))
	case "tag-value":
		return slices.Collect(maps.Values(tags))
	}
	if v, ok := tags[strings.TrimPrefix(filter, "tag:")]; ok {
		return []string{v}
	}
	return nil
}
