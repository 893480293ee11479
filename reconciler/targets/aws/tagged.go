package aws

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state"
)

// tagObject writes tags in the form of an object.
func tagObject(tags map[string]string) map[string]any {
	out := make(map[string]any, len(tags))
	for k, v := range tags {
		out[k] = v
	}
	return out
}

// tagsOf are the tags that a wanted thing asks for.
func tagsOf(wanted state.Item) map[string]string {
	asked, _ := wanted.Object["tags"].(map[string]any)
	out := make(map[string]string, len(asked))
	for k, v := range asked {
		if text, ok := v.(string); ok {
			out[k] = text
		}
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
