package startuptaint_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	claimdisruption "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/nodepoolhealth"

	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
)

// These tests hold what this package assumes of Karpenter to Karpenter's own
// controllers.

// stage is Karpenter with our decorator on a provider that only pretends.
type stage struct {
	*testing.T
	ctx      context.Context
	clock    *clocktesting.FakeClock
	kube     client.WithWatch
	inner    *cloud
	provider cloudprovider.CloudProvider
	book     *startuptaint.FailureBackoff
	recorder events.Recorder
	cluster  *state.Cluster
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	s := &stage{T: t, clock: clocktesting.NewFakeClock(time.Now()), inner: &cloud{types: machines()}, recorder: events.NewRecorder(&record.FakeRecorder{})}
	s.ctx = coreoptions.ToContext(t.Context(), &coreoptions.Options{
		FeatureGates: coreoptions.DefaultFeatureGates(), CPURequests: 1000, IgnoreDRARequests: true,
		PreferencePolicy: coreoptions.PreferencePolicyRespect, MinValuesPolicy: coreoptions.MinValuesPolicyStrict,
	})
	s.kube = kube(t, objects...)
	s.book = startuptaint.NewFailureBackoff(s.clock)
	s.provider = startuptaint.Decorate(startuptaint.Config{Sharing: sharing("gpu"), Backoff: s.book, Reader: s.kube})(s.inner)
	s.cluster = state.NewCluster(s.clock, s.kube, s.provider)
	return s
}

func (s *stage) hold(pool string) time.Time {
	s.Helper()
	s.book.Failed(pool, "no driver")
	_, until := s.book.Failed(pool, "no driver")
	return until
}

// solve asks the real scheduler where the pods go.
func (s *stage) solve(pods ...*corev1.Pod) scheduling.Results {
	s.Helper()
	provisioner := provisioning.NewProvisioner(s.kube, s.recorder, s.provider, s.cluster, s.clock, deviceallocation.NewController(s.kube), nil)
	solver, err := provisioner.NewScheduler(s.ctx, pods, s.cluster.DeepCopyNodes().Active(), nil)
	if err != nil {
		s.Fatal(err)
	}
	results, err := solver.Solve(s.ctx, pods)
	if err != nil {
		s.Fatal(err)
	}
	return results
}

func wants(name, pool string, gpus int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	resources := list(corev1.ResourceCPU, 1)
	if gpus > 0 {
		resources[gpu.Resource] = list(gpu.Resource, gpus)[gpu.Resource]
	}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: resources, Limits: resources}}}
	p.Spec.NodeSelector = map[string]string{karpv1.NodePoolLabelKey: pool}
	return p
}

func TestPodsOfAHeldPoolWaitWhileOthersGo(t *testing.T) {
	s := newStage(t, pool("gpu"), pool("plain"))
	mine, others, plain := wants("mine", "gpu", 1), wants("others", "plain", 1), wants("without", "gpu", 0)
	until := s.hold("gpu")
	results := s.solve(mine, others, plain)
	if got := placed(results); !cmp.Equal(got, map[string]string{"others": "plain", "without": "gpu"}) {
		t.Errorf("placed %v", got)
	}
	err, waits := results.PodErrors[mine]
	// Karpenter does not tell types that cannot be had from types that are not.
	if !waits || !strings.Contains(err.Error(), "no instance type has enough resources") {
		t.Errorf("the pod of the held pool has the error %v", err)
	}
	s.clock.SetTime(until)
	if got := placed(s.solve(mine)); !cmp.Equal(got, map[string]string{"mine": "gpu"}) {
		t.Errorf("after the hold, placed %v", got)
	}
}

func TestAPoolOfNothingButGPUsWaitsAsAWhole(t *testing.T) {
	s := newStage(t, pool("gpu"))
	s.inner.types = s.inner.types[1:]
	s.hold("gpu")
	mine := wants("mine", "gpu", 1)
	results := s.solve(mine)
	if err := results.PodErrors[mine]; err == nil || !strings.Contains(err.Error(), "available instance types") || len(results.NewNodeClaims) > 0 {
		t.Errorf("error %v, %d claims", err, len(results.NewNodeClaims))
	}
}

// placed is the pool of the new claim for each pod.
func placed(results scheduling.Results) map[string]string {
	out := map[string]string{}
	for _, claim := range results.NewNodeClaims {
		for _, pod := range claim.Pods {
			out[pod.Name] = claim.NodePoolName
		}
	}
	return out
}

// node is an initialized node of the type, with its claim, both older than an hour.
func (s *stage) node(name, machine string) (*karpv1.NodeClaim, *corev1.Node) {
	s.Helper()
	old := metav1.NewTime(s.clock.Now().Add(-2 * time.Hour))
	labels := map[string]string{
		karpv1.NodePoolLabelKey: "gpu", corev1.LabelInstanceTypeStable: machine, karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand,
		corev1.LabelTopologyZone: "a", corev1.LabelHostname: name, karpv1.NodeRegisteredLabelKey: "true", karpv1.NodeInitializedLabelKey: "true",
		corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}
	has := list(corev1.ResourceCPU, 8, corev1.ResourceMemory, 32<<30, corev1.ResourcePods, 50, gpu.Resource, 1)
	c := claim("gpu", machine)
	c.Name, c.UID, c.Labels, c.CreationTimestamp = name, types.UID(name), labels, old
	c.Status = karpv1.NodeClaimStatus{ProviderID: "aws:///a/" + name, NodeName: name, Capacity: has, Allocatable: has}
	for _, condition := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized, karpv1.ConditionTypeConsolidatable} {
		c.StatusConditions().SetTrue(condition)
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, CreationTimestamp: old}, Spec: corev1.NodeSpec{ProviderID: c.Status.ProviderID}}
	n.Status = corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	for _, o := range []client.Object{c, n} {
		if err := s.kube.Create(s.ctx, o); err != nil {
			s.Fatal(err)
		}
	}
	s.cluster.UpdateNodeClaim(c)
	if err := s.cluster.UpdateNode(s.ctx, n); err != nil {
		s.Fatal(err)
	}
	s.cluster.SetSynced(true)
	return c, n
}

func TestAHoldMakesNoNodeDrift(t *testing.T) {
	s := newStage(t, pool("gpu"))
	c, _ := s.node("n1", "one")
	drifted := func() bool {
		t.Helper()
		controller := claimdisruption.NewController(s.clock, s.kube, s.provider) // a new one has an empty cache
		if _, err := controller.Reconcile(s.ctx, c); err != nil {
			t.Fatal(err)
		}
		return c.StatusConditions().Get(karpv1.ConditionTypeDrifted).IsTrue()
	}
	s.hold("gpu")
	if drifted() {
		t.Errorf("drifted: %s", c.StatusConditions().Get(karpv1.ConditionTypeDrifted).Reason)
	}
	// What a hold must not do: take the offerings away.
	for _, it := range s.inner.types {
		it.Offerings = nil
	}
	if !drifted() {
		t.Error("a type without offerings does not drift, so this proves nothing")
	}
}

// agreeable lets every command pass without waiting for its validation.
type agreeable struct{}

func (agreeable) Validate(_ context.Context, c disruption.Command, _ time.Duration) (disruption.Command, error) {
	return c, nil
}

func TestAHoldTakesNoBusyNodeAway(t *testing.T) {
	s := newStage(t, pool("gpu"))
	s.inner.types = append(s.inner.types, machine("dear", 9, list(gpu.Resource, 1)))
	s.node("n1", "dear")
	owner := true
	busy := wants("busy", "gpu", 1)
	busy.Spec.NodeName, busy.Status.Phase = "n1", corev1.PodRunning
	busy.OwnerReferences = []metav1.OwnerReference{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: "r", UID: "r", Controller: &owner}}
	if err := s.kube.Create(s.ctx, busy); err != nil {
		t.Fatal(err)
	}
	if err := s.cluster.UpdatePod(s.ctx, busy); err != nil {
		t.Fatal(err)
	}
	commands := func() int {
		t.Helper()
		provisioner := provisioning.NewProvisioner(s.kube, s.recorder, s.provider, s.cluster, s.clock, deviceallocation.NewController(s.kube), nil)
		queue := disruption.NewQueue(s.kube, s.recorder, s.cluster, s.clock, provisioner)
		method := disruption.NewSingleNodeConsolidation(disruption.MakeConsolidation(s.clock, s.cluster, s.kube, provisioner, s.provider, s.recorder, queue), disruption.WithValidator(agreeable{}))
		candidates, err := disruption.GetCandidates(s.ctx, s.cluster, s.kube, s.recorder, s.clock, s.provider, method.ShouldDisrupt, method.Class(), queue)
		if err != nil || len(candidates) != 1 || candidates[0].Price != 9 {
			t.Fatalf("candidates %v, %v", candidates, err)
		}
		budgets, err := disruption.BuildDisruptionBudgetMapping(s.ctx, s.cluster, s.clock, s.kube, s.provider, s.recorder, method.Reason())
		if err != nil {
			t.Fatal(err)
		}
		found, err := method.ComputeCommands(s.ctx, budgets, candidates...)
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	until := s.hold("gpu")
	if n := commands(); n != 0 {
		t.Errorf("%d nodes are replaced while nothing can be launched", n)
	}
	s.clock.SetTime(until)
	if n := commands(); n != 1 {
		t.Errorf("%d nodes are replaced by cheaper ones after the hold, want 1", n)
	}
}

// TestAHeldNodesWholeStart runs Karpenter's lifecycle controller from launch to
// initialization, with an image that ignores the taints of its user data.
func TestAHeldNodesWholeStart(t *testing.T) {
	born := claim("gpu", "one")
	born.Spec.Resources.Requests = list(gpu.Resource, 1)
	born.CreationTimestamp = metav1.Now()
	s := newStage(t, pool("gpu"), born)
	s.inner.created = &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{"karpenter.k8s.aws/instance-gpu-manufacturer": "nvidia", corev1.LabelInstanceTypeStable: "one"},
	}}
	s.inner.created.Status.ProviderID, s.inner.created.Status.Capacity = instance, list(gpu.Resource, 10)
	conflicts := 0
	watched := interceptor.NewClient(s.kube, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			err := c.Patch(ctx, o, p, options...)
			if _, node := o.(*corev1.Node); node && apierrors.IsConflict(err) {
				conflicts++
			}
			return err
		},
	})
	controller := lifecycle.NewController(s.clock, watched, s.provider, s.recorder, s.cluster, nodepoolhealth.NewState(),
		[]cloudprovider.NodeLifecycleHook{startuptaint.NewHook(watched, sharing("gpu"))})
	step := func() *karpv1.NodeClaim {
		t.Helper()
		c := &karpv1.NodeClaim{}
		if err := s.kube.Get(s.ctx, client.ObjectKeyFromObject(born), c); err != nil {
			t.Fatal(err)
		}
		if _, err := controller.Reconcile(s.ctx, c); err != nil {
			t.Fatal(err)
		}
		if err := s.kube.Get(s.ctx, client.ObjectKeyFromObject(born), c); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(born.Spec, c.Spec); diff != "" {
			t.Fatalf("the stored claim's spec changed: %s", diff)
		}
		for key, hash := range born.Annotations {
			if c.Annotations[key] != hash {
				t.Fatalf("%s is %q", key, c.Annotations[key])
			}
		}
		return c
	}
	is := func(c *karpv1.NodeClaim, condition string) bool { return c.StatusConditions().Get(condition).IsTrue() }

	if c := step(); !is(c, karpv1.ConditionTypeLaunched) || !held(s.inner.launched) || c.Status.ProviderID != instance {
		t.Fatalf("launched %+v, %+v", s.inner.launched.Spec, c.Status)
	}
	if err := s.kube.Create(s.ctx, arrived()); err != nil {
		t.Fatal(err)
	}
	if c := step(); is(c, karpv1.ConditionTypeRegistered) || taints(t, s.kube) != 1 || conflicts != 1 {
		t.Fatalf("the first time: registered is %t, %d taints, %d conflicts", is(c, karpv1.ConditionTypeRegistered), taints(t, s.kube), conflicts)
	}
	if c := step(); !is(c, karpv1.ConditionTypeRegistered) || taints(t, s.kube) != 1 || conflicts != 1 {
		t.Fatalf("the second time: registered is %t, %d taints, %d conflicts", is(c, karpv1.ConditionTypeRegistered), taints(t, s.kube), conflicts)
	}
	node := &corev1.Node{}
	change := func(to func()) {
		t.Helper()
		if err := s.kube.Get(s.ctx, client.ObjectKey{Name: "node"}, node); err != nil {
			t.Fatal(err)
		}
		to()
		status := node.Status.DeepCopy()
		if err := s.kube.Update(s.ctx, node); err != nil {
			t.Fatal(err)
		}
		node.Status = *status
		if err := s.kube.Status().Update(s.ctx, node); err != nil {
			t.Fatal(err)
		}
	}
	change(func() {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Allocatable = list(gpu.Resource, 10)
		node.Spec.Taints = []corev1.Taint{{Key: gpu.StartupTaint, Effect: corev1.TaintEffectNoSchedule}} // the user's own is gone
	})
	if c := step(); is(c, karpv1.ConditionTypeInitialized) {
		t.Fatal("initialized with the taint")
	}
	change(func() {
		node.Spec.Taints = nil
		node.Annotations = map[string]string{gpu.AllocatableAnnotation: "nvidia.com/gpu=10"}
	})
	if c := step(); !is(c, karpv1.ConditionTypeInitialized) {
		t.Fatal("not initialized without the taint")
	}
	if step(); taints(t, s.kube) != 0 {
		t.Error("tainted again")
	}
}
