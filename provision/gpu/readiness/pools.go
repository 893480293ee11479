package readiness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Pools returns the state of each pool's GPUs, sorted by pool: those with nodes, and
// those with failures or a backoff. Rollout is left empty.
func (k *Controller) Pools(ctx context.Context) ([]gpu.PoolState, error) {
	plugin, err := readPlugin(ctx, k.cfg.Cache, k.cfg.ReadSharing)
	if err != nil {
		return nil, err
	}
	nodes, err := listNodes(ctx, k.cfg.Cache)
	if err != nil {
		return nil, err
	}
	pools := map[string]*gpu.PoolState{}
	pool := func(name string, config gpu.PluginConfig) *gpu.PoolState {
		if pools[name] == nil {
			pools[name] = &gpu.PoolState{Pool: name, Config: config.Name, Allocatable: gpu.Resources{config.Resource(): 0}}
		}
		return pools[name]
	}
	for i := range nodes {
		if !isManaged(&nodes[i]) {
			continue
		}
		s, ours, err := k.viewOf(ctx, plugin, &nodes[i], publishedPoll)
		if err == nil && ours {
			err = k.add(ctx, pool(s.pool, s.config), s)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range k.cfg.Backoff.Pools() {
		if config, served := plugin.sharing.ConfigForPool(name); served {
			pool(name, config)
		}
	}
	out := make([]gpu.PoolState, 0, len(pools))
	now := k.cfg.Clock.Now()
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		p := k.withBackoff(plugin, *pools[name], now)
		if p.Nodes > 0 || p.Failures > 0 || !p.BackoffUntil.IsZero() {
			out = append(out, p)
		}
	}
	return out, nil
}

// withBackoff completes the state of a pool by its back-off, and sorts its nodes.
func (k *Controller) withBackoff(plugin *pluginView, p gpu.PoolState, now time.Time) gpu.PoolState {
	slices.SortFunc(p.Unhealthy, func(a, b gpu.UnhealthyNode) int { return cmp.Compare(a.Node, b.Node) })
	var until time.Time
	if _, served := plugin.sharing.ConfigForPool(p.Pool); served {
		p.Failures, until, p.LastFailure = k.cfg.Backoff.State(p.Pool)
	}
	if until.After(now) {
		p.BackoffUntil = until
	}
	return p
}

// add counts a node into its pool.
func (k *Controller) add(ctx context.Context, p *gpu.PoolState, s nodeView) error {
	p.Nodes++
	if s.health.Ready && nodeReady(s.node) {
		p.Updated++
	}
	p.Unknown = cmp.Or(p.Unknown, s.unknown)
	advertised := gpu.Resources{}
	advertised.Add(s.node.Status.Allocatable)
	for name, n := range advertised {
		if n != 0 {
			p.Allocatable[name] += n
		}
	}
	problem, err := k.unhealthy(ctx, s)
	if err == nil && problem != nil {
		p.Unhealthy = append(p.Unhealthy, *problem)
	}
	return err
}

// unhealthy is a node that has advertised something else than it should for too long,
// or never advertised its GPUs in time, with what keeps it from being replaced; else
// nil.
func (k *Controller) unhealthy(ctx context.Context, s nodeView) (*gpu.UnhealthyNode, error) {
	now := k.cfg.Clock.Now()
	out := &gpu.UnhealthyNode{Node: s.node.Name}
	for _, owner := range s.node.OwnerReferences {
		if owner.Kind == "NodeClaim" {
			out.Claim = owner.Name
		}
	}
	if s.byDriver() {
		return k.lateOfDriver(s, out), nil
	}
	if since := k.records.mismatched(s.node); !s.health.Ready && !since.IsZero() && !now.Before(s.graceEnd(since)) {
		out.Reason, out.Message, out.Since = s.health.Reason, s.health.Message, since
		return out, nil
	}
	past := k.records.timesOf(s.node, now)
	if initialized(s.node) || s.health.Ready && nodeReady(s.node) || s.capacityRecorded(past) {
		return nil, nil
	}
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil {
		return nil, err
	}
	return k.late(s, claim, past, out), nil
}

// late completes the report on a node that starts; nil while it is not late.
func (k *Controller) late(s nodeView, claim *karpv1.NodeClaim, past nodeTimes, out *gpu.UnhealthyNode) *gpu.UnhealthyNode {
	now := k.cfg.Clock.Now()
	left, counts := k.timeLeft(s, claim)
	if !counts || left > s.warnAfter() {
		return nil
	}
	out.Reason, out.Message = s.diagnosis()
	out.Since = now.Add(left - s.warnAfter())
	if left > 0 {
		out.Message += "; its time is up at " + now.Add(left).UTC().Format("15:04:05 UTC")
	}
	out.Reason = cmp.Or(past.blocker.reason, out.Reason)
	if message := cmp.Or(k.blockedBy(s, claim), past.blocker).message; message != "" {
		out.Message += "; " + message
	}
	return out
}

// lateOfDriver completes the report on a node of the DRA driver; nil while it is as it should be, or may still come to be in time.
func (k *Controller) lateOfDriver(s nodeView, out *gpu.UnhealthyNode) *gpu.UnhealthyNode {
	since := k.records.mismatched(s.node)
	due := s.driverDue(since)
	if since.IsZero() || !s.lacksDevices() || k.cfg.Clock.Now().Before(due) {
		return nil
	}
	out.Reason, out.Message = s.diagnosis()
	out.Since = due
	return out
}

// publish reports when the node's part in Pools changed.
func (k *Controller) publish(ctx context.Context, s nodeView) error {
	part := gpu.PoolState{Pool: s.pool, Config: s.config.Name, Allocatable: gpu.Resources{}}
	if err := k.add(ctx, &part, s); err != nil {
		return err
	}
	if k.records.poolPartChanged(s.node.Name, fmt.Sprint(part)) {
		k.cfg.OnChange()
	}
	return nil
}

// drop drops a node that is gone or no longer ours; with the last of its pool,
// the metrics of pools that are gone, too.
func (k *Controller) drop(ctx context.Context, name string) {
	known, last := k.records.drop(name)
	if known {
		k.cfg.OnChange()
	}
	if !last {
		return
	}
	for _, pool := range k.records.empty(k.series.pools()) {
		err := k.cfg.Live.Get(ctx, client.ObjectKey{Name: pool}, &karpv1.NodePool{})
		switch {
		case apierrors.IsNotFound(err):
			k.series.drop(pool)
		case err != nil:
			// The next last node tries again; a series too many has no effect.
			k.cfg.Log.Info("Could not read whether a pool is gone; its metrics stay", "nodepool", pool, "error", err.Error())
		}
	}
}
