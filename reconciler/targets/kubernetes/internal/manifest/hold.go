package manifest

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// emptyTime stands for an annotation that is empty, and is no time.
const emptyTime = "(empty)"

// Hold is the correction policy with which a person marked an object by its annotations: that it stays as it is until a
// time. It is the zero value where nobody did. An empty annotation is a mark as well: what wrote it failed, and a person must be
// warned of that.
func Hold(annotations map[string]string) state.CorrectionPolicy {
	until, marked := annotations[v1alpha1.HoldUntilAnnotation]
	if !marked {
		return state.CorrectionPolicy{}
	}
	return state.CorrectionPolicy{HoldUntil: cmp.Or(until, emptyTime), HoldReason: annotations[v1alpha1.HoldReasonAnnotation]}
}

// DeclaredHold is the same of a declared object.
func DeclaredHold(object map[string]any) (until, reason string) {
	annotations, _, err := unstructured.NestedStringMap(object, "metadata", "annotations")
	if err != nil { // What is no text is a problem of its own.
		return "", ""
	}
	marked := Hold(annotations)
	return marked.HoldUntil, marked.HoldReason
}
