// Package gpulint finds what people get wrong about GPUs: what a DevicePlugin, the
// NodePools, their EC2NodeClasses, NodeOverlays and the workloads of one repository
// declare of the same GPUs, held against each other and against what instance types
// have.
//
// It is pure and refuses nothing. What an object declares by itself is its schema's
// matter, and what nothing can be made of is package deviceplugin's. It reports only
// what the repository shows: of pools, plugins and pods that it does not declare it
// assumes nothing. Start reading at Check.
package gpulint

import (
	"cmp"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
)

// Check returns the findings in the order of file and line. Objects that cannot
// be read are passed over: their schema reports what is wrong with them.
func Check(d declared.Declared, types *catalog.Catalog) []lint.Diagnostic {
	c := &linter{repository: readRepository(d, types)}
	for _, check := range []func(){
		c.configs, c.engine, c.plugins, c.taints, c.renames, c.limits, c.budgets, c.overlays,
		c.timeouts, c.images, c.registration, c.bottlerocket, c.mig, c.requests, c.claims, c.packing, c.reserved,
	} {
		check()
	}
	slices.SortStableFunc(c.findings, func(a, b lint.Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line),
			a.Key.Compare(b.Key), cmp.Compare(a.Text, b.Text),
		)
	})
	return slices.Compact(c.findings)
}
