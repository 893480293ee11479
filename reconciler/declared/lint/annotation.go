package lint

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// knownAnnotations are our annotations that mean something on an object in a repository.
func knownAnnotations() []string {
	return []string{v1alpha1.PruneAnnotation, v1alpha1.GPULimitAnnotation, v1alpha1.HoldUntilAnnotation, v1alpha1.HoldReasonAnnotation}
}

// annotations finds those of ours that nobody reads: a slip of the pen would leave
// a pool without its limit, or an object without its protection.
func (c *schemaValidator) annotations(item state.Item) {
	metadata, _ := item.Object["metadata"].(map[string]any)
	given, _ := metadata["annotations"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if strings.HasPrefix(name, v1alpha1.GroupVersion.Group+"/") && !slices.Contains(knownAnnotations(), name) {
			c.report(item, "metadata.annotations["+name+"]", codeAnnotationUnknown, "nobody reads this annotation%s",
				finding.As("suggestion", manifest.ClosestName(name, knownAnnotations()), manifest.Suggestion(name, knownAnnotations())))
		}
	}
}
