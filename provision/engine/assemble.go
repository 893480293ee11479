package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	awscloud "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	awsoperator "github.com/aws/karpenter-provider-aws/pkg/operator"
	"github.com/awslabs/operatorpkg/aws/middleware"
	awsprometheus "github.com/jonathan-innis/aws-sdk-go-prometheus/v2"
	"github.com/patrickmn/go-cache"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	cloudmetrics "sigs.k8s.io/karpenter/pkg/cloudprovider/metrics"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/node/health"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoperator "sigs.k8s.io/karpenter/pkg/operator"

	"github.com/poolwright/poolwright/provision/engine/freshness"
	"github.com/poolwright/poolwright/provision/engine/instancetypes"
)

// parts is what the controllers are built from.
type parts struct {
	mgr    manager.Manager
	client client.Client
	// live reads from the API server, past the cache.
	live     client.Reader
	settings Settings
	clock    clock.Clock
	recorder events.Recorder
	// cloud is what controllers use; plain is the same without overlays and
	// without our decorators.
	cloud, undecorated cloudprovider.CloudProvider
	cluster            *state.Cluster
	store              *nodeoverlay.InstanceTypeStore
	providers          *providers
	// hooks run before a node registers, beside Karpenter's own.
	hooks []cloudprovider.NodeLifecycleHook
	// synced and collection must return nil before nodes are disrupted, and
	// before instances without a NodeClaim are terminated.
	synced, collection func(context.Context) error
}

// assemble does everything that can fail for reasons outside this process,
// before anything is registered that cannot be taken back.
func (e *Engine) assemble(ctx context.Context, mgr manager.Manager) (*parts, error) {
	config, err := e.awsConfig(ctx)
	if err != nil {
		return nil, err
	}
	from, err := e.dependencies(ctx, mgr, config)
	if err != nil {
		return nil, err
	}
	p := &parts{
		mgr:      mgr,
		client:   mgr.GetClient(),
		live:     mgr.GetAPIReader(),
		settings: e.config.Settings,
		clock:    e.clock,
		recorder: from.recorder,
		store:    nodeoverlay.NewInstanceTypeStore(),
		synced:   e.freshness.Check,
	}
	if p.providers, err = newProviders(ctx, config, from); err != nil {
		return nil, err
	}
	p.collection = e.collectionGuard(mgr, config)
	m, n := p.providers.instances, p.providers.network
	p.undecorated = cloudmetrics.Decorate(recoveringProvider{instancetypes.DriftProvider{CloudProvider: awscloud.New(
		instancetypes.Scoped{Provider: m.types}, m.instances, p.recorder, p.client, p.providers.images.amis,
		n.securityGroups, n.reservations, n.placementGroups, p.store, p.providers.caBundle,
	)}})
	p.cloud = overlay.Decorate(p.undecorated, p.client, p.store)
	if e.config.Decorate != nil {
		p.cloud = e.config.Decorate(p.client)(p.cloud)
	}
	if e.config.Hooks != nil {
		p.hooks = e.config.Hooks(p.client)
	}
	repairs, err := health.NewRepairPolicyMatcher(ctx, p.cloud)
	if err != nil {
		return nil, fmt.Errorf("preparing the repair of nodes: %w", err)
	}
	p.cluster = state.NewCluster(p.clock, p.client, p.cloud, state.WithRepairPolicyMatcher(repairs))
	return p, nil
}

// awsConfig is LoadAWS with the engine's user agent, metrics and structured
// errors, proven to reach EC2.
func (e *Engine) awsConfig(ctx context.Context) (aws.Config, error) {
	config, err := LoadAWS(ctx, e.config.Settings.Region)
	if err != nil {
		return aws.Config{}, err
	}
	config = awsprometheus.WithPrometheusMetrics(awsoperator.WithUserAgent(config), repeatable{crmetrics.Registry})
	config.APIOptions = append(config.APIOptions, middleware.StructuredErrorHandler)
	if e.config.BeforeAWSWrite != nil {
		config = fenceAWS(config, e.config.BeforeAWSWrite)
	}
	if err := awsoperator.CheckEC2Connectivity(ctx, ec2.NewFromConfig(config)); err != nil {
		return aws.Config{}, fmt.Errorf("reaching EC2 in %s: %w: check the network, the credentials and that they allow ec2:DescribeInstanceTypes", config.Region, err)
	}
	return config, nil
}

// repeatable takes what is registered already for registered, so that a start
// that failed can be tried again in the same process.
type repeatable struct{ prometheus.Registerer }

func (r repeatable) Register(c prometheus.Collector) error {
	if err := r.Registerer.Register(c); err != nil && !errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return err
	}
	return nil
}

// surroundings reads from the API server and EKS what new nodes need.
func (e *Engine) dependencies(ctx context.Context, mgr manager.Manager, config aws.Config) (dependencies, error) {
	kube, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return dependencies{}, fmt.Errorf("preparing the client for the API server: %w", err)
	}
	endpoint, err := e.endpoint(ctx, config)
	if err != nil {
		return dependencies{}, err
	}
	bundle, err := awsoperator.GetCABundle(ctx, mgr.GetConfig())
	if err != nil {
		return dependencies{}, fmt.Errorf("reading the API server's CA for new nodes: %w: correct the kubeconfig", err)
	}
	if *bundle == "" {
		return dependencies{}, errors.New("reading the API server's CA for new nodes: the connection to the API server names none, and nodes without it never join: use a kubeconfig with certificate-authority-data")
	}
	dns, err := awsoperator.KubeDNSIP(ctx, kube)
	if err != nil {
		// Clusters with a DNS of their own have no such service.
		log.FromContext(ctx).V(1).Info("the kube-dns service has no address to give to nodes", "reason", err.Error())
	}
	recorder := eventRecorder(mgr)
	if e.config.EventRecorder != nil {
		recorder = e.config.EventRecorder(recorder)
	}
	return dependencies{
		kube:     kube,
		client:   mgr.GetClient(),
		recorder: events.NewRecorder(recorder),
		clock:    e.clock,
		elected:  mgr.Elected(),
		caBundle: *bundle,
		endpoint: endpoint,
		dns:      dns,
	}, nil
}

func (e *Engine) endpoint(ctx context.Context, config aws.Config) (string, error) {
	if e.config.Settings.Nodes.Endpoint != "" {
		return e.config.Settings.Nodes.Endpoint, nil
	}
	out, err := eks.NewFromConfig(config).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &e.config.Settings.Cluster})
	if err != nil {
		return "", fmt.Errorf("reading the endpoint of EKS cluster %q: %w: check spec.name and spec.region, and allow eks:DescribeCluster", e.config.Settings.Cluster, err)
	}
	if out.Cluster == nil || aws.ToString(out.Cluster.Endpoint) == "" {
		return "", fmt.Errorf("reading the endpoint of EKS cluster %q: it has none yet: wait until the cluster is active", e.config.Settings.Cluster)
	}
	return *out.Cluster.Endpoint, nil
}

// cachesOfDecisions are the kinds whose caches decide about nodes.
func (e *Engine) cachesOfDecisions() []client.Object {
	kinds := []client.Object{&karpv1.NodeClaim{}, &karpv1.NodePool{}, &corev1.Node{}, &corev1.Pod{}, &appsv1.DaemonSet{}, &policyv1.PodDisruptionBudget{}}
	if e.options.provider.FeatureGates.DRANVIDIAGPU {
		kinds = append(kinds, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{})
	}
	return kinds
}

// bindFreshness shows the monitor the caches that decide about nodes.
func (e *Engine) bindFreshness(ctx context.Context, mgr manager.Manager) error {
	var watched []freshness.WatchedKind
	for _, object := range e.cachesOfDecisions() {
		kind, err := apiutil.GVKForObject(object, mgr.GetScheme())
		if err != nil {
			return fmt.Errorf("naming the kind of %T: %w", object, err)
		}
		informer, err := mgr.GetCache().GetInformer(ctx, object, crcache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Kind, err)
		}
		versioned, ok := informer.(freshness.Cache)
		if !ok {
			return fmt.Errorf("watching %s: the manager's cache has no resource versions: do not replace NewInformer", kind.Kind)
		}
		watched = append(watched, freshness.WatchedKind{Kind: kind, Cache: versioned})
	}
	e.freshness.Bind(mgr.GetAPIReader(), watched)
	return nil
}

// readyCheck is ready when the caches are filled and the CRDs are there.
func readyCheck(mgr manager.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(request.Context()) {
			return errors.New("the engine's caches are not filled yet")
		}
		for _, object := range []client.Object{&karpv1.NodePool{}, &karpv1.NodeClaim{}} {
			kind, err := apiutil.GVKForObject(object, mgr.GetScheme())
			if err != nil {
				return err
			}
			if _, err := mgr.GetRESTMapper().RESTMapping(kind.GroupKind(), kind.Version); err != nil {
				return fmt.Errorf("finding the CRD of %s: %w", kind.Kind, err)
			}
		}
		return nil
	}
}

// eventRecorder is the recorder that Karpenter's packages take, the older of the
// manager's two.
func eventRecorder(mgr manager.Manager) record.EventRecorder {
	return mgr.GetEventRecorderFor(coreoperator.AppName) //nolint:staticcheck // Karpenter's events package needs this one.
}

// keep is a cache whose entries live that long.
func keep(lifetime time.Duration) *cache.Cache {
	return cache.New(lifetime, awscache.DefaultCleanupInterval)
}
