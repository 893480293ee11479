package simulate_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	kubeletcel "github.com/aws/karpenter-provider-aws/pkg/cel"
	awscloud "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	reservationexpiration "github.com/aws/karpenter-provider-aws/pkg/controllers/capacityreservation/expiration"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass"
	classhash "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass/hash"
	"github.com/aws/karpenter-provider-aws/pkg/providers/amifamily"
	shift "github.com/aws/karpenter-provider-aws/pkg/providers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instance"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instanceprofile"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype"
	"github.com/aws/karpenter-provider-aws/pkg/providers/launchtemplate"
	"github.com/aws/karpenter-provider-aws/pkg/providers/placementgroup"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	"github.com/aws/karpenter-provider-aws/pkg/providers/securitygroup"
	ssmprovider "github.com/aws/karpenter-provider-aws/pkg/providers/ssm"
	"github.com/aws/karpenter-provider-aws/pkg/providers/subnet"
	"github.com/aws/karpenter-provider-aws/pkg/providers/version"
	"github.com/patrickmn/go-cache"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubeversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakekube "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	claimdisruption "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/counter"
	poolhash "sigs.k8s.io/karpenter/pkg/controllers/nodepool/hash"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/readiness"
	poolvalidation "sigs.k8s.io/karpenter/pkg/controllers/nodepool/validation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/metrics"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	"sigs.k8s.io/karpenter/pkg/state/nodepoolhealth"

	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/engine/enginetest"
	"github.com/poolwright/poolwright/provision/engine/instancetypes"
	"github.com/poolwright/poolwright/provision/engine/offerings"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// families are those of the instance types that the emulated AWS has in each test.
var families = []string{"g4dn", "g5", "m5", "c6i", "t3"}

// liveCluster is a cluster in memory, with Karpenter's controllers on the emulated AWS. They run one
// after the other, by a clock that only moves between their rounds.
type liveCluster struct {
	*testing.T
	ctx     context.Context
	clock   *clocktest.FakeClock
	api     client.Client
	amazon  *sandboxaws.Cloud
	sold    *offerings.Recorder
	refused *offerings.Refusals
	prices  *offerings.Prices
	cloud   cloudprovider.CloudProvider
	state   *state.Cluster
	created int
	// reservations are the capacity reservations as Karpenter counts their instances.
	reservations capacityreservation.Provider
	// families are those of the instance types that the emulated AWS has.
	families []string
	// known are the versions of objects that informers have received.
	known map[string]map[types.NamespacedName]string

	classes     []reconcile.ObjectReconciler[*awsv1.EC2NodeClass]
	pools       []reconcile.ObjectReconciler[*karpv1.NodePool]
	overlays    *nodeoverlay.Controller
	informers   map[string]reconcile.Reconciler
	provisioner *provisioning.Provisioner
	lifecycle   *lifecycle.Controller
	drift       *claimdisruption.Controller
	disruption  *disruption.Controller
	queue       *disruption.Queue
	evictions   *terminator.Queue
	termination *termination.Controller
	expiration  *reservationexpiration.Controller

	// replaced are the commands that Karpenter carried out, by NodeClaim: the NodeClaims that came in
	// its place.
	replaced map[string][]string
	// reasons are why NodeClaims were marked as drifted, those that are gone included.
	reasons  map[string]string
	failures []string
}

// newLiveCluster starts the emulated AWS, which has more families of instance types, and makes Karpenter's controllers as
// the engine does.
func newLiveCluster(t *testing.T, more ...string) *liveCluster {
	t.Helper()
	set := settings()
	config := sandboxaws.DefaultConfig()
	config.Account, config.Cluster.Name, config.Delays = set.Account, set.Cluster, sandboxaws.Delays{Removal: time.Hour}
	all := slices.Concat(families, more)
	config.Roles, config.Catalog = []string{"nodes"}, prices(t, all...)
	amazon, err := sandboxaws.New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(amazon)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	c := &liveCluster{
		T: t, amazon: amazon, families: all, ctx: engine.Offline(t.Context(), set), clock: clocktest.NewFakeClock(time.Now()),
		known: map[string]map[types.NamespacedName]string{}, replaced: map[string][]string{}, reasons: map[string]string{},
	}
	builder := enginetest.NewClientBuilder()
	for field, value := range map[string]func(*karpv1.NodeClassReference) string{
		"group": func(r *karpv1.NodeClassReference) string { return r.Group },
		"kind":  func(r *karpv1.NodeClassReference) string { return r.Kind },
		"name":  func(r *karpv1.NodeClassReference) string { return r.Name },
	} {
		builder = builder.WithIndex(&karpv1.NodeClaim{}, "spec.nodeClassRef."+field, func(o client.Object) []string { return []string{value(o.(*karpv1.NodeClaim).Spec.NodeClassRef)} }).
			WithIndex(&karpv1.NodePool{}, "spec.template.spec.nodeClassRef."+field, func(o client.Object) []string {
				return []string{value(o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef)}
			})
	}
	c.api = builder.WithStatusSubresource(&awsv1.EC2NodeClass{}, &karpv1alpha1.NodeOverlay{}, &corev1.Pod{}, &policyv1.PodDisruptionBudget{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: c.create, SubResourceCreate: c.evict}).Build()
	c.startKarpenter(set, server.URL)
	return c
}

// create completes a new object as the API server does.
func (c *liveCluster) create(ctx context.Context, to client.WithWatch, o client.Object, opts ...client.CreateOption) error {
	c.created++
	if o.GetName() == "" {
		o.SetName(fmt.Sprintf("%s%05d", o.GetGenerateName(), c.created))
	}
	o.SetUID(types.UID(fmt.Sprintf("uid-%05d", c.created)))
	o.SetCreationTimestamp(metav1.NewTime(c.clock.Now()))
	o.SetGeneration(1)
	return to.Create(ctx, o, opts...)
}

// evict evicts a pod unless a PodDisruptionBudget has no disruption left.
func (c *liveCluster) evict(ctx context.Context, to client.Client, sub string, o client.Object, _ client.Object, _ ...client.SubResourceCreateOption) error {
	if sub != "eviction" {
		return fmt.Errorf("%s is not emulated", sub)
	}
	var all policyv1.PodDisruptionBudgetList
	if err := to.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if b := &all.Items[i]; b.Namespace == o.GetNamespace() && selects(b, o) && c.allowed(b) <= 0 {
			return apierrors.NewTooManyRequests("the budget allows no disruption", 1)
		}
	}
	return to.Delete(ctx, o)
}

func keep(lifetime time.Duration) *cache.Cache { return cache.New(lifetime, time.Minute) }

// startKarpenter makes the providers and controllers.
func (c *liveCluster) startKarpenter(set engine.Settings, url string) {
	c.Helper()
	config := aws.Config{Region: set.Region, BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	expressions, err := kubeletcel.NewEnvironment()
	c.must(err)
	kube := fakekube.NewClientset()
	kube.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &kubeversion.Info{Major: "1", Minor: "33", GitVersion: "v1.33.0"}
	compute, cluster := ec2.NewFromConfig(config), eks.NewFromConfig(config)
	unavailable, recorder := awscache.NewUnavailableOfferings(), events.NewRecorder(&record.FakeRecorder{})
	subnets := subnet.NewDefaultProvider(compute, keep(time.Minute), keep(time.Minute))
	groups := securitygroup.NewDefaultProvider(compute, keep(time.Minute))
	placements := placementgroup.NewProvider(compute, keep(time.Minute), keep(time.Minute))
	reservations := capacityreservation.NewProvider(compute, c.clock, keep(time.Minute), keep(time.Hour))
	versions := version.NewDefaultProvider(kube, cluster)
	c.must(versions.UpdateVersion(c.ctx))
	images := amifamily.NewDefaultProvider(c.clock, versions, ssmprovider.NewDefaultProvider(ssm.NewFromConfig(config), keep(time.Minute)), compute, keep(time.Minute))
	c.prices = offerings.NewPrices(pricing.NewAPI(config), compute, c.clock, set.Region, false)
	c.sold, c.refused, c.reservations = &offerings.Recorder{EC2API: compute, Clock: c.clock}, &offerings.Refusals{EC2API: compute, Clock: c.clock}, reservations
	instances := instancetype.NewDefaultProvider(keep(time.Hour), keep(time.Hour), keep(time.Hour), c.sold, subnets, c.prices, reservations, placements,
		unavailable, instancetype.NewDefaultResolver(set.Region, expressions), shift.NewNoopProvider(), c.api, expressions)
	for _, update := range []func(context.Context) error{instances.UpdateInstanceTypes, instances.UpdateInstanceTypeOfferings, c.prices.UpdateOnDemandPricing, c.prices.UpdateSpotPricing} {
		c.must(update(c.ctx))
	}
	resolver := amifamily.NewDefaultResolver(set.Region, instances.ENILimits, expressions)
	profiles := instanceprofile.NewDefaultProvider(iam.NewFromConfig(config), keep(time.Minute), keep(time.Minute), keep(time.Minute), set.Region)
	bundle := caBundle
	templates := launchtemplate.NewDefaultProvider(c.ctx, keep(time.Minute), compute, cluster, resolver, groups, subnets, placements, &bundle, nil, nil, "https://api.example.com")
	launches := instance.NewDefaultProvider(c.ctx, set.Region, recorder, c.refused, unavailable, subnets, templates, reservations, placements, shift.NewNoopProvider(), keep(cache.NoExpiration))

	store := nodeoverlay.NewInstanceTypeStore()
	undecorated := instancetypes.DriftProvider{CloudProvider: awscloud.New(instancetypes.Scoped{Provider: instances}, launches, recorder, c.api, images, groups, reservations, placements, store, &bundle)}
	c.cloud = overlay.Decorate(undecorated, c.api, store)
	c.state = state.NewCluster(c.clock, c.api, c.cloud)
	costs, devices := cost.NewClusterCost(c.ctx, c.cloud, c.api), deviceallocation.NewController(c.api)
	c.provisioner = provisioning.NewProvisioner(c.api, recorder, c.cloud, c.state, c.clock, devices, nil)
	c.queue = disruption.NewQueue(c.api, recorder, c.state, c.clock, c.provisioner)
	c.disruption = disruption.NewController(c.ctx, c.clock, c.api, c.provisioner, c.cloud, recorder, c.state, c.queue, costs)
	c.drift = claimdisruption.NewController(c.clock, c.api, c.cloud)
	c.lifecycle = lifecycle.NewController(c.clock, c.api, c.cloud, recorder, c.state, nodepoolhealth.NewState(), nil)
	c.expiration = reservationexpiration.NewController(c.clock, c.api, c.cloud, reservations)
	c.evictions = terminator.NewQueue(c.clock, c.api, recorder)
	c.termination = termination.NewController(c.clock, c.api, c.cloud, terminator.NewTerminator(c.clock, c.api, c.evictions, recorder), recorder)
	c.overlays = nodeoverlay.NewController(c.clock, c.api, undecorated, store, c.state)
	c.classes = []reconcile.ObjectReconciler[*awsv1.EC2NodeClass]{
		classhash.NewController(c.api, &bundle),
		nodeclass.NewController(c.clock, c.api, c.cloud, recorder, set.Region, subnets, groups, images, profiles, instances, templates, reservations, placements,
			compute, keep(time.Minute), keep(time.Minute), resolver, expressions, true),
	}
	c.pools = []reconcile.ObjectReconciler[*karpv1.NodePool]{
		poolhash.NewController(c.api, c.cloud), readiness.NewController(c.clock, c.api, c.cloud),
		poolvalidation.NewController(c.clock, c.api, c.cloud), counter.NewController(c.api, c.cloud, c.state),
	}
	c.informers = map[string]reconcile.Reconciler{
		"NodePool":  informer.NewNodePoolController(c.api, c.cloud, c.state, costs),
		"NodeClaim": informer.NewNodeClaimController(c.api, c.cloud, c.state, costs),
		"Node":      informer.NewNodeController(c.api, c.state),
		"Pod":       informer.NewPodController(c.api, c.state),
		"DaemonSet": informer.NewDaemonSetController(c.api, c.state),
	}
}

func (c *liveCluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// failed keeps the last errors of controllers, which try again in the next round.
func (c *liveCluster) failed(what string, err error) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		c.failures = append(c.failures[max(0, len(c.failures)-20):], what+": "+err.Error())
	}
}

// list returns the objects of a kind, by name.
func list[T any](c *liveCluster, into client.ObjectList) []T {
	c.Helper()
	c.must(c.api.List(c.ctx, into))
	var out []T
	c.must(meta.EachListItem(into, func(o runtime.Object) error {
		typed, ok := o.(T)
		if !ok {
			return fmt.Errorf("the list has a %T", o)
		}
		out = append(out, typed)
		return nil
	}))
	return out
}

func (c *liveCluster) claims() []*karpv1.NodeClaim {
	return list[*karpv1.NodeClaim](c, &karpv1.NodeClaimList{})
}

func (c *liveCluster) nodes() []*corev1.Node { return list[*corev1.Node](c, &corev1.NodeList{}) }
func (c *liveCluster) pods() []*corev1.Pod   { return list[*corev1.Pod](c, &corev1.PodList{}) }

// nominated is longer than Karpenter keeps a node for a pod that is on its way to it.
const nominated = 21 * time.Second

// round runs every controller, and lets some time pass.
func (c *liveCluster) round() {
	c.Helper()
	for _, class := range list[*awsv1.EC2NodeClass](c, &awsv1.EC2NodeClassList{}) {
		for i, r := range c.classes {
			_, err := r.Reconcile(c.ctx, class.DeepCopy())
			c.failed(fmt.Sprint("class ", i), err)
			c.failed("class", c.api.Get(c.ctx, client.ObjectKeyFromObject(class), class))
		}
	}
	c.inform("NodePool", &karpv1.NodePoolList{})
	for _, pool := range list[*karpv1.NodePool](c, &karpv1.NodePoolList{}) {
		for i, r := range c.pools {
			_, err := r.Reconcile(c.ctx, pool.DeepCopy())
			c.failed(fmt.Sprint("pool ", i), err)
			c.failed("pool", c.api.Get(c.ctx, client.ObjectKeyFromObject(pool), pool))
		}
	}
	_, err := c.overlays.Reconcile(c.ctx, reconcile.Request{})
	c.failed("overlays", err)
	c.collect()
	c.replicate()
	c.schedule()
	c.informAll()
	c.provision()
	c.liveAndDie()
	c.schedule()
	c.informAll()
	c.disrupt()
	c.clock.Step(nominated)
}

// provision makes NodeClaims for pods that wait.
func (c *liveCluster) provision() {
	c.Helper()
	if !c.state.Synced(c.ctx) {
		return
	}
	results, err := c.provisioner.Schedule(c.ctx)
	c.failed("scheduling", err)
	if err == nil && len(results.NewNodeClaims) > 0 {
		_, err = c.provisioner.CreateNodeClaims(c.ctx, results.NewNodeClaims, provisioning.WithReason(metrics.ProvisionedReason), provisioning.RecordPodNomination)
		c.failed("creating NodeClaims", err)
	}
}

// liveAndDie launches, registers, initializes, drains and terminates nodes.
func (c *liveCluster) liveAndDie() {
	c.Helper()
	for range 3 { // Launched, registered and initialized; or drained, terminated and gone.
		for _, claim := range c.claims() {
			if claim.DeletionTimestamp.IsZero() && claim.StatusConditions().IsTrue(karpv1.ConditionTypeInitialized) {
				continue
			}
			_, err := c.lifecycle.Reconcile(c.ctx, claim.DeepCopy())
			c.failed("NodeClaim "+claim.Name, err)
		}
		c.join()
		drains := false
		for _, node := range c.nodes() {
			if !node.DeletionTimestamp.IsZero() {
				drains = true
				_, err := c.termination.Reconcile(c.ctx, node.DeepCopy())
				c.failed("Node "+node.Name, err)
			}
		}
		if drains {
			for _, pod := range c.pods() {
				if c.evictions.Has(pod) {
					_, err := c.evictions.Reconcile(c.ctx, pod.DeepCopy())
					c.failed("evicting "+pod.Name, err)
				}
			}
			// A ReplicaSet makes another pod as soon as one terminates.
			c.replicate()
		}
		c.informAll()
	}
}

// disrupt marks drifted nodes, and lets Karpenter take one.
func (c *liveCluster) disrupt() {
	c.Helper()
	for _, claim := range c.claims() {
		_, err := c.drift.Reconcile(c.ctx, claim.DeepCopy())
		c.failed("drift of "+claim.Name, err)
	}
	for _, claim := range c.claims() {
		if reason := reasonOf(claim); reason != "" {
			c.reasons[claim.Name] = reason
		}
	}
	c.informAll()
	_, err := c.disruption.Reconcile(c.ctx)
	c.failed("disruption", err)
	for _, claim := range c.claims() {
		command := c.queue.ProviderIDToCommand[claim.Status.ProviderID]
		if command == nil {
			continue
		}
		var names []string
		for _, r := range command.Replacements {
			names = append(names, r.Name)
		}
		c.replaced[claim.Name] = names
		_, err := c.queue.Reconcile(c.ctx, claim.DeepCopy())
		c.failed("disrupting "+claim.Name, err)
	}
	c.informAll()
}

// informAll passes what there is to Karpenter's state, and what is gone.
func (c *liveCluster) informAll() {
	c.Helper()
	c.inform("NodePool", &karpv1.NodePoolList{})
	c.inform("NodeClaim", &karpv1.NodeClaimList{})
	c.inform("Node", &corev1.NodeList{})
	c.inform("Pod", &corev1.PodList{})
}

func (c *liveCluster) inform(kind string, of client.ObjectList) {
	c.Helper()
	was, is := c.known[kind], map[types.NamespacedName]string{}
	var keys []types.NamespacedName
	for _, o := range list[client.Object](c, of) {
		key := client.ObjectKeyFromObject(o)
		if is[key] = o.GetResourceVersion(); is[key] != was[key] {
			keys = append(keys, key)
		}
	}
	for key := range was {
		if is[key] == "" {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return compareKeys(a, b) })
	for _, key := range keys {
		_, err := c.informers[kind].Reconcile(c.ctx, reconcile.Request{NamespacedName: key})
		c.failed("informing of "+key.String(), err)
	}
	c.known[kind] = is
}
