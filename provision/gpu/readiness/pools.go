package readiness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// Pools tells how the GPUs of each pool stand, sorted by pool: those with nodes,
// and those with failures or a hold. Rollout is left empty.
func (k *Keeper) Pools(ctx context.Context) ([]gpu.PoolState, error) {
	scene, err := k.scene(ctx, k.cfg.Cache, k.cfg.Sharing.Read)
	if err != nil {
		return nil, err
	}
	nodes, err := listNodes(ctx, k.cfg.Cache)
	if err != nil {
		return nil, err
	}
	pools := map[string]*gpu.PoolState{}
	pool := func(name string, profile gpu.Profile) *gpu.PoolState {
		if pools[name] == nil {
			pools[name] = &gpu.PoolState{Pool: name, Profile: profile.Name, Offered: gpu.Offer{profile.Resource(): 0}}
		}
		return pools[name]
	}
	for i := range nodes {
		if !minded(&nodes[i]) {
			continue
		}
		if s, ours := scene.look(&nodes[i]); ours {
			if err := k.add(ctx, pool(s.pool, s.profile), s); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range k.cfg.Book.Pools() {
		if profile, served := scene.sharing.For(name); served {
			pool(name, profile)
		}
	}
	out := make([]gpu.PoolState, 0, len(pools))
	now := k.cfg.Clock.Now()
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		p := *pools[name]
		slices.SortFunc(p.Troubles, func(a, b gpu.Trouble) int { return cmp.Compare(a.Node, b.Node) })
		var until time.Time
		if p.Failures, until, p.LastFailure = k.cfg.Book.State(name); until.After(now) {
			p.HeldUntil = until
		}
		if p.Nodes > 0 || p.Failures > 0 || !p.HeldUntil.IsZero() {
			out = append(out, p)
		}
	}
	return out, nil
}

// add counts a node into its pool.
func (k *Keeper) add(ctx context.Context, p *gpu.PoolState, s sight) error {
	p.Nodes++
	if s.verdict.Agrees && nodeReady(s.node) {
		p.Updated++
	}
	for _, name := range []corev1.ResourceName{gpu.Resource, gpu.SharedResource} {
		if quantity := s.node.Status.Allocatable[name]; quantity.Value() != 0 {
			p.Offered[name] += quantity.Value()
		}
	}
	trouble, err := k.trouble(ctx, s)
	if err == nil && trouble != nil {
		p.Troubles = append(p.Troubles, *trouble)
	}
	return err
}

// trouble is a node that has offered something else than it should for too long,
// or never offered its GPUs in time, with what keeps it from being replaced; else
// nil.
func (k *Keeper) trouble(ctx context.Context, s sight) (*gpu.Trouble, error) {
	now := k.cfg.Clock.Now()
	out := &gpu.Trouble{Node: s.node.Name}
	for _, owner := range s.node.OwnerReferences {
		if owner.Kind == "NodeClaim" {
			out.Claim = owner.Name
		}
	}
	if since := k.memory.doubted(s.node); !s.verdict.Agrees && !since.IsZero() && !now.Before(s.doubtful(since)) {
		out.Reason, out.Message, out.Since = s.verdict.Reason, s.verdict.Message, since
		return out, nil
	}
	past := k.memory.past(s.node, now)
	if initialized(s.node) || s.verdict.Agrees && nodeReady(s.node) || s.vouched(past) {
		return nil, nil
	}
	claim, err := claimOf(ctx, k.cfg.Cache, s.node)
	if err != nil || claim == nil {
		return nil, err
	}
	return k.late(s, claim, past, out), nil
}

// late completes the trouble of a node that starts; nil while it is not late.
func (k *Keeper) late(s sight, claim *karpv1.NodeClaim, past past, out *gpu.Trouble) *gpu.Trouble {
	now := k.cfg.Clock.Now()
	left, counts := k.left(s, claim)
	if !counts || left > s.worrying() {
		return nil
	}
	out.Reason, out.Message = s.diagnosis()
	out.Since = now.Add(left - s.worrying())
	if left > 0 {
		out.Message += "; its time is up at " + now.Add(left).UTC().Format("15:04:05 UTC")
	}
	out.Reason = cmp.Or(past.note.reason, out.Reason)
	if words := cmp.Or(k.spared(s, claim), past.note.words); words != "" {
		out.Message += "; " + words
	}
	return out
}

// show tells when the node's part in Pools changed.
func (k *Keeper) show(ctx context.Context, s sight) error {
	part := gpu.PoolState{Pool: s.pool, Profile: s.profile.Name, Offered: gpu.Offer{}}
	if err := k.add(ctx, &part, s); err != nil {
		return err
	}
	if k.memory.show(s.node.Name, fmt.Sprint(part)) {
		k.cfg.Tell()
	}
	return nil
}

// forget drops a node that is gone or no longer ours; with the last of its pool,
// the metrics of pools that are gone, too.
func (k *Keeper) forget(ctx context.Context, name string) {
	known, last := k.memory.forget(name)
	if known {
		k.cfg.Tell()
	}
	if !last {
		return
	}
	for _, pool := range k.memory.empty(k.series.pools()) {
		err := k.cfg.Live.Get(ctx, client.ObjectKey{Name: pool}, &karpv1.NodePool{})
		switch {
		case apierrors.IsNotFound(err):
			k.series.forget(pool)
		case err != nil:
			// The next last node tries again; a series too many does no harm.
			k.cfg.Log.Info("Could not tell whether a pool is gone, its metrics stay", "nodepool", pool, "error", err.Error())
		}
	}
}
