package kubernetes

import (
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// warnUnusedRules reports of each rule that ignores fields of no object that it does, with the Sync.
func (o *observation) warnUnusedRules() {
	for _, i := range o.target.desired.UnusedRules() {
		o.warnSync(finding.New(finding.IgnoreRuleUnused, "spec.ignore[%d] matches no object that is declared: correct its target, or remove it", finding.NewFact("index", i)))
	}
}

// warnSync adds a warning about the Sync itself, which may be among what it declares.
func (o *observation) warnSync(f finding.Finding) {
	k := state.Key{Target: Name, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: o.target.cfg.Namespace, Name: o.target.cfg.Sync}
	for i, item := range o.items {
		if item.Key == k {
			o.items[i].Warnings = append(o.items[i].Warnings, f)
			return
		}
	}
	o.items = append(o.items, state.Item{Key: k, Version: v1alpha1.GroupVersion.Version, Observation: state.Observation{Warnings: []finding.Finding{f}}})
}
