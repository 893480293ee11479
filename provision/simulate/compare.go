package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
)

// Compare tells what the step from before to after does. Cluster, moment, nodes,
// NodeClaims, running pods and budgets are those of before, as what is there when
// the step is made; after counts with its pools, classes, overlays and workloads,
// and with its DaemonSets, RuntimeClasses and waiting pods, which are those of before
// where it has none. Classes of after without a status have that of before.
//
// Workloads are what each side declares. Pods of theirs that there are, among those
// of before, stand for as many replicas; only the others are looked for a node for.
// Where after asks otherwise of nodes than before did, all are made anew; of a
// workload that after lacks, they end.
//
// The context must be one of engine.Offline: Karpenter's options are in it. An
// error means that the question cannot be answered at all: a region without
// prices, an ended context, a panic of Karpenter's over an odd object. Neither
// Fleet is changed.
func Compare(ctx context.Context, before, after provision.Fleet, types *catalog.Catalog) (out provision.Forecast, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = provision.Forecast{}, fmt.Errorf("forecasting a change of pools: Karpenter's code gave up with %v: give a context of engine.Offline, and check the objects with poolwright lint", p)
		}
	}()
	if before.Cluster.Region == "" || before.Now.IsZero() {
		return out, errors.New("forecasting a change of pools: the fleet says neither region nor time: fill Cluster.Region and Now")
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
	return c.result(), ctx.Err()
}

// comparison is one Compare at work.
type comparison struct {
	before, after *fleet
	catalog       *offeringCatalog
	unknown       unknowns
	// replaced, drifted and removed are in order.
	replaced, drifted []provision.Node
	removed           []provision.Removal
	found             provision.Fit
	// successors are what replaced nodes become, by pool, type, zone and capacity
	// type.
	successors map[string]*offer
	// fullPools are the sentences about limits, by pool.
	fullPools map[string]string
	// capacities are what NodeClaims count for, by name.
	capacities map[string]corev1.ResourceList
	// managed are pods without an owner that somebody makes again; see alone.
	managed map[provision.Pod]bool
}

func newComparison(ctx context.Context, before, after provision.Fleet, types *catalog.Catalog) (*comparison, error) {
	after.Cluster, after.Now = before.Cluster, before.Now
	c := &comparison{unknown: unknowns{}, successors: map[string]*offer{}, capacities: map[string]corev1.ResourceList{}}
	c.before, c.after = newFleet(before, c.unknown), newFleet(after, c.unknown)
	c.after.observe(c.before)
	var err error
	if c.catalog, err = newOfferingCatalog(ctx, before.Cluster.Region, types, c.unknown); err != nil {
		return nil, err
	}
	for _, f := range []*fleet{c.before, c.after} {
		if err := c.catalog.resolve(ctx, f); err != nil {
			return nil, err
		}
	}
	if err := c.classify(ctx); err != nil {
		return nil, err
	}
	return c, ctx.Err()
}

func (c *comparison) result() provision.Forecast {
	out := provision.Forecast{
		Replaced: orEmpty(c.replaced), Drifted: orEmpty(c.drifted), Removed: orEmpty(c.removed),
		Fit: c.found, Pools: []provision.Pool{},
	}
	for _, name := range c.poolNames() {
		out.Pools = append(out.Pools, c.pool(name))
	}
	out.Cost = c.total(out.Pools)
	out.Rollout = c.rollout()
	out.Unknown = c.unknown.sorted()
	return out
}

// poolNames are those of both sides, sorted.
func (c *comparison) poolNames() []string {
	var names []string
	for name := range c.before.pools {
		names = append(names, name)
	}
	for name := range c.after.pools {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// pool tells everything of one pool.
func (c *comparison) pool(name string) provision.Pool {
	out := provision.Pool{Name: name, Changes: c.changes(name), Nodes: len(c.before.claims[name])}
	_, was := c.before.pools[name]
	_, is := c.after.pools[name]
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
	out.Drifts, out.SomeDrift = c.drifts(name)
	out.OverLimit = c.over(name)
	out.Cost = c.cost(name)
	out.RolloutRate = c.rolloutRate(name)
	return out
}

// unknowns are what a forecast leaves open, each sentence once; true where more nodes may
// drift.
type unknowns map[string]bool

func (u unknowns) add(format string, args ...any) { u[fmt.Sprintf(format, args...)] = false }

// addDrift is add where more nodes may drift.
func (u unknowns) addDrift(format string, args ...any) { u[fmt.Sprintf(format, args...)] = true }

func (u unknowns) sorted() []provision.Unknown {
	out := make([]provision.Unknown, 0, len(u))
	for _, text := range slices.Sorted(maps.Keys(u)) {
		out = append(out, provision.Unknown{Text: text, Drift: u[text]})
	}
	return out
}

// orEmpty makes a list that is never null in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
