package pluginupdate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/poolwright/poolwright/provision/gpu"
)

const controllerName = "poolwright.gpu.pluginupdate"

// Config is what an Updater works with. All fields but OnChange are needed.
type Config struct {
	// Cache holds the true state (not what the engine shows Karpenter) of Nodes
	// and, in gpu.PluginNamespace, of the DaemonSets and Pods with
	// gpu.ConfigLabel.
	Cache cache.Cache
	// Client patches Nodes and deletes plugin pods.
	Client client.Client
	// Live reads past every cache: pending pods everywhere, and the Node and pod
	// just before they are touched.
	Live client.Reader
	// Sharing is the live DevicePlugin's; an error is tried again.
	Sharing func(context.Context) (gpu.Sharing, error)
	// Recorder writes a Warning on the DaemonSet when the update stops.
	Recorder record.EventRecorder
	Clock    clock.PassiveClock
	Log      logr.Logger
	// OnChange, if there is one, is called after States has changed. It must not block.
	OnChange func()
}

// Updater is the controller.
type Updater struct {
	Config

	mu     sync.Mutex
	states map[string]string
	queue  workqueue.TypedRateLimitingInterface[reconcile.Request]

	// expectations holds the nodes whose newest version, ours, the cache has yet to show.
	expectations map[string]expectation
	// agreed is since when a pod's node agrees, by the pod's UID. It is this
	// process's own observation, on this machine's clock; a restart observes anew.
	agreed map[types.UID]time.Time
	// pauses are the pools that wait for pods. Only Reconcile, of which one runs at a
	// time, uses these three.
	pauses map[string]podWait
}

// New is an Updater that does nothing until its manager leads.
func New(config Config) *Updater {
	return &Updater{
		Config: config, states: map[string]string{}, expectations: map[string]expectation{},
		agreed: map[types.UID]time.Time{}, pauses: map[string]podWait{},
	}
}

// SetupWithManager adds the controller. It runs in the leader only.
func (r *Updater) SetupWithManager(mgr manager.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		WatchesRawSource(source.Kind(r.Cache, &corev1.Node{}, enqueue[*corev1.Node](), nodeChanges())).
		WatchesRawSource(source.Kind(r.Cache, &corev1.Pod{}, enqueue[*corev1.Pod](), ofPlugin[*corev1.Pod]())).
		WatchesRawSource(source.Kind(r.Cache, &appsv1.DaemonSet{}, enqueue[*appsv1.DaemonSet](), ofPlugin[*appsv1.DaemonSet]())).
		WatchesRawSource(source.Func(r.start)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("adding the controller that replaces device plugins: %w", err)
	}
	return nil
}

func (r *Updater) start(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = queue
	queue.Add(reconcile.Request{})
	return nil
}

// Refresh has all nodes reconciled again, because the DevicePlugin has changed. It does
// not wait.
func (r *Updater) Refresh() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.Add(reconcile.Request{})
	}
}

// States describes, for each pool with plugins to replace, how far that is and what it waits for:
// "2 of 5 plugins replaced; waits: pod ml/train waits for GPUs; goes on with one node at 15:04
// UTC". Pools with nothing to replace are not in it. The map is the caller's.
func (r *Updater) States() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.states)
}

// publish passes the states on if they have changed.
func (r *Updater) publish(states map[string]string) {
	r.mu.Lock()
	changed := !maps.Equal(r.states, states)
	r.states = states
	r.mu.Unlock()
	if changed && r.OnChange != nil {
		r.OnChange()
	}
}

// Reconcile takes the next step, if there is one to take: at most one working
// plugin is deleted by it.
func (r *Updater) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	nodes, err := r.readNodes(ctx)
	if errors.Is(err, errBehind) {
		return reconcile.Result{RequeueAfter: soon}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	step := decide(nodes, r.Clock.Now())
	again, err := r.execute(ctx, step)
	r.publish(step.states(nodes))
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}
