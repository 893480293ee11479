package readiness

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

const (
	controllerName = "poolwright.gpu.readiness"
	// grace is how long a node may advertise something else than was recorded before
	// the record is removed, and how long a process watches a node at least before
	// it replaces it: longer than a plugin takes to restart.
	grace = 2 * time.Minute
	// conflictRetry is when a write is tried again that met another's.
	conflictRetry = 200 * time.Millisecond
	// defaultTimeout is for a configuration that gives none: to replace nodes at once
	// would be the worst reading of a zero.
	defaultTimeout = 10 * time.Minute
)

// Backoff keeps account of the nodes that never advertised their GPUs, and delays the
// launches of a pool where that repeats.
type Backoff interface {
	// Failed records one more of them. It returns how many there were in a row, and
	// until when no node of the pool is launched; zero without a delay.
	Failed(pool, diagnosis string) (int, time.Time)
	// Reset records that a node of the pool advertises its GPUs, which ends the backoff.
	Reset(pool string)
	// State is the number of failures in a row, the end of the backoff and the last diagnosis.
	State(pool string) (int, time.Time, string)
	// Pools names the pools with failures or a backoff.
	Pools() []string
}

// Config is what a Controller works with. All but OnChange must be given.
type Config struct {
	// Cache shows Nodes and NodeClaims as they are, and DaemonSets and Pods that
	// bear gpu.ConfigLabel. It must not be one whose Nodes have the recorded capacity.
	Cache cache.Cache
	// Client writes Nodes and NodeClaims.
	Client client.Client
	// Live reads past all caches: what decides, right before a node is replaced, and what the DRA driver publishes.
	Live client.Reader
	// The ways to read the cluster's DevicePlugin. ReadSharing is for whoever goes by the
	// Backoff, and may wait for it. CachedSharing is for an informer's handler, which only
	// chooses the nodes that a change concerns: it must not wait. LiveSharing reads past all
	// caches, right before a node is replaced.
	ReadSharing, CachedSharing, LiveSharing func(context.Context) (gpu.Sharing, error)
	// ReplaceEnabled returns whether nodes are to be replaced: whether they are the engine's
	// that runs in this process. While it returns false, nodes are released, diagnosed and
	// reported only. It is called often and must not block.
	ReplaceEnabled func() bool
	// Backoff keeps account of failures.
	Backoff Backoff
	// Recorder writes events on Nodes and NodeClaims.
	Recorder record.EventRecorder
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Clock returns the time.
	Clock clock.Clock
	// OnChange is called when something changed that Pools shows. It must not block.
	OnChange func()
	// Log receives what is done to nodes.
	Log logr.Logger
}

// Controller releases nodes that advertise their GPUs, and replaces those that never do.
type Controller struct {
	cfg     Config
	records *nodeRecords
	budget  *replacementBudget
	driver  *driverReader
	series  *series
	refresh chan event.TypedGenericEvent[struct{}]
	leading atomic.Bool
}

// New makes a Controller and registers its metrics. A second one on the same
// registry is an error.
func New(cfg Config) (*Controller, error) {
	if cfg.Cache == nil || cfg.Client == nil || cfg.Live == nil || cfg.ReadSharing == nil || cfg.CachedSharing == nil || cfg.LiveSharing == nil || cfg.ReplaceEnabled == nil || cfg.Backoff == nil ||
		cfg.Recorder == nil || cfg.Registry == nil || cfg.Clock == nil {
		return nil, errors.New("building the controller of GPU node readiness: a required field of its Config is not set")
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func() {}
	}
	k := &Controller{cfg: cfg, records: newNodeRecords(), budget: newReplacementBudget(), refresh: make(chan event.TypedGenericEvent[struct{}], 1)}
	k.driver = &driverReader{live: cfg.Live, clock: cfg.Clock}
	var err error
	if k.series, err = newMetrics(cfg.Registry, k); err != nil {
		return nil, err
	}
	return k, nil
}

// SetupWithManager adds the controller, which runs on the leader only.
func (k *Controller) SetupWithManager(mgr manager.Manager) error {
	c := k.cfg.Cache
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			k.leading.Store(true)
			return nil
		})).
		WatchesRawSource(source.Kind(c, &corev1.Node{}, &handler.TypedEnqueueRequestForObject[*corev1.Node]{})).
		WatchesRawSource(source.Kind(c, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(nodeOfPlugin))).
		WatchesRawSource(source.Kind(c, &appsv1.DaemonSet{}, handler.TypedEnqueueRequestsFromMapFunc(k.nodesOfSet))).
		WatchesRawSource(source.Kind(c, &karpv1.NodeClaim{}, handler.TypedEnqueueRequestsFromMapFunc(nodeOfClaim))).
		WatchesRawSource(source.Channel(k.refresh, handler.TypedEnqueueRequestsFromMapFunc(k.allNodes))).
		Complete(k)
	if err != nil {
		return fmt.Errorf("registering the controller of GPU node readiness: %w", err)
	}
	return nil
}

// Refresh has every node reconciled again: the DevicePlugin changed. It never blocks.
func (k *Controller) Refresh() {
	select {
	case k.refresh <- event.TypedGenericEvent[struct{}]{}:
	default: // One that waits will read this change, too.
	}
}

func nodeOfPlugin(_ context.Context, pod *corev1.Pod) []reconcile.Request {
	if pod.Namespace != gpu.PluginNamespace || pod.Labels[gpu.ConfigLabel] == "" {
		return nil
	}
	return named(nodeOf(pod))
}

func nodeOfClaim(_ context.Context, claim *karpv1.NodeClaim) []reconcile.Request {
	return named(claim.Status.NodeName)
}

// nodesOfSet are the nodes of the pools that the DaemonSet's configuration serves.
func (k *Controller) nodesOfSet(ctx context.Context, set *appsv1.DaemonSet) []reconcile.Request {
	name := set.Labels[gpu.ConfigLabel]
	if set.Namespace != gpu.PluginNamespace || name == "" {
		return nil
	}
	sharing, err := k.cfg.CachedSharing(ctx)
	if err != nil {
		return k.allNodes(ctx, struct{}{}) // Each of them gets the error, and is tried again.
	}
	return k.requests(ctx, func(pool string) bool {
		config, ok := sharing.ConfigForPool(pool)
		return ok && config.Name == name
	})
}

func (k *Controller) allNodes(ctx context.Context, _ struct{}) []reconcile.Request {
	return k.requests(ctx, func(string) bool { return true })
}

func (k *Controller) requests(ctx context.Context, of func(pool string) bool) []reconcile.Request {
	nodes, err := listNodes(ctx, k.cfg.Cache)
	if err != nil {
		k.cfg.Log.Error(err, "Listing the nodes that a change concerns")
		return nil
	}
	var out []reconcile.Request
	for i := range nodes {
		if of(nodes[i].Labels[karpv1.NodePoolLabelKey]) {
			out = append(out, named(nodes[i].Name)...)
		}
	}
	return out
}

func named(name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
}
