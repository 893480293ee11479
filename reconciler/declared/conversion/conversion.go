// Package conversion rewrites manifests of Karpenter's old APIs (Provisioner and
// AWSNodeTemplate, v1alpha5 and v1alpha1; NodePool and EC2NodeClass, v1beta1) for
// v1, so that they mean what they meant, and the labels and annotations that
// other objects name them by.
//
// It is pure: texts or objects in, texts or objects out. What the old API took for
// granted and v1 takes otherwise is written down; what v1 cannot express is left as it is and
// reported, with what to write instead. A second conversion changes nothing. What is sure stands in
// internal/table/table.yaml; what needs a decision is one function a kind, in pool.go and
// class.go. Start reading at Files and Objects.
package conversion

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/table"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// codeConversionBlocked is of what cannot be written as v1.
const codeConversionBlocked finding.Code = "ConversionBlocked"

// Objects converts objects that were rendered together, for a loop that follows
// a repository written for an old API. Items that need nothing come back as they
// are, without a copy; the others are new values with the Key and Version of v1
// and the Origin of the old one, and a class that splits brings more of them.
//
// The changes are for a report: none holds anything back. The problems are what
// could not be converted, such as a launchTemplate. Those items are left out, so
// that nothing may be pruned while there is a problem, as for any other.
func Objects(items []state.Item, opts Options) ([]state.Item, []Change, []state.Problem, error) {
	t, err := table.Read()
	if err != nil {
		return nil, nil, nil, err
	}
	r := newConverter(t, opts)
	r.rendered = true
	out := slices.Clone(items)
	for i, item := range items {
		if r.concerns(item) {
			r.objects = append(r.objects, r.fromItem(item, i))
		}
	}
	r.locate()
	r.convertAll()
	gone := map[int]bool{}
	for _, o := range r.objects {
		switch item := o.toItem(items); {
		case o.blocked:
			gone[o.item] = true
		case o.item < 0:
			out = append(out, item)
		case item.Key != out[o.item].Key || !state.Equal(item.Object, out[o.item].Object):
			out[o.item] = item
		}
	}
	var kept []state.Item
	for i, item := range out {
		if !gone[i] {
			kept = append(kept, item)
		}
	}
	var changes []Change
	var problems []state.Problem
	for _, c := range sorted(r.changes) {
		if c.Blocks {
			problems = append(problems, state.Problem{
				Origin: c.Origin, Code: codeConversionBlocked, Facts: finding.FactsOf(finding.NewFact("object", c.Object), finding.NewFact("reason", c.Text)),
				Message: c.Object + ": " + c.Text, Field: c.Field, Detail: c.Text,
			})
		} else {
			changes = append(changes, c)
		}
	}
	return kept, changes, problems, nil
}
