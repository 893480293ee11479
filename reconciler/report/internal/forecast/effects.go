package forecast

import (
	"slices"

	"github.com/poolwright/poolwright/provision"
)

// RequiresAction reports whether the changes take a node from pods, end nodes with their pool, or
// leave nodes that are never replaced: somebody must do something about that.
func (v View) RequiresAction(f *provision.Forecast) bool {
	outcomes := outcomesOf(f)
	removed := slices.ContainsFunc(f.Removed, func(x provision.RemovedPool) bool { return len(x.Nodes) > 0 || v.Offline })
	return len(f.PodScheduling.NewlyUnschedulable)+outcomes.count()-outcomes.waitingForReservation() > 0 || outcomes.unexplained || removed || len(outcomes.withoutController) > 0
}

// Costs reports whether the changes cost nodes, room or money, or may: nodes are replaced,
// new pods find no node, a limit is passed, more is paid, or not all of it is known.
func (v View) Costs(f *provision.Forecast) bool {
	return costsMore(f.Cost) || len(f.Replaced)+len(f.Removed)+len(f.Unknown)+len(newcomers(f))+len(v.uncounted(f))+len(overLimit(f))+atMost(f) > 0
}

// Empty reports whether the Forecast predicts nothing that anybody would have to read.
func Empty(f *provision.Forecast) bool {
	return len(f.Replaced)+len(f.Removed)+len(f.PodScheduling.NewlySchedulable)+len(f.PodScheduling.NewlyUnschedulable)+len(newcomers(f)) == 0 && len(plainText().Money(f.Cost)) == 0
}

// costsMore reports whether more is paid, or may be.
func costsMore(c provision.Cost) bool {
	_, more, _ := c.Difference()
	more += c.NonComputeAfter.Volumes + c.NonComputeAfter.PublicIPv4 - c.NonComputeNow.Volumes - c.NonComputeNow.PublicIPv4
	unbounded := c.Max == nil && c.MaxBefore != nil
	return c.After.Unpriced > c.UnpricedUnchanged || more > 0 && !nothing(more) || unbounded || c.Max != nil && c.MaxBefore != nil && *c.Max > *c.MaxBefore
}
