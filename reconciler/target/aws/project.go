package aws

import "github.com/poolwright/poolwright/reconciler/state"

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

// satisfies reports whether the live object is as wanted.
func satisfies(wanted state.Item, live sighting) bool {
	return live.object != nil && state.Equal(wanted.Object, project(wanted.Object, live.object))
}
