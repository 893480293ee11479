// Package gpunode puts the controllers of nodes with GPUs together, with the engine and
// without: the nodes' readiness, the update of the plugins, and the DevicePlugin's status.
//
// They act by the back-off that the last leader left in that status, so the package refuses to
// let any of them act, or the engine launch nodes for pools of configurations, before a new leader
// has read it. Start reading at Controllers.
package gpunode

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	overlayv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/pluginupdate"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/status"
)

// Controllers are those of nodes with GPUs.
type Controllers struct {
	log logr.Logger
	// live caches nodes as they are. The engine's own cache has them with their recorded
	// capacity, and there is none where the engine is off.
	live    cluster.Cluster
	backoff *startuptaint.FailureBackoff
	sharing func(context.Context) (gpu.Sharing, error)
	// restored is closed once backoff is that of the last leader.
	restored chan struct{}
	// changed notifies the writer of the status.
	changed chan event.GenericEvent
}

// restoreRetry is how soon a new leader reads again which pools are held back.
const restoreRetry = time.Second

// New makes the controllers of a cluster, with a cache of its own. Which pools an earlier process
// held back is read on leadership: another replica may lead until then.
func New(config *rest.Config, log logr.Logger) (*Controllers, error) {
	ours, err := labels.NewRequirement(gpu.ConfigLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting the plugin's objects: %w", err)
	}
	labelled := labels.NewSelector().Add(*ours)
	inside := map[string]cache.Config{gpu.PluginNamespace: {LabelSelector: labelled}}
	live, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.Logger = scheme.Scheme, log
		o.Cache.DefaultTransform = cache.TransformStripManagedFields()
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.Node{}:                 {Transform: withoutImages},
			&corev1.Pod{}:                  {Namespaces: inside},
			&appsv1.DaemonSet{}:            {Namespaces: inside},
			&overlayv1alpha1.NodeOverlay{}: {Label: labelled},
		}
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the view of GPU nodes: %w", err)
	}
	return &Controllers{
		log: log.WithName("gpu"), live: live, backoff: startuptaint.NewFailureBackoff(clock.RealClock{}),
		sharing: status.LiveSharing(live.GetCache()), restored: make(chan struct{}), changed: make(chan event.GenericEvent, 1),
	}, nil
}

// withoutImages drops of a node what nobody here reads and what there is much of.
func withoutImages(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields, node.Status.Images = nil, nil
	}
	return object, nil
}

// restoreBackoff takes over the failures and delays that the status has.
func (c *Controllers) restoreBackoff(ctx context.Context, live client.Reader) error {
	counts, _, err := status.Live(ctx, live)
	if err != nil {
		return err
	}
	var delayed []gpu.PoolState
	if counts != nil {
		delayed = status.BackoffStates(counts.Status)
	}
	c.backoff.Restore(delayed)
	return nil
}

// restoreAsLeader restores the back-off, and tries until that succeeds. It returns false when ctx ends before.
func (c *Controllers) restoreAsLeader(ctx context.Context, live client.Reader) bool {
	err := wait.PollUntilContextCancel(ctx, restoreRetry, true, func(ctx context.Context) (bool, error) {
		err := c.restoreBackoff(ctx, live)
		if err != nil && ctx.Err() == nil {
			c.log.Error(err, "Reading which pools are held back, trying again", "after", restoreRetry)
		}
		return err == nil, nil
	})
	if err != nil {
		return false
	}
	close(c.restored)
	return true
}

// isRestored reports whether the back-off is restored. It is for the engine, which must not wait,
// and launches no node for the pools of configurations before.
func (c *Controllers) isRestored() bool {
	select {
	case <-c.restored:
		return true
	default:
		return false
	}
}

// restoredSharing is sharing for the readiness controller, which acts by the back-off: it
// reads this first, and waits until that is restored.
func (c *Controllers) restoredSharing(ctx context.Context) (gpu.Sharing, error) {
	select {
	case <-c.restored:
		return c.sharing(ctx)
	case <-ctx.Done():
		return gpu.Sharing{}, ctx.Err()
	}
}

// Sharing returns how the live DevicePlugin declares that GPUs are shared, from the cache.
func (c *Controllers) Sharing(ctx context.Context) (gpu.Sharing, error) { return c.sharing(ctx) }

// TaintConfig is by what the engine decorates its cloud provider; kube reads the engine's cache.
func (c *Controllers) TaintConfig(kube client.Reader) startuptaint.Config {
	return startuptaint.Config{Sharing: c.sharing, Backoff: c.backoff, Restored: c.isRestored, Reader: kube}
}

// AddTo puts on the manager what releases nodes, replaces them where the engine runs in this
// process, replaces plugins, and reports it.
func (c *Controllers) AddTo(mgr manager.Manager, events record.EventRecorder, engineRuns bool) error {
	cfg := readiness.Config{
		Cache: c.live.GetCache(), Client: c.live.GetClient(), Live: c.live.GetAPIReader(),
		ReplaceEnabled: func() bool { return engineRuns }, Backoff: c.backoff, Recorder: events, Registry: crmetrics.Registry,
		Clock: clock.RealClock{}, OnChange: c.notify, Log: c.log,
	}
	cfg.ReadSharing, cfg.CachedSharing, cfg.LiveSharing = c.restoredSharing, c.sharing, status.LiveSharing(c.live.GetAPIReader())
	nodes, err := readiness.New(cfg)
	if err != nil {
		return err
	}
	plugins := pluginupdate.New(pluginupdate.Config{
		Cache: c.live.GetCache(), Client: c.live.GetClient(), Live: c.live.GetAPIReader(),
		Sharing: c.sharing, Recorder: events, Clock: clock.RealClock{}, OnChange: c.notify, Log: c.log,
	})
	statusReconciler := &status.Reconciler{
		Cache: c.live.GetCache(), Writer: c.live.GetClient(), Clock: clock.RealClock{},
		Pools: nodes.Pools, PluginUpdates: plugins.States, Changed: c.changed,
	}
	if err := mgr.Add(c.live); err != nil {
		return fmt.Errorf("registering the view of GPU nodes: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !c.restoreAsLeader(ctx, c.live.GetAPIReader()) {
			return nil
		}
		return c.watchPlugin(ctx, nodes.Refresh, plugins.Refresh)
	}))
	if err != nil {
		return fmt.Errorf("registering the watch of the DevicePlugin: %w", err)
	}
	for _, add := range []func(manager.Manager) error{nodes.SetupWithManager, plugins.SetupWithManager, statusReconciler.SetupWithManager} {
		if err := add(mgr); err != nil {
			return err
		}
	}
	return nil
}

// watchPlugin has all nodes reconciled when a DevicePlugin's spec changes.
func (c *Controllers) watchPlugin(ctx context.Context, refresh ...func()) error {
	informer, err := c.live.GetCache().GetInformer(ctx, &v1alpha1.DevicePlugin{})
	if err != nil {
		return fmt.Errorf("watching DevicePlugins: %w", err)
	}
	all := func() {
		for _, again := range refresh {
			again()
		}
		c.notify()
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { all() },
		DeleteFunc: func(any) { all() },
		UpdateFunc: func(was, is any) {
			before, ok := was.(*v1alpha1.DevicePlugin)
			after, same := is.(*v1alpha1.DevicePlugin)
			if !ok || !same || before.Generation != after.Generation || before.DeletionTimestamp == nil && after.DeletionTimestamp != nil {
				all()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching DevicePlugins: %w", err)
	}
	<-ctx.Done()
	return nil
}

func (c *Controllers) notify() {
	select {
	case c.changed <- event.GenericEvent{Object: &v1alpha1.DevicePlugin{}}:
	default: // One is pending, and will find the newest.
	}
}
