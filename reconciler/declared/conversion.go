package declared

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// deprecatedAPI reports whether an item is of a kind or version of Karpenter's that v1 took
// the place of. Labels of those days alone do not count: what a repository of v1
// means by them is not known, and lint reports them.
func deprecatedAPI(item state.Item) bool {
	switch item.Key.Group {
	case "karpenter.sh":
		return item.Key.Kind == "Provisioner" || item.Key.Kind == "NodePool" && item.Version != "v1"
	case "karpenter.k8s.aws":
		return item.Key.Kind == "AWSNodeTemplate" || item.Key.Kind == "EC2NodeClass" && item.Version != "v1"
	}
	return false
}

// convert takes what is written for an old API of Karpenter for what it means in v1.
// What depends on Kubernetes' version goes by the declared Cluster's.
func (d *Declared) convert() error {
	after, changes, problems, err := conversion.Objects(d.Set.Items(), conversion.Options{UnresolvedVariables: d.draft, Documents: d.Documents()})
	if err != nil {
		return fmt.Errorf("converting Karpenter's old APIs: %w", err)
	}
	d.Converted = changes
	d.Problems = append(d.Problems, problems...)
	d.Set = d.distinct(after)
	return nil
}

// distinct checks what was converted as anything else, and refuses the second of each
// key: what is made anew, such as the copy of a class, was never compared.
func (d *Declared) distinct(items []state.Item) state.Set {
	first := map[state.Key]state.Origin{}
	var kept []state.Item
	for _, item := range items {
		_, err := d.item(manifest.Object{Item: item})
		at, twice := first[item.Key]
		switch {
		case err != nil:
			d.Problems = append(d.Problems, invalid(item.Origin, err))
		case twice:
			d.Problems = append(d.Problems, state.NewProblem(item.Origin, finding.New(finding.DuplicateObject,
				"%s is declared twice once the old API of Karpenter is converted, first in %s; rename one", finding.NewFact("object", item.Key), finding.NewFact("declaredAt", at))))
		default:
			first[item.Key] = item.Origin
			kept = append(kept, item)
		}
	}
	return state.NewSet(kept...)
}
