// Package projection reduces what was read of a resource in AWS to what a declaration compares, so
// that the two are equal exactly where AWS is as declared. It decides nothing about a difference.
// Start reading at Project.
package projection

import (
	"maps"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Project returns the live object as far as the desired one covers it, so that the
// two are equal exactly where AWS is as declared:
//
//   - of the object's own fields, those that are desired: what the declaration
//     leaves open (a node group's desired size, a log group's retention) is not
//     compared;
//   - of its tags, those that are desired: others may tag what is ours, too;
//   - everything below a field as it is: labels, lists and documents are
//     compared as a whole.
//
// A desired field that the live object does not have is absent.
func Project(desired, live map[string]any) map[string]any {
	if live == nil {
		return nil
	}
	out := make(map[string]any, len(desired))
	for field, want := range desired {
		have, ok := live[field]
		if !ok {
			continue
		}
		if field == "tags" {
			have = projectTags(want, have)
		}
		out[field] = have
	}
	return out
}

func projectTags(desired, live any) any {
	want, okWant := desired.(map[string]any)
	have, okHave := live.(map[string]any)
	if !okWant || !okHave {
		return live
	}
	out := make(map[string]any, len(want))
	for k, v := range have {
		if _, ok := want[k]; ok {
			out[k] = v
		}
	}
	return out
}

// WithOwnTags returns the projection of somebody else's resource as if it had the tags that
// only Poolwright gives: its owner could not set them to any avail, so their
// absence is no difference.
func WithOwnTags(desired, found map[string]any) map[string]any {
	want, ok := desired["tags"].(map[string]any)
	if !ok {
		return found
	}
	tags := map[string]any{}
	if have, ok := found["tags"].(map[string]any); ok {
		maps.Copy(tags, have)
	}
	_, made := want[tag.Cluster] // then all of them are those of what we make
	for k, v := range want {
		if made || strings.HasPrefix(k, tag.Prefix) {
			tags[k] = v
		}
	}
	out := maps.Clone(found)
	out["tags"] = tags
	return out
}

// Satisfied reports whether the live object is as declared.
func Satisfied(desired state.Item, live resource.Live) bool {
	return live.Object != nil && state.Equal(desired.Object, Project(desired.Object, live.Object))
}
