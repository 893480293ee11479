// Package status reads the live DevicePlugin and writes its status: what the nodes advertise, which
// are unhealthy, what is held back, and whether Karpenter honours the overlays.
//
// It only reports. What it reports comes from the packages that act on nodes, through
// the functions of a Reconciler; it refuses to conclude anything of its own. Start
// reading at Reconciler.
package status

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	overlayv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Reconciler keeps the status of every DevicePlugin true. All fields are required.
type Reconciler struct {
	// Cache reads DevicePlugins and the NodeOverlays that carry gpu.ConfigLabel.
	Cache cache.Cache
	// Writer patches the status.
	Writer client.StatusClient
	// Pools is what the nodes show, pool by pool, and PluginUpdates what the
	// replacement of plugins does in each. Nothing is written before Pools has returned,
	// which may take as long as it likes.
	Pools         func(context.Context) ([]gpu.PoolState, error)
	PluginUpdates func() map[string]string
	// Changed notifies the Reconciler when either may return something else.
	Changed <-chan event.GenericEvent
	// Clock decides what is still held.
	Clock clock.PassiveClock
}

// SetupWithManager registers the controller, for the leader only.
func (r *Reconciler) SetupWithManager(mgr manager.Manager) error {
	all := func(context.Context, *overlayv1alpha1.NodeOverlay) []reconcile.Request {
		return []reconcile.Request{{}}
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("poolwright.deviceplugin").
		WatchesRawSource(source.Kind(r.Cache, &v1alpha1.DevicePlugin{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(context.Context, *v1alpha1.DevicePlugin) []reconcile.Request { return []reconcile.Request{{}} }))).
		WatchesRawSource(source.Kind(r.Cache, &overlayv1alpha1.NodeOverlay{}, handler.TypedEnqueueRequestsFromMapFunc(all))).
		WatchesRawSource(source.Channel(r.Changed, handler.EnqueueRequestsFromMapFunc(
			func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} }))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("registering the DevicePlugin's status: %w", err)
	}
	return nil
}

// Reconcile writes the status of all DevicePlugins, whichever one was requested.
func (r *Reconciler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	// First, because it may wait for what an earlier process wrote into any of them.
	pools, err := r.Pools(ctx)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading what the nodes advertise: %w", err)
	}
	counts, others, err := Live(ctx, r.Cache)
	if err != nil || counts == nil {
		return ctrl.Result{}, err
	}
	for i := range others {
		other := others[i].DeepCopy()
		other.Status.Nodes, other.Status.UpdatedNodes, other.Status.Pools = 0, 0, nil
		conclude(other, metav1.ConditionFalse, "SeveralDevicePlugins", fmt.Sprintf("DevicePlugin %s is older and counts; keep one", counts.Name))
		if err := r.write(ctx, &others[i], other); err != nil {
			return ctrl.Result{}, err
		}
	}
	refused, err := r.refusedOverlays(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock.Now()
	updated := counts.DeepCopy()
	fill(&updated.Status, pools, r.PluginUpdates())
	status, reason, message := readyCondition(updated.Status, unknownPools(pools), refused, now)
	conclude(updated, status, reason, message)
	if err := r.write(ctx, counts, updated); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: untilNext(pools, now)}, nil
}

// write sends what changed of a status.
func (r *Reconciler) write(ctx context.Context, was, is *v1alpha1.DevicePlugin) error {
	if equality.Semantic.DeepEqual(was.Status, is.Status) {
		return nil
	}
	if err := r.Writer.Status().Patch(ctx, is, client.MergeFrom(was)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of DevicePlugin %s: %w", was.Name, err)
	}
	return nil
}

// refusedOverlays names our overlays that Karpenter refuses, with its reasons. One on
// which it has not reported yet is not refused.
func (r *Reconciler) refusedOverlays(ctx context.Context) ([]string, error) {
	var list overlayv1alpha1.NodeOverlayList
	if err := r.Cache.List(ctx, &list, client.HasLabels{gpu.ConfigLabel}); err != nil {
		return nil, fmt.Errorf("listing NodeOverlays: %w", err)
	}
	var out []string
	for i := range list.Items {
		overlay := &list.Items[i]
		for _, condition := range overlay.GetConditions() {
			if condition.Type != fluxmeta.ReadyCondition && condition.Status == metav1.ConditionFalse {
				out = append(out, fmt.Sprintf("%s (%s)", overlay.Name, condition.Reason))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// maxUnhealthyNodes is how many nodes a pool's status names.
const maxUnhealthyNodes = 10

func fill(status *v1alpha1.DevicePluginStatus, pools []gpu.PoolState, rollouts map[string]string) {
	status.Nodes, status.UpdatedNodes, status.Pools = 0, 0, nil
	for _, p := range pools {
		status.Nodes += int32(p.Nodes)
		status.UpdatedNodes += int32(p.Updated)
		if p.Nodes == 0 && p.Failures == 0 && p.BackoffUntil.IsZero() {
			continue
		}
		out := v1alpha1.GPUPoolStatus{
			Name: p.Pool, Config: p.Config, Nodes: int32(p.Nodes), UpdatedNodes: int32(p.Updated),
			PluginUpdate: sanitize.Text(rollouts[p.Pool]), Failures: int32(p.Failures), LastFailure: sanitize.Text(p.LastFailure),
		}
		for name, n := range p.Allocatable {
			if out.Allocatable == nil {
				out.Allocatable = map[string]int64{}
			}
			if n > 0 {
				out.Allocatable[string(name)] = n
			}
		}
		if !p.BackoffUntil.IsZero() {
			out.BackoffUntil = &metav1.Time{Time: p.BackoffUntil}
		}
		for _, t := range p.Unhealthy[:min(len(p.Unhealthy), maxUnhealthyNodes)] {
			out.UnhealthyNodes = append(out.UnhealthyNodes, v1alpha1.UnhealthyGPUNode{
				Node: t.Node, NodeClaim: t.Claim, Reason: t.Reason, Message: sanitize.Text(t.Message), Since: metav1.NewTime(t.Since.Truncate(time.Second)),
			})
		}
		status.Pools = append(status.Pools, out)
	}
}

// unknownPools are the pools of which it cannot be determined whether their nodes are as they should be, with the reasons.
func unknownPools(pools []gpu.PoolState) (out []string) {
	for _, p := range pools {
		if p.Unknown != "" {
			out = append(out, p.Pool+": "+p.Unknown)
		}
	}
	return out
}

// readyCondition is the condition Ready.
func readyCondition(s v1alpha1.DevicePluginStatus, unknown, refused []string, now time.Time) (metav1.ConditionStatus, string, string) {
	var held, unhealthy, rolling []string
	for _, p := range s.Pools {
		if p.BackoffUntil != nil && p.BackoffUntil.After(now) {
			held = append(held, fmt.Sprintf("%s until %s", p.Name, p.BackoffUntil.UTC().Format(time.RFC3339)))
		}
		for _, t := range p.UnhealthyNodes {
			unhealthy = append(unhealthy, fmt.Sprintf("%s: %s", t.Node, t.Reason))
		}
		if p.PluginUpdate != "" {
			rolling = append(rolling, p.Name+": "+p.PluginUpdate)
		}
	}
	switch {
	case len(refused) > 0:
		return metav1.ConditionFalse, "OverlayNotReady", "Karpenter does not honour " + strings.Join(refused, ", ") + ", so it would count other numbers than the nodes advertise; another NodeOverlay may set the same resources"
	case len(held) > 0:
		return metav1.ConditionFalse, "PoolsBackingOff", "No GPU node is launched for " + strings.Join(held, ", ") + ", because nodes never advertised their GPUs; status.pools has the details"
	case len(unhealthy) > 0:
		return metav1.ConditionFalse, "NodesUnhealthy", plural.FirstOf(unhealthy, maxNamed, "; ")
	case len(rolling) > 0:
		// What is declared is not in force on nodes that pods use: whoever waits for
		// Ready after a push waits for this.
		return metav1.ConditionFalse, "UpdatingPlugins", plural.FirstOf(rolling, maxNamed, "; ")
	case len(unknown) > 0:
		return metav1.ConditionUnknown, "ResourceSlicesNotReadable", plural.FirstOf(unknown, maxNamed, "; ")
	case s.UpdatedNodes < s.Nodes:
		return metav1.ConditionTrue, "NodesStarting", fmt.Sprintf("%d of %d nodes advertise the resources of their configuration, the others are starting", s.UpdatedNodes, s.Nodes)
	}
	return metav1.ConditionTrue, "Allocatable", fmt.Sprintf("%d of %d nodes advertise the resources of their configuration", s.UpdatedNodes, s.Nodes)
}

// maxNamed is how many nodes a condition names.
const maxNamed = 3

// conclude sets the conditions and what generation they are about.
func conclude(plugin *v1alpha1.DevicePlugin, ready metav1.ConditionStatus, reason, message string) {
	progressing := metav1.Condition{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "UpToDate", Message: "No node starts and no plugin is replaced"}
	if reason == "UpdatingPlugins" || plugin.Status.UpdatedNodes < plugin.Status.Nodes {
		progressing.Status, progressing.Reason, progressing.Message = metav1.ConditionTrue, reason, message
	}
	for _, condition := range []metav1.Condition{{Type: fluxmeta.ReadyCondition, Status: ready, Reason: reason, Message: message}, progressing} {
		condition.Message = sanitize.Text(condition.Message)
		conditions.Set(plugin, &condition)
	}
	plugin.Status.ObservedGeneration = plugin.Generation
}

// recheckInterval is how soon nodes that start are read again: of those that are late
// no event reports.
const recheckInterval = 30 * time.Second

// untilNext is when a hold ends, or a node that starts may have become late, which
// changes the result without an event; 0 where neither is to be expected.
func untilNext(pools []gpu.PoolState, now time.Time) time.Duration {
	var next time.Duration
	for _, p := range pools {
		if p.Updated < p.Nodes && (next == 0 || recheckInterval < next) {
			next = recheckInterval
		}
		if left := p.BackoffUntil.Sub(now); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	return next
}

// BackoffStates is what a status records of pools' failures, for the process that comes
// after the one that wrote it; sorted by pool.
func BackoffStates(status v1alpha1.DevicePluginStatus) []gpu.PoolState {
	byPool := map[string]gpu.PoolState{}
	for _, p := range status.Pools {
		if p.Failures == 0 {
			continue
		}
		state := gpu.PoolState{Pool: p.Name, Config: p.Config, Failures: int(p.Failures), LastFailure: p.LastFailure}
		if p.BackoffUntil != nil {
			state.BackoffUntil = p.BackoffUntil.Time
		}
		byPool[p.Name] = state
	}
	var out []gpu.PoolState
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		out = append(out, byPool[name])
	}
	return out
}
