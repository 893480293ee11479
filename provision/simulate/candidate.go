package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/budget"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Candidate is a node with what decides whether Karpenter disrupts it now.
type Candidate struct {
	// Node has an empty Reason where the node has not drifted.
	provision.Node
	// QueuePosition is its place among the drifted nodes of all pools, from 1; 0 for one that has not drifted.
	QueuePosition int
	// Budgets are what the budgets of its pool allow, by reason: Empty, Drifted and Underutilized. Without a pool
	// there are none.
	Budgets map[karpv1.DisruptionReason]AllowedDisruptions
	// Unknown are sentences on what of its drift could not be determined.
	Unknown []string
}

// AllowedDisruptions is what a pool's budgets allow for one reason.
type AllowedDisruptions struct {
	// Allowed is how many nodes may be disrupted now, less those that are on their way already; Configured is without
	// that.
	Allowed, Configured int
	// Budget is the one that allows the least: "10%", or with its schedule; empty where there is none.
	Budget string
	// NextWindow is when the budgets allow a node next; zero while they do, and where they do not within a year.
	NextWindow time.Time
}

// DisruptionCandidate describes the node of a NodeClaim in a live cluster. The context must be one of
// engine.Offline. An error is of a snapshot without a time or without that NodeClaim, or a panic of Karpenter's
// over an invalid object.
func DisruptionCandidate(ctx context.Context, live provision.ClusterSnapshot, claim string) (out Candidate, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Candidate{}, fmt.Errorf("describing NodeClaim %s: Karpenter's code gave up with %v: check the objects with poolwright lint", claim, p)
		}
	}()
	at := slices.IndexFunc(live.NodeClaims, func(c *karpv1.NodeClaim) bool { return c.Name == claim })
	if live.Now.IsZero() || at < 0 {
		return out, errors.New("describing a node: the snapshot of the cluster has no time, or not the NodeClaim " + claim)
	}
	drifted, unknown, err := Drifted(ctx, live)
	if err != nil {
		return out, err
	}
	c := &comparison{unknown: snapshot.Unknowns{}}
	c.before = &placement.Simulation{Resolved: &offerings.Resolved{Indexed: snapshot.New(live, c.unknown)}}
	c.after = c.before
	limits, err := pdb.NewLimits(ctx, &snapshot.Client{Snapshot: c.before.Resolved.Indexed})
	if err != nil {
		return out, fmt.Errorf("describing a node: %w", err)
	}
	out.Node = c.node(live.NodeClaims[at], limits)
	out.Unknown = unknown[out.Pool]
	for i, n := range drifted {
		if n.NodeClaim == claim {
			out.Reason, out.QueuePosition = n.Reason, i+1
		}
	}
	out.Budgets = c.budgets(out.Pool)
	return out, ctx.Err()
}

// Budgets are what the budgets of each pool of a live cluster allow now, by pool and reason. It has no error but a panic
// of Karpenter's over an invalid object.
func Budgets(live provision.ClusterSnapshot) (out map[string]map[karpv1.DisruptionReason]AllowedDisruptions, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("reading disruption budgets: Karpenter's code gave up with %v: check the objects with poolwright lint", p)
		}
	}()
	c := &comparison{unknown: snapshot.Unknowns{}}
	c.before = &placement.Simulation{Resolved: &offerings.Resolved{Indexed: snapshot.New(live, c.unknown)}}
	out = map[string]map[karpv1.DisruptionReason]AllowedDisruptions{}
	for name := range maps.Keys(c.before.Pools) {
		out[name] = c.budgets(name)
	}
	return out, nil
}

// budgets are what the budgets of a pool allow now, by reason.
func (c *comparison) budgets(name string) map[karpv1.DisruptionReason]AllowedDisruptions {
	pool := c.before.Pools[name]
	if pool == nil {
		return nil
	}
	nodes, busy := budget.Count(c.before.Resolved.Indexed, name, karpv1.DisruptionReasonDrifted)
	out := map[karpv1.DisruptionReason]AllowedDisruptions{}
	for _, reason := range []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonDrifted, karpv1.DisruptionReasonUnderutilized} {
		configured := min(pool.MustGetAllowedDisruptions(c.before.Clock, nodes, reason), nodes)
		one := AllowedDisruptions{Configured: configured, Allowed: max(0, configured-busy)}
		if least := budget.Narrowest(pool, c.before.Clock, nodes, reason); least != nil {
			one.Budget = budget.Written(*least)
		}
		if configured == 0 && nodes > 0 {
			if opens, ok := budget.NextWindow(pool, nodes, c.before.Now, reason); ok {
				one.NextWindow = opens.UTC()
			}
		}
		out[reason] = one
	}
	return out
}
