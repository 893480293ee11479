package declared

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// confirmations are the annotations by which a person lets pass what a guard holds.
func confirmations() []string {
	return []string{v1alpha1.ConfirmAnnotation, v1alpha1.ConfirmGarbageCollectionAnnotation}
}

// confirming is the Problem of an object that brings a confirmation along: it would let
// pass in one commit what nobody has read, and whoever may write to the repository
// need not be who may confirm.
func (d *Declared) confirming(item state.Item, documents func(state.Origin) (manifest.Document, bool)) (state.Problem, bool) {
	metadata, _ := item.Object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range confirmations() {
		if _, there := annotations[name]; !there {
			continue
		}
		at := item.Origin
		if doc, ok := documents(at); ok {
			if line, _ := doc.Find([]string{"metadata", "annotations", name}); line > 0 {
				at.Line = line
			}
		}
		return state.Problem{Origin: at, Message: fmt.Sprintf(
			"%s: the annotation %s is a person's consent and never comes from a repository; take it out here, and set it on the live object with kubectl annotate", item.Key, name)}, true
	}
	return state.Problem{}, false
}
