package aws

import (
	"maps"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
)

// ownTags begin the keys of the tags that only Poolwright sets.
const ownTags = "poolwright.dev/"

// project is the live object as far as the wanted one speaks of it, so that the
// two are equal exactly where AWS is as declared:
//
//   - of the object's own fields, those that are wanted: what the declaration
//     leaves open (a node group's desired size, a log group's retention) is not
//     compared;
//   - of its tags, those that are wanted: others may tag what is ours, too;
//   - everything below a field as it is: labels, lists and documents are
//     compared as a whole.
//
// A wanted field that the live object does not have is absent.
func project(wanted, live map[string]any) map[string]any {
	if live == nil {
		return nil
	}
	out := make(map[string]any, len(wanted))
	for field, want := range wanted {
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

func projectTags(wanted, live any) any {
	want, okWant := wanted.(map[string]any)
	have, okHave := live.(map[string]any)
	if !okWant || !okHave {
		return live
	}
	out := make(map[string]any, len(want))
	for k, v := range have {
		if _, asked := want[k]; asked {
			out[k] = v
		}
	}
	return out
}

// asMarked is the projection of a thing of others as if it had the tags that
// only Poolwright gives: its owner could not set them to any avail, so their
// absence is no difference.
func asMarked(wanted, found map[string]any) map[string]any {
	want, ok := wanted["tags"].(map[string]any)
	if !ok {
		return found
	}
	tags := map[string]any{}
	if have, ok := found["tags"].(map[string]any); ok {
		maps.Copy(tags, have)
	}
	_, made := want[clusterTag] // then all of them are those of what we make
	for k, v := range want {
		if made || strings.HasPrefix(k, ownTags) {
			tags[k] = v
		}
	}
	out := maps.Clone(found)
	out["tags"] = tags
	return out
}

// satisfies reports whether the live object is as wanted.
func satisfies(wanted state.Item, live liveResource) bool {
	return live.object != nil && state.Equal(wanted.Object, project(wanted.Object, live.object))
}
