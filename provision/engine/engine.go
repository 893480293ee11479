package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"sync/atomic"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/serrors"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	coreoperator "sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/engine/freshness"
	"github.com/poolwright/poolwright/provision/engine/offerings"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// ErrAlreadyRun is returned by AddTo when this process has had its engine: Karpenter's
// metrics register once per process, so another engine needs a new process.
var ErrAlreadyRun = errors.New("this process has already had an engine: start the process again")

// Decorator wraps the cloud provider that Karpenter's controllers use.
type Decorator func(cloudprovider.CloudProvider) cloudprovider.CloudProvider

// Config is what an engine is made of.
type Config struct {
	// Settings are Karpenter's.
	Settings Settings
	// REST reaches the API server; it is copied.
	REST *rest.Config
	// Log is Karpenter's logger; the zero value logs nothing.
	Log logr.Logger
	// TransformNode, where it is not nil, changes each Node before it enters the manager's
	// cache, so that all that reads Nodes from it, Karpenter first, gets the changed one. It
	// may be called again for a Node that it has changed already, and must leave that as it is.
	TransformNode func(*corev1.Node)
	// AllowGarbageCollection must return nil before each round in which instances without a
	// NodeClaim are terminated. Nil is the gate of garbage collection, which allows none.
	AllowGarbageCollection func(context.Context) error
	// BeforeAWSWrite, where it is not nil, is called before each request that changes anything
	// in AWS: an error, such as that this process is not the leader any more, keeps the request
	// from being sent, and end is called after its response.
	BeforeAWSWrite func() (end func(), err error)
	// Decorate, where it is not nil, makes what wraps the cloud provider, with the client of
	// the engine's manager.
	Decorate func(client.Client) Decorator
	// Hooks, where it is not nil, makes what must agree before a node registers, beside
	// Karpenter's own hooks. A hook runs in a goroutine of its own, for every NodeClaim whose
	// node exists and is not registered, until it returns an empty result.
	Hooks func(client.Client) []cloudprovider.NodeLifecycleHook
	// EventRecorder, where it is not nil, makes what records Karpenter's events of the default one.
	EventRecorder func(record.EventRecorder) record.EventRecorder
	// Clock is by which Karpenter's controllers measure ages and tolerations; nil is the system's.
	Clock clock.Clock
}

// Engine is Karpenter, ready to be put on a manager. Make one with New.
type Engine struct {
	config    Config
	options   options
	log       logr.Logger
	clock     clock.Clock
	freshness *freshness.Monitor
	// providers are set once all controllers are on the manager.
	providers atomic.Pointer[providers]
}

// New checks the settings and prepares an engine. It makes no request, reads
// neither the command line nor the environment, and starts nothing.
func New(c Config) (*Engine, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("checking the engine's settings: %w", err)
	}
	if c.REST == nil {
		return nil, errors.New("preparing the engine: no connection to an API server was given")
	}
	// Whatever would parse os.Args on Karpenter's behalf finds nothing to parse.
	coreoptions.Injectables = nil
	if coreoperator.Version == "unspecified" { // no linker flag set it
		coreoperator.Version = KarpenterVersion
	}
	c.REST = rest.CopyConfig(c.REST)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return &Engine{
		config:    c,
		options:   newOptions(c.Settings),
		log:       structured(c.Log),
		clock:     c.Clock,
		freshness: freshness.New(clock.RealClock{}),
	}, nil
}

// structured spells out the values that Karpenter's errors carry.
func structured(logger logr.Logger) logr.Logger {
	if logger.GetSink() == nil {
		return logger // logs nothing; the wrapper would call the missing sink
	}
	return serrors.NewLogger(logger)
}

// RESTConfig is the configuration for the engine's manager: Karpenter's request
// rates and user agent, and a transport that detects a failing API server.
func (e *Engine) RESTConfig() *rest.Config {
	config := rest.CopyConfig(e.config.REST)
	config.QPS = float32(e.config.Settings.Kubernetes.QPS)
	config.Burst = e.config.Settings.Kubernetes.Burst
	config.RateLimiter = nil
	config.UserAgent = coreoperator.AppName + "/" + coreoperator.Version
	config.Wrap(e.freshness.Transport)
	return config
}

// ManagerOptions adds to the caller's options what Karpenter's controllers need
// from their manager: its types, its options in every context, a lease cache that
// holds only nodes' leases, and a client and cache that keep malformed AMI
// aliases out. Ports, lease name and namespace stay the caller's.
func (e *Engine) ManagerOptions(own manager.Options) manager.Options {
	if own.Scheme == nil {
		own.Scheme = clientgoscheme.Scheme
	}
	completeScheme(own.Scheme)
	if own.Logger.GetSink() == nil {
		own.Logger = e.log
		if e.log.GetSink() != nil {
			own.Logger = logging.IgnoreDebugEvents(e.log)
		}
	}
	base := own.BaseContext
	own.BaseContext = func() context.Context {
		ctx := context.Background()
		if base != nil {
			ctx = base()
		}
		return e.options.into(ctx, e.log)
	}
	own.Cache.ByObject = e.cached(own.Cache)
	own.NewClient = newClientFunc(own.NewClient)
	if own.LeaderElection {
		own.LeaderElectionResourceLock = resourcelock.LeasesResourceLock
		own.LeaderElectionReleaseOnCancel = true
		if own.LeaderElectionConfig == nil {
			// A lease renewal must not wait behind the engine's own requests.
			own.LeaderElectionConfig = rest.CopyConfig(e.config.REST)
		}
	}
	recoverPanics := true
	own.Controller.RecoverPanic = &recoverPanics
	if own.Controller.EnableWarmup == nil {
		warm := own.LeaderElection && !e.config.Settings.Kubernetes.DisableControllerWarmup
		own.Controller.EnableWarmup = &warm
	}
	return own
}

// cached adds to what the caller keeps in the cache, and how, what the engine does.
func (e *Engine) cached(own cache.Options) map[client.Object]cache.ByObject {
	objects := make(map[client.Object]cache.ByObject, len(own.ByObject)+3)
	maps.Copy(objects, own.ByObject)
	objects[&coordinationv1.Lease{}] = cache.ByObject{Field: fields.OneTermEqualSelector("metadata.namespace", "kube-node-lease")}
	objects[&awsv1.EC2NodeClass{}] = cache.ByObject{Transform: aliasTransform(e.log, own.DefaultTransform)}
	if e.config.TransformNode != nil {
		objects[&corev1.Node{}] = cache.ByObject{Transform: chainTransform(e.config.TransformNode, own.DefaultTransform)}
	}
	return objects
}

// completeScheme adds to a scheme every type that Karpenter registered with client-go's
// and that it lacks.
func completeScheme(scheme *runtime.Scheme) {
	if scheme == clientgoscheme.Scheme {
		return
	}
	for kind, goType := range clientgoscheme.Scheme.AllKnownTypes() {
		if !scheme.Recognizes(kind) {
			scheme.AddKnownTypeWithName(kind, reflect.New(goType).Interface().(runtime.Object))
		}
	}
}

// AddTo reads from AWS and the API server what the engine needs, then puts Karpenter's
// controllers on the manager. The context must live as long as the manager runs, the
// manager must come from RESTConfig and ManagerOptions, and the CRDs must be there.
// After an error, a new manager may be tried, unless the error is ErrAlreadyRun.
func (e *Engine) AddTo(ctx context.Context, mgr manager.Manager) (err error) {
	defer e.recovered("starting the engine", &err)
	ctx = e.options.into(ctx, e.log)
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	parts, err := e.assemble(ctx, mgr)
	if err != nil {
		return err
	}
	if err := claimProcess(crmetrics.Registry); err != nil {
		return err
	}
	// Karpenter reads in this global whether reservations are part of an EC2NodeClass
	// being ready.
	awsv1.CapacityReservationsEnabled = e.options.core.FeatureGates.ReservedCapacity
	for _, c := range append(coreControllers(ctx, parts), awsControllers(ctx, parts)...) {
		if err := c.Register(ctx, mgr); err != nil {
			return fmt.Errorf("registering %T: %w", c, err)
		}
	}
	if err := e.bindFreshness(ctx, mgr); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("engine", readyCheck(mgr)); err != nil {
		return fmt.Errorf("adding the engine's readiness check: %w", err)
	}
	e.providers.Store(parts.providers)
	return nil
}

// Offerings is what the engine has read of the region's prices and offerings, which are those by
// which it launches nodes, with what EC2 refused of them lately; nil before AddTo. Prices are read after the manager
// has started, by the process that leads.
func (e *Engine) Offerings() *pricelist.List {
	p := e.providers.Load()
	if p == nil {
		return nil
	}
	out := offerings.List(p.config.Region, p.instances.offerings, p.instances.prices)
	out.Refused = p.instances.refusals.Last()
	return out
}

// CapacityReservations are those that the terms of an EC2NodeClass select, as Karpenter reads them for
// its status, with how many instances Karpenter counts as available in them. Karpenter keeps what it
// has read for a minute. It is an error before AddTo, and where EC2 does not return them.
func (e *Engine) CapacityReservations(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
	p := e.providers.Load()
	if p == nil {
		return nil, errors.New("reading capacity reservations: the engine is not on a manager yet")
	}
	return offerings.Reservations(ctx, e.clock, p.network.reservations, terms)
}

// recovered turns a panic of Karpenter's start into an error.
func (e *Engine) recovered(doing string, err *error) {
	if p := recover(); p != nil {
		e.log.Info("recovered from a panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = fmt.Errorf("%s: Karpenter panicked with %v: the log has the stack trace; correct the cause and start again", doing, p)
	}
}

// claimProcess marks the process as having had its engine. The mark lives where
// the limit comes from, in the metrics registry.
func claimProcess(registry prometheus.Registerer) error {
	mark := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "poolwright_engine_started",
		Help: "1 when this process runs, or has run, the embedded Karpenter.",
	})
	mark.Set(1)
	if err := registry.Register(mark); err != nil {
		if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
			return ErrAlreadyRun
		}
		return fmt.Errorf("marking the process as having an engine: %w", err)
	}
	return nil
}
