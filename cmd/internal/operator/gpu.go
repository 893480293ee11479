package operator

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
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	overlayv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/pluginrollout"
	"github.com/poolwright/poolwright/provision/gpu/readiness"
	gpuhold "github.com/poolwright/poolwright/provision/gpu/startuptaint"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/status"
)

// gpus is what manages nodes' GPUs, with the engine and without.
type gpus struct {
	// live caches nodes as they are. The engine's own cache has them with their recorded
	// capacity, and there is none where the engine is off.
	live    cluster.Cluster
	backoff *gpuhold.FailureBackoff
	sharing func(context.Context) (gpu.Sharing, error)
	// restored is closed once backoff is that of the last leader.
	restored chan struct{}
	// changed notifies the writer of the status.
	changed chan event.GenericEvent
}

// restoreRetry is how soon a new leader reads again which pools are held back.
const restoreRetry = time.Second

// newGPUs prepares the view of nodes and plugins. Which pools an earlier process held
// back is read on leadership: another replica may lead until then.
func newGPUs(a *app) (*gpus, error) {
	ours, err := labels.NewRequirement(gpu.ProfileLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting the plugin's objects: %w", err)
	}
	labelled := labels.NewSelector().Add(*ours)
	inside := map[string]cache.Config{gpu.PluginNamespace: {LabelSelector: labelled}}
	live, err := cluster.New(a.cfg.REST, func(o *cluster.Options) {
		o.Scheme, o.Logger = scheme.Scheme, a.cfg.Logger
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
	return &gpus{
		live: live, backoff: gpuhold.NewFailureBackoff(clock.RealClock{}),
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
func (g *gpus) restoreBackoff(ctx context.Context, live client.Reader) error {
	counts, _, err := status.Live(ctx, live)
	if err != nil {
		return err
	}
	var delayed []gpu.PoolState
	if counts != nil {
		delayed = status.BackoffStates(counts.Status)
	}
	g.backoff.Restore(delayed)
	return nil
}

// restoreAsLeader restores the back-off, and tries until that succeeds. It returns false when ctx ends before.
func (g *gpus) restoreAsLeader(ctx context.Context, live client.Reader, log logr.Logger) bool {
	err := wait.PollUntilContextCancel(ctx, restoreRetry, true, func(ctx context.Context) (bool, error) {
		err := g.restoreBackoff(ctx, live)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Reading which pools are held back, trying again", "after", restoreRetry)
		}
		return err == nil, nil
	})
	if err != nil {
		return false
	}
	close(g.restored)
	return true
}

// isRestored reports whether the back-off is restored. It is for the engine, which must not wait,
// and launches no node for the pools of profiles before.
func (g *gpus) isRestored() bool {
	select {
	case <-g.restored:
		return true
	default:
		return false
	}
}

// restoredSharing is sharing for the readiness controller, which acts by the back-off: it
// reads this first, and waits until that is restored.
func (g *gpus) restoredSharing(ctx context.Context) (gpu.Sharing, error) {
	select {
	case <-g.restored:
		return g.sharing(ctx)
	case <-ctx.Done():
		return gpu.Sharing{}, ctx.Err()
	}
}

// extend makes the engine register and provision GPU nodes by what is known of their GPUs.
func (g *gpus) extend(config *engine.Config, log logr.Logger) {
	config.TransformNode = gpuhold.WithRecordedCapacity(log)
	config.Decorate = func(c client.Client) engine.Decorator { return gpuhold.Decorate(g.taintConfig(c)) }
	config.Hooks = func(c client.Client) []cloudprovider.NodeLifecycleHook {
		return []cloudprovider.NodeLifecycleHook{gpuhold.NewHook(c, g.sharing)}
	}
}

func (g *gpus) taintConfig(c client.Client) gpuhold.Config {
	return gpuhold.Config{Sharing: g.sharing, Backoff: g.backoff, Known: g.isRestored, Reader: c}
}

// addTo puts on the manager what releases and replaces nodes, replaces plugins,
// and reports it.
func (g *gpus) addTo(mgr manager.Manager, a *app) error {
	log := a.cfg.Logger.WithName("gpu")
	events := recorder(mgr)
	running := a.cluster.Running()
	cfg := readiness.Config{
		Cache: g.live.GetCache(), Client: g.live.GetClient(), Live: g.live.GetAPIReader(),
		Replaces: func() bool { return running }, Backoff: g.backoff, Recorder: events, Registry: crmetrics.Registry,
		Clock: clock.RealClock{}, OnChange: g.notify, Log: log,
	}
	cfg.ReadSharing, cfg.PeekSharing, cfg.LiveSharing = g.restoredSharing, g.sharing, status.LiveSharing(g.live.GetAPIReader())
	nodes, err := readiness.New(cfg)
	if err != nil {
		return err
	}
	plugins := pluginrollout.New(pluginrollout.Config{
		Cache: g.live.GetCache(), Client: g.live.GetClient(), Live: g.live.GetAPIReader(),
		Sharing: g.sharing, Recorder: events, Clock: clock.RealClock{}, OnChange: g.notify, Log: log,
	})
	statusReconciler := &status.Reconciler{
		Cache: g.live.GetCache(), Writer: g.live.GetClient(), Clock: clock.RealClock{},
		Pools: nodes.Pools, Rollouts: plugins.States, Changed: g.changed,
	}
	if err := mgr.Add(g.live); err != nil {
		return fmt.Errorf("registering the view of GPU nodes: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !g.restoreAsLeader(ctx, g.live.GetAPIReader(), log) {
			return nil
		}
		return g.watchPlugin(ctx, nodes.Refresh, plugins.Refresh)
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
func (g *gpus) watchPlugin(ctx context.Context, refresh ...func()) error {
	informer, err := g.live.GetCache().GetInformer(ctx, &v1alpha1.DevicePlugin{})
	if err != nil {
		return fmt.Errorf("watching DevicePlugins: %w", err)
	}
	all := func() {
		for _, again := range refresh {
			again()
		}
		g.notify()
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

func (g *gpus) notify() {
	select {
	case g.changed <- event.GenericEvent{Object: &v1alpha1.DevicePlugin{}}:
	default: // One is pending, and will find the newest.
	}
}
