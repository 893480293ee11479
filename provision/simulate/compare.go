package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate/internal/drift"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/repair"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Compare returns what the change from before to after does. Cluster, moment, nodes,
// NodeClaims, running pods and budgets are those of before, as what is there when the
// change is made; after counts with its pools, classes, overlays and workloads, and with
// its DaemonSets, RuntimeClasses and waiting pods, which are those of before where it
// has none. Classes of after without a status have that of before.
//
// Workloads are what each side declares. Pods of theirs that there are, among those
// of before, stand for as many replicas; only for the others is a node sought. Where
// after requires something else of nodes than before did, all are made anew; of a
// workload that after lacks, they end.
//
// The context must be one of engine.Offline: Karpenter's options are in it. An
// error means that no forecast can be computed at all: a region without prices, an
// ended context, a panic of Karpenter's over an invalid object. Neither ClusterSnapshot is
// changed.
func Compare(ctx context.Context, before, after provision.ClusterSnapshot, types *catalog.Catalog) (out provision.Forecast, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = provision.Forecast{}, fmt.Errorf("forecasting a change of pools: Karpenter's code gave up with %v: give a context of engine.Offline, and check the objects with poolwright lint", p)
		}
	}()
	if before.Cluster.Region == "" || before.Now.IsZero() {
		return out, errors.New("forecasting a change of pools: the snapshot of the cluster has neither region nor time: fill Cluster.Region and Now")
	}
	c, err := newComparison(ctx, before, after, types)
	if err != nil {
		return out, fmt.Errorf("forecasting a change of pools: %w", err)
	}
	if err := c.fit(ctx); err != nil {
		return out, fmt.Errorf("forecasting what fits: %w", err)
	}
	if err := c.checkLimits(ctx); err != nil {
		return out, fmt.Errorf("forecasting what limits leave room for: %w", err)
	}
	if err := c.replacements(ctx); err != nil {
		return out, fmt.Errorf("forecasting what is launched: %w", err)
	}
	return c.result(), ctx.Err()
}

func newComparison(ctx context.Context, before, after provision.ClusterSnapshot, types *catalog.Catalog) (*comparison, error) {
	after.Cluster, after.Now = before.Cluster, before.Now
	c := &comparison{unknown: snapshot.Unknowns{}, replacementOfferings: map[string]*offerings.Offering{}}
	was, is := snapshot.New(before, c.unknown), snapshot.New(after, c.unknown)
	is.Observe(was)
	var err error
	if c.catalog, err = offerings.NewCatalog(ctx, before.Cluster, types, c.unknown); err != nil {
		return nil, err
	}
	c.before, c.after = &placement.Simulation{}, &placement.Simulation{Explain: true}
	if c.before.Resolved, err = c.catalog.Resolve(ctx, was); err != nil {
		return nil, err
	}
	if c.after.Resolved, err = c.catalog.Resolve(ctx, is); err != nil {
		return nil, err
	}
	c.drift = &drift.Change{Before: c.before.Resolved, After: c.after.Resolved, Unknown: c.unknown}
	if err := c.classify(ctx); err != nil {
		return nil, err
	}
	if c.repairs, err = repair.Of(ctx, c.before.Indexed, c.after.Pools); err != nil {
		return nil, err
	}
	return c, ctx.Err()
}

func (c *comparison) result() provision.Forecast {
	out := provision.Forecast{
		Replaced: orEmpty(c.replaced), Drifted: orEmpty(c.drifted), Removed: orEmpty(c.removed),
		PodScheduling: c.found, Pools: []provision.Pool{},
	}
	for _, name := range c.poolNames() {
		out.Pools = append(out.Pools, c.pool(name))
	}
	out.Cost = c.total(out.Pools)
	out.Rollout, out.ReservationEnds = c.rollout(), c.reservationEnds()
	out.Rollout.Assumptions = append(out.Rollout.Assumptions, c.assumptions...)
	if out.Cost.SpotUnknown() && out.Rollout.Nodes > 0 {
		out.Rollout.Assumptions = append(out.Rollout.Assumptions, "Spot prices are not known: each spot instance is of the allowed type with the lowest on-demand price.")
	}
	out.Repairs, out.Unknown = c.repairs, c.unknown.Sorted()
	return out
}

// poolNames are those of both sides, sorted.
func (c *comparison) poolNames() []string {
	var names []string
	for name := range c.before.Pools {
		names = append(names, name)
	}
	for name := range c.after.Pools {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pool computes everything of one pool.
func (c *comparison) pool(name string) provision.Pool {
	out := provision.Pool{Name: name, Changes: c.changes(name), Nodes: len(c.before.Claims[name])}
	_, was := c.before.Pools[name]
	_, is := c.after.Pools[name]
	switch {
	case !was:
		out.Action = "create"
	case !is:
		out.Action = "delete"
	case slices.ContainsFunc(out.Changes, func(ch provision.Change) bool { return ch.Object == "NodePool/"+name }):
		out.Action = "update"
	}
	for _, n := range c.replaced {
		if n.Pool == name {
			out.Replaced++
		}
	}
	if out.Action != "" || out.Replaced > 0 || slices.ContainsFunc(c.found.NewlySchedulable, func(p provision.Placement) bool { return p.Pool == name }) {
		c.catalog.WarnRefused(name, c.after.Offerings[name])
	}
	out.ReplacesAll, out.ReplacesSome = c.drift.Extent(name)
	out.OverLimit = c.over(name)
	out.Cost = c.cost(name)
	out.Disruption = c.disruption(name)
	return out
}

// orEmpty makes a list that is never null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
