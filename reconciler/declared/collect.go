package declared

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// collect checks objects, refuses the second of each key, and converts old ones.
func (d *Declared) collect(objects []manifest.Object) error {
	first, documents := map[state.Key]int{}, d.Documents()
	items := make([]state.Item, 0, len(objects))
	for i, o := range objects {
		item, err := d.item(o)
		if err != nil {
			d.Problems = append(d.Problems, invalid(o.Origin, err))
			continue
		}
		if at, dup := first[item.Key]; dup {
			d.Problems = append(d.Problems, state.NewProblem(o.Origin, finding.New(finding.DuplicateObject, "%s is declared twice, %s",
				finding.NewFact("object", item.Key), finding.As("declaredAt", objects[at].Origin, twice(objects[at], o)))))
			continue
		}
		first[item.Key] = i
		if problem, refused := d.confirming(item, documents); refused {
			d.Problems = append(d.Problems, problem)
			continue
		}
		items = append(items, item)
	}
	d.Set = state.NewSet(items...)
	if slices.ContainsFunc(items, deprecatedAPI) {
		if err := d.convert(); err != nil {
			return err
		}
	}
	slices.SortStableFunc(d.Problems, compareProblems)
	d.Problems = slices.Compact(d.Problems)
	return nil
}

// invalid is the problem of what is no object.
func invalid(at state.Origin, err error) state.Problem {
	return state.NewProblem(at, finding.New(finding.ObjectInvalid, "%v", finding.NewFact("reason", err)))
}

// twice names where an object was found first, and the remedy.
func twice(first, again manifest.Object) string {
	if first.Origin != again.Origin || first.Kustomization == again.Kustomization {
		return fmt.Sprintf("first in %s; remove one", first.Origin)
	}
	if first.Kustomization == "" || again.Kustomization == "" {
		return fmt.Sprintf("once by the file itself and once by %s, which includes it; choose the folder of that kustomization instead", first.Kustomization+again.Kustomization)
	}
	return fmt.Sprintf("once by %s and once by %s, which both include this file; choose the folder of one of them instead", first.Kustomization, again.Kustomization)
}

// confirmations are the annotations by which a person lets pass what a guard holds, has a Sync apply
// another commit than that which the repository leads to, or has a suspension end.
func confirmations() []string {
	return []string{v1alpha1.ConfirmAnnotation, v1alpha1.ConfirmGarbageCollectionAnnotation, v1alpha1.RollbackAnnotation, v1alpha1.RollbackReasonAnnotation, v1alpha1.SuspendUntilAnnotation}
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
		return state.NewProblem(at, finding.New(codeConfirmationInRepository,
			"%s: the annotation %s is a person's consent and never comes from a repository; take it out here, and set it on the live object with kubectl annotate",
			finding.NewFact("object", item.Key), finding.NewFact("annotation", name))), true
	}
	return state.Problem{}, false
}

func compareProblems(a, b state.Problem) int {
	if c := strings.Compare(a.Origin.File, b.Origin.File); c != 0 {
		return c
	}
	if a.Origin.Line != b.Origin.Line {
		return a.Origin.Line - b.Origin.Line
	}
	return strings.Compare(a.Message, b.Message)
}
