package wire

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

// gpus is what looks after nodes' GPUs, with the engine and without.
type gpus struct {
	// seen shows nodes as they are. The engine's own cache shows them as we vouch
	// for them, and there is none where the engine is off.
	seen    cluster.Cluster
	book    *gpuhold.FailureBackoff
	sharing func(context.Context) (gpu.Sharing, error)
	// remembered is closed once the book is the one that the last leader left.
	remembered chan struct{}
	// changed wakes the writer of the status.
	changed chan event.GenericEvent
}

// rememberRetry is how soon a new leader asks again which pools are held back.
const rememberRetry = time.Second

// newGPUs prepares the view of nodes and plugins. Which pools an earlier process held
// back is read on leadership: another replica may lead until then.
func newGPUs(a *attempt) (*gpus, error) {
	ours, err := labels.NewRequirement(gpu.ProfileLabel, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting the plugin's objects: %w", err)
	}
	labelled := labels.NewSelector().Add(*ours)
	inside := map[string]cache.Config{gpu.PluginNamespace: {LabelSelector: labelled}}
	seen, err := cluster.New(a.cfg.REST, func(o *cluster.Options) {
		o.Scheme, o.Logger = scheme.Scheme, a.cfg.Logger
		o.Cache.DefaultTransform = cache.TransformStripManagedFields()
		o.Cache.ByObject = map[client.Object]cache.ByObject{
			&corev1.Node{}:                 {Transform: slim},
			&corev1.Pod{}:                  {Namespaces: inside},
			&appsv1.DaemonSet{}:            {Namespaces: inside},
			&overlayv1alpha1.NodeOverlay{}: {Label: labelled},
		}
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the view of GPU nodes: %w", err)
	}
	return &gpus{
		seen: seen, book: gpuhold.NewFailureBackoff(clock.RealClock{}),
		sharing: status.LiveSharing(seen.GetCache()), remembered: make(chan struct{}), changed: make(chan event.GenericEvent, 1),
	}, nil
}

// slim drops of a node what nobody here reads and what there is much of.
func slim(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields, node.Status.Images = nil, nil
	}
	return object, nil
}

// remember takes over the failures and holds that the status tells of.
func (g *gpus) remember(ctx context.Context, live client.Reader) error {
	counts, _, err := status.Live(ctx, live)
	if err != nil {
		return err
	}
	var held []gpu.PoolState
	if counts != nil {
		held = status.BackoffStates(counts.Status)
	}
	g.book.Restore(held)
	return nil
}

// lead remembers, and asks until it is told. It returns false when ctx ends before.
func (g *gpus) lead(ctx context.Context, live client.Reader, log logr.Logger) bool {
	err := wait.PollUntilContextCancel(ctx, rememberRetry, true, func(ctx context.Context) (bool, error) {
		err := g.remember(ctx, live)
		if err != nil && ctx.Err() == nil {
			log.Error(err, "Reading which pools are held back, trying again", "after", rememberRetry)
		}
		return err == nil, nil
	})
	if err != nil {
		return false
	}
	close(g.remembered)
	return true
}

// known tells whether lead has remembered. It is for the engine, which must not wait,
// and launches no node for the pools of profiles before.
func (g *gpus) known() bool {
	select {
	case <-g.remembered:
		return true
	default:
		return false
	}
}

// ledSharing is sharing for the keeper, which acts by the book and says what it says:
// it asks for this first, and is kept waiting until lead has remembered.
func (g *gpus) ledSharing(ctx context.Context) (gpu.Sharing, error) {
	select {
	case <-g.remembered:
		return g.sharing(ctx)
	case <-ctx.Done():
		return gpu.Sharing{}, ctx.Err()
	}
}

// extend makes the engine register and provision GPU nodes by what is known of their GPUs.
func (g *gpus) extend(config *engine.Config, log logr.Logger) {
	config.TransformNode = gpuhold.WithRecordedCapacity(log)
	config.Decorate = func(c client.Client) engine.Decorator { return gpuhold.Decorate(g.holding(c)) }
	config.Hooks = func(c client.Client) []cloudprovider.NodeLifecycleHook {
		return []cloudprovider.NodeLifecycleHook{gpuhold.NewHook(c, g.sharing)}
	}
}

func (g *gpus) holding(c client.Client) gpuhold.Config {
	return gpuhold.Config{Sharing: g.sharing, Backoff: g.book, Known: g.known, Reader: c}
}

// addTo puts on the manager what releases and replaces nodes, replaces plugins,
// and tells of it.
func (g *gpus) addTo(mgr manager.Manager, a *attempt) error {
	log := a.cfg.Logger.WithName("gpu")
	events := recorder(mgr)
	running := a.cluster.Running()
	cfg := readiness.Config{
		Cache: g.seen.GetCache(), Client: g.seen.GetClient(), Live: g.seen.GetAPIReader(),
		Replaces: func() bool { return running }, Backoff: g.book, Recorder: events, Registry: crmetrics.Registry,
		Clock: clock.RealClock{}, OnChange: g.tell, Log: log,
	}
	cfg.Sharing.Read, cfg.Sharing.Peek, cfg.Sharing.Live = g.ledSharing, g.sharing, status.LiveSharing(g.seen.GetAPIReader())
	keeper, err := readiness.New(cfg)
	if err != nil {
		return err
	}
	roller := pluginrollout.New(pluginrollout.Config{
		Cache: g.seen.GetCache(), Client: g.seen.GetClient(), Live: g.seen.GetAPIReader(),
		Sharing: g.sharing, Recorder: events, Clock: clock.RealClock{}, OnChange: g.tell, Log: log,
	})
	statusReconciler := &status.Reconciler{
		Cache: g.seen.GetCache(), Writer: g.seen.GetClient(), Clock: clock.RealClock{},
		Pools: keeper.Pools, Rollouts: roller.States, Changed: g.changed,
	}
	if err := mgr.Add(g.seen); err != nil {
		return fmt.Errorf("registering the view of GPU nodes: %w", err)
	}
	err = mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		if !g.lead(ctx, g.seen.GetAPIReader(), log) {
			return nil
		}
		return g.follow(ctx, keeper.Refresh, roller.Refresh)
	}))
	if err != nil {
		return fmt.Errorf("registering the look at the DevicePlugin: %w", err)
	}
	for _, add := range []func(manager.Manager) error{keeper.SetupWithManager, roller.SetupWithManager, statusReconciler.SetupWithManager} {
		if err := add(mgr); err != nil {
			return err
		}
	}
	return nil
}

// follow has all nodes looked at again when a DevicePlugin's spec changes.
func (g *gpus) follow(ctx context.Context, refresh ...func()) error {
	informer, err := g.seen.GetCache().GetInformer(ctx, &v1alpha1.DevicePlugin{})
	if err != nil {
		return fmt.Errorf("watching DevicePlugins: %w", err)
	}
	all := func() {
		for _, again := range refresh {
			again()
		}
		g.tell()
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

func (g *gpus) tell() {
	select {
	case g.changed <- event.GenericEvent{Object: &v1alpha1.DevicePlugin{}}:
	default: // It is awake, and will find the newest.
	}
}
