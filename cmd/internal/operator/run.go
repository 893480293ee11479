// Package operator is the composition root of the controller: where the concrete adapters of
// Git, Kubernetes, AWS and Karpenter are put together. What the commands that read a
// cluster make in the same way is in package connect; which client a forge has is
// chosen by package forgeclient.
//
// It refuses logic that belongs to one of them, and declares no type of the domain; what is
// here is the order of a start, and what must end the process. It depends on no command.
// Start reading at Run.
package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/cmd/internal/binarypages"
	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/gate"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/controller/gpunode"
	"github.com/poolwright/poolwright/reconciler/events"
	"github.com/poolwright/poolwright/reconciler/history/collector"
	"github.com/poolwright/poolwright/reconciler/notification"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/ssmversion/updater"
)

// Config is how the controller is started.
type Config struct {
	// REST reaches the API server.
	REST *rest.Config
	// Namespace holds the Syncs, their inventories and the lease.
	Namespace string
	// MetricsAddress and HealthAddress are host:port; "0" turns a server off.
	MetricsAddress, HealthAddress string
	// ReceiverAddress is where forges send their webhooks; "0" or empty takes none.
	ReceiverAddress string
	// EventsAddress is where the events of Syncs are sent, as Flux's controllers send theirs
	// to its notification-controller; empty sends none.
	EventsAddress string
	// NoCrossNamespaceRefs lets Syncs name only sources of Flux in their own namespace.
	NoCrossNamespaceRefs bool
	// WatchLabelSelector is which Syncs are reconciled, by their labels; empty is all. The others and their objects stay as they are.
	WatchLabelSelector string
	watched            labels.Selector
	// History has the leader record nodes, applies, drift and pull requests.
	History bool
	// PublishPrices has the leader publish the prices and offerings that the engine reads, for commands without
	// AWS credentials, and PublishReservations the account's capacity reservations, apart from them.
	PublishPrices, PublishReservations bool
	// CacheDir holds the caches of Git repositories, which take at most CacheSizeLimit
	// bytes together; 0 means DefaultCacheSizeLimit.
	CacheDir       string
	CacheSizeLimit int64
	caches         cloneCaches
	// CABundle is the API server's CA as nodes are configured with it, PEM in base64.
	// Empty means the one of REST. A change replaces every node, in how it is written,
	// too.
	CABundle string
	// Logger receives everything that the process logs.
	Logger logr.Logger
}

// lostLeaseText is the untyped error of controller-runtime's manager when
// it could not renew its lease.
const lostLeaseText = "leader election lost"

// ErrRestart is returned by Run where the process must be executed anew: to follow
// changed engine settings, because Karpenter's metrics register once per process, or
// because it lost the lease, because a manager starts only once.
var ErrRestart = errors.New("start the process again")

// Run is the controller. It returns nil when ctx ends, ErrRestart when it must
// be executed anew, and an error only for what a person must mend first.
func Run(ctx context.Context, cfg Config) error {
	ctrl.SetLogger(cfg.Logger)
	// client-go logs through klog, which would write lines of its own form.
	klog.SetLogger(cfg.Logger.WithName("client-go"))
	direct, err := connect.DirectClient(cfg.REST)
	if err != nil {
		return err
	}
	if cfg.watched, err = labels.Parse(cfg.WatchLabelSelector); err != nil {
		return fmt.Errorf("reading --watch-label-selector: %w", err)
	}
	now, err := prepare(ctx, direct, cfg)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	cfg.caches = newCaches(cfg)
	a := &app{cfg: cfg, direct: direct}
	if cfg.History {
		a.history = collector.New(cfg.Logger.WithName("history"))
	}
	a.children, a.renders = newChildren(), &rendercache.Cache{}
	if a.fence, err = leaderelection.New(cfg.REST); err != nil {
		return err
	}
	a.cfg.REST = a.fence.Config()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.cluster = cluster.New(cluster.Config{
		REST: a.cfg.REST, Live: direct, Log: cfg.Logger, Restart: func() { cancel(ErrRestart) },
		OwnLease: types.NamespacedName{Namespace: cfg.Namespace, Name: leaderelection.LeaseName},
	}, now, time.Now())
	if a.gpuNodes, err = gpunode.New(a.cfg.REST, cfg.Logger); err != nil {
		return ignoreEnd(ctx, err)
	}
	mgr, err := a.manager(ctx)
	if err != nil {
		return err
	}
	err = mgr.Start(ctx)
	switch {
	case err == nil || ctx.Err() != nil:
	case err.Error() == lostLeaseText:
		// An API server that was away for long enough is no reason to end.
		cfg.Logger.Info("Lost the leader lease: starting again as a standby")
		return ErrRestart
	default:
		return fmt.Errorf("running the controllers: %w", err)
	}
	if errors.Is(context.Cause(ctx), ErrRestart) {
		return ErrRestart
	}
	return nil
}

// ignoreEnd drops errors that are only the consequence of being stopped.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// prepare brings the CRDs and our namespace and reads what is declared of the engine,
// trying again for as long as the API server is away: a controller that starts before
// its API server is ordinary.
func prepare(ctx context.Context, direct client.Client, cfg Config) (cluster.Desired, error) {
	// Nodes may be waiting to be taken away: do not sleep long past an outage.
	for wait := time.Second; ; wait = min(2*wait, 5*time.Second) {
		now, err := prepareOnce(ctx, direct, cfg)
		if err == nil {
			return now, nil
		}
		if apierrors.IsForbidden(err) {
			return cluster.Desired{}, fmt.Errorf("preparing the cluster: %w; give the controller the permissions of config/rbac", err)
		}
		cfg.Logger.Error(err, "Preparing the cluster, trying again", "after", wait)
		select {
		case <-ctx.Done():
			return cluster.Desired{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// prepareOnce reads the Cluster once, so that the engine runs with the CRDs of the very
// gates that it is started with. What changes meanwhile, the watcher finds.
func prepareOnce(ctx context.Context, direct client.Client, cfg Config) (cluster.Desired, error) {
	if err := errors.Join(connect.CreateNamespace(ctx, direct, cfg.Namespace), crds.InstallOwn(ctx, direct)); err != nil {
		return cluster.Desired{}, err
	}
	now, err := cluster.ReadDesired(ctx, direct)
	if err != nil {
		return cluster.Desired{}, err
	}
	return now, installKarpenterCRDs(ctx, direct, now, cfg.Logger)
}

// installKarpenterCRDs brings the provider's kinds, with the gates that the live
// Cluster object requires. They come even while the engine is off, so that pools can be
// applied before it is on.
func installKarpenterCRDs(ctx context.Context, direct client.Client, now cluster.Desired, log logr.Logger) error {
	settings := now.Settings
	if !now.EngineOn {
		settings = engine.DefaultSettings()
	}
	definitions, err := engine.CRDs(settings)
	if err != nil {
		return err
	}
	kept, err := engine.InstallCRDs(ctx, direct, settings)
	if err == nil {
		go crds.InitializeStorage(ctx, direct, kindsOf(definitions)...)
	}
	for _, k := range kept {
		log.Info("Leaving a CRD as it is", "crd", k.Name, "reason", k.Reason)
	}
	return err
}

// kindsOf are the kinds of definitions, in the versions that are stored.
func kindsOf(definitions []*apiextensionsv1.CustomResourceDefinition) (out []schema.GroupVersionKind) {
	for _, d := range definitions {
		for _, v := range d.Spec.Versions {
			if v.Storage {
				out = append(out, schema.GroupVersionKind{Group: d.Spec.Group, Version: v.Name, Kind: d.Spec.Names.Kind})
			}
		}
	}
	return out
}

// app is one life of the process.
type app struct {
	cfg    Config
	direct client.Client
	// fence stands before all writes of what only a leader does.
	fence *leaderelection.Fence
	// children are all processes that are started; renders caches what they rendered.
	children children
	renders  *rendercache.Cache
	// cluster decides whether the engine runs.
	cluster *cluster.Supervisor
	// engine is what has read of AWS by what forecasts are made; nil without an engine.
	engine   *engine.Engine
	gpuNodes *gpunode.Controllers
	// history records what happens; nil where nothing does.
	history *collector.Collector
	// notifier sends the events of Syncs; nil without an address.
	notifier *notification.Notifier
	// parameters keeps the values of Syncs' SSM parameters.
	parameters *updater.Updater
}

// manager builds the manager with the engine on it, or without when the engine
// is off or blocked.
func (a *app) manager(ctx context.Context) (manager.Manager, error) {
	if a.cluster.Desired.EngineOn {
		mgr, blocked := a.withEngine(ctx)
		if blocked == nil {
			return mgr, a.addOurs(mgr)
		}
		a.cluster.Block(blocked)
		a.cfg.Logger.Info("The engine is blocked", "reason", blocked.Reason, "message", blocked.Message)
	}
	setGCPercent()
	mgr, err := a.newManager(rest.CopyConfig(a.cfg.REST), a.managerOptions(false))
	if err != nil {
		return nil, fmt.Errorf("building the manager: %w", err)
	}
	return mgr, a.addOurs(mgr)
}

// setGCPercent lets the collector run twice as often as Go's default. Without the
// engine the process mostly waits, and memory is worth more than its processor
// time. A GOGC that is set prevails.
func setGCPercent() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

// withEngine passes the gates and puts Karpenter on a manager. Whatever stops
// it blocks it: the Git loop must run all the same.
func (a *app) withEngine(ctx context.Context) (manager.Manager, *cluster.Blocked) {
	gates, err := a.cluster.Gates(ctx)
	if err != nil {
		return nil, cluster.BlockedBy("AWSUnavailable", err)
	}
	if blocked := gates.Blocking(ctx); blocked != nil {
		return nil, blocked
	}
	settings := a.cluster.SettingsInEffect(ctx)
	settings.Nodes.CABundle = a.cfg.CABundle
	config := engine.Config{
		Settings: settings, REST: a.cfg.REST, Log: a.cfg.Logger.WithName("engine"),
		AllowGarbageCollection: gates.CheckGarbageCollection, BeforeAWSWrite: a.fence.Begin,
	}
	a.addGPUs(&config)
	eng, err := engine.New(config)
	if err != nil {
		return nil, cluster.BlockedBy("InvalidSettings", err)
	}
	mgr, err := a.newManager(eng.RESTConfig(), eng.ManagerOptions(a.managerOptions(true)))
	if err != nil {
		return nil, cluster.BlockedBy("EngineFailed", fmt.Errorf("building the engine's manager: %w", err))
	}
	if err := eng.AddTo(ctx, mgr); err != nil {
		return nil, cluster.BlockedBy("EngineFailed", err)
	}
	if err := gates.AddTo(mgr); err != nil {
		return nil, cluster.BlockedBy("EngineFailed", err)
	}
	a.engine = eng
	return mgr, nil
}

// addGPUs makes the engine register and provision GPU nodes by what is known of their GPUs.
func (a *app) addGPUs(config *engine.Config) {
	config.TransformNode = startuptaint.WithRecordedCapacity(a.cfg.Logger.WithName("gpu"))
	config.Decorate = func(c client.Client) engine.Decorator {
		taints := startuptaint.Decorate(a.gpuNodes.TaintConfig(c))
		return func(provider cloudprovider.CloudProvider) cloudprovider.CloudProvider {
			if a.history == nil {
				return taints(provider)
			}
			return a.history.Decorate(taints(provider))
		}
	}
	if a.history != nil {
		config.EventRecorder = a.history.EventRecorder
	}
	config.Hooks = func(c client.Client) []cloudprovider.NodeLifecycleHook {
		return []cloudprovider.NodeLifecycleHook{startuptaint.NewHook(c, a.gpuNodes.Sharing)}
	}
}

// managerOptions are our ports and our lease, which shows other Poolwrights
// whether this one has the engine.
func (a *app) managerOptions(engine bool) manager.Options {
	grace, lasts, deadline := 20*time.Second, leaderelection.LeaseDuration, leaderelection.RenewDeadline
	return manager.Options{
		Cache:                         cache.Options{ByObject: map[client.Object]cache.ByObject{&v1alpha1.Sync{}: {Label: a.cfg.watched}}},
		Scheme:                        scheme.Scheme,
		Logger:                        a.cfg.Logger,
		Metrics:                       metricsserver.Options{BindAddress: a.cfg.MetricsAddress},
		HealthProbeBindAddress:        a.cfg.HealthAddress,
		LeaderElection:                true,
		LeaderElectionID:              leaderelection.LeaseName,
		LeaderElectionNamespace:       a.cfg.Namespace,
		LeaderElectionLabels:          gate.LeaseLabels(engine),
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lasts,
		RenewDeadline:                 &deadline,
		GracefulShutdownTimeout:       &grace,
	}
}

// newManager builds a manager whose leader election opens and closes the fence.
func (a *app) newManager(cfg *rest.Config, opts manager.Options) (manager.Manager, error) {
	lock, err := a.fence.Lock(types.NamespacedName{Namespace: opts.LeaderElectionNamespace, Name: opts.LeaderElectionID}, opts.LeaderElectionLabels)
	if err != nil {
		return nil, err
	}
	opts.LeaderElectionResourceLockInterface = lock
	mgr, err := ctrl.NewManager(cfg, opts)
	if err != nil {
		return nil, err
	}
	lock.LockConfig.EventRecorder = recorder(mgr)
	return mgr, nil
}

// addOurs puts the Git loop, the Cluster watcher and the probes on the manager.
func (a *app) addOurs(mgr manager.Manager) error {
	if err := errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("ping", healthz.Ping),
	); err != nil {
		return fmt.Errorf("registering probes: %w", err)
	}
	fenced, err := connect.DirectClient(a.cfg.REST)
	if err != nil {
		return err
	}
	if err := a.addNotifier(mgr); err != nil {
		return err
	}
	a.parameters = updater.New(updater.Config{
		Live: fenced,
		Read: func(ctx context.Context, names []string) (map[string]ssmversion.Reading, error) {
			return connect.ReadParameters(ctx, a.direct, names)
		},
		Events: events.Escape(a.notifier.Record(eventRecorder(mgr))),
	})
	if err := errors.Join(a.addSyncs(mgr), a.addPullRequests(mgr), a.gpuNodes.AddTo(mgr, recorder(mgr), a.cluster.Running()), a.addReceiver(mgr), a.addHistory(mgr, fenced), a.addPublisher(mgr, fenced), mgr.Add(binarypages.AfterStart{})); err != nil {
		return err
	}
	return a.cluster.AddTo(mgr)
}
