package collector

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/gpu/readiness"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
	"github.com/poolwright/poolwright/reconciler/history/store"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// collecting is a Collector of the objects of a client without a server.
func collecting(t *testing.T, kube client.Client, change ...func(*Config)) (*Collector, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(noon)
	cfg := Config{Cached: kube, Live: kube, Namespace: "poolwright-system", Nodes: true, Registry: prometheus.NewRegistry(), Clock: clock, Log: logr.Discard()}
	for _, c := range change {
		c(&cfg)
	}
	c := New(logr.Discard())
	if err := c.configure(cfg); err != nil {
		t.Fatal(err)
	}
	return c, clock
}

func clientOf(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).WithStatusSubresource(&karpv1.NodeClaim{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
}

// claimOf is a NodeClaim that was launched and initialized half an hour ago.
func claimOf(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-1", Finalizers: []string{karpv1.TerminationFinalizer}, CreationTimestamp: metav1.NewTime(noon.Add(-30 * time.Minute)), Labels: map[string]string{
		karpv1.NodePoolLabelKey: "gpu", karpv1.CapacityTypeLabelKey: "on-demand", corev1.LabelInstanceTypeStable: "g4dn.12xlarge",
		corev1.LabelTopologyRegion: "us-east-1", corev1.LabelTopologyZone: "us-east-1a",
	}}}
	c.Status.NodeName = "ip-" + name
	for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		set(kind, kind)(c)
	}
	for _, ch := range change {
		ch(c)
	}
	return c
}

func set(kind, reason string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-30 * time.Minute))})
	}
}

func deletedNow(c *karpv1.NodeClaim) { c.DeletionTimestamp = &metav1.Time{Time: noon} }

func poolOf(name string) *karpv1.NodePool {
	return &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestWhyANodeClaimIsDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		claim   *karpv1.NodeClaim
		event   string
		pool    string
		want    history.Reason
		message string
	}{
		"while it is not":                 {claim: claimOf("a")},
		"a reason of Karpenter's":         {claim: claimOf("a", deletedNow, set(karpv1.ConditionTypeDisruptionReason, "Underutilized")), want: "Underutilized"},
		"drift, with what drifted":        {claim: claimOf("a", deletedNow, set(karpv1.ConditionTypeDrifted, "AMIDrift"), set(karpv1.ConditionTypeDisruptionReason, "Drifted")), want: history.ReasonDrifted, message: "AMIDrift"},
		"GPUs that were never advertised": {claim: claimOf("a", deletedNow, func(c *karpv1.NodeClaim) { c.Annotations = map[string]string{readiness.FailedAnnotation: "NoDriver"} }), want: history.ReasonGPUsNotAllocatable, message: "NoDriver"},
		"an interruption":                 {claim: claimOf("a", deletedNow), event: "SpotInterrupted", want: "SpotInterrupted"},
		"no recommendation":               {claim: claimOf("a", deletedNow), event: "SpotRebalanceRecommendation", want: history.ReasonDeleted},
		"by hand":                         {claim: claimOf("a", deletedNow), want: history.ReasonDeleted},
		"its age":                         {claim: claimOf("a", deletedNow, func(c *karpv1.NodeClaim) { c.Spec.ExpireAfter = karpv1.MustParseNillableDuration("30m") }), want: history.ReasonExpired},
		"its pool":                        {claim: claimOf("a", deletedNow), pool: "other", want: history.ReasonNodePoolDeleted},
		"a node that never registered":    {claim: claimOf("a", deletedNow, func(c *karpv1.NodeClaim) { c.Status.Conditions = c.Status.Conditions[:1] }), want: history.ReasonRegistrationTimeout},
		"by hand before it could register": {claim: claimOf("a", deletedNow, func(c *karpv1.NodeClaim) {
			c.Status.Conditions, c.CreationTimestamp = c.Status.Conditions[:1], metav1.NewTime(noon.Add(-time.Minute))
		}), want: history.ReasonDeleted},
		"Karpenter's reason before another": {claim: claimOf("a", deletedNow, set(karpv1.ConditionTypeDisruptionReason, "Empty")), event: "SpotInterrupted", want: history.ReasonEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			pool := "gpu"
			if test.pool != "" {
				pool = test.pool
			}
			c, _ := collecting(t, clientOf(test.claim, poolOf(pool)))
			if test.event != "" {
				before := test.claim.DeepCopy()
				before.DeletionTimestamp = nil
				c.EventRecorder(record.NewFakeRecorder(1)).Event(before, "Warning", test.event, "")
			}
			c.step(t.Context(), nil)
			for _, n := range read(t, c).NodeClaims {
				if n.Reason != test.want || n.Message != test.message || n.GPUs != 4 {
					t.Errorf("it was deleted because of %q, %q, with %d GPUs", n.Reason, n.Message, n.GPUs)
				}
			}
			if n := len(c.state.Open()); n != 1 {
				t.Errorf("%d nodes are observed", n)
			}
		})
	}
}

// read writes and reads the history.
func read(t *testing.T, c *Collector) history.History {
	t.Helper()
	if err := c.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := c.writer.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestATerminationThatKarpenterBeganIsNoInterruption(t *testing.T) {
	claim := claimOf("a", deletedNow)
	c, _ := collecting(t, clientOf(claim, poolOf("gpu")))
	events := record.NewFakeRecorder(1)
	c.EventRecorder(events).Event(claim, "Warning", "InstanceTerminating", "message")
	if len(events.Events) != 1 {
		t.Error("the event is not recorded")
	}
	c.step(t.Context(), nil)
	if got := read(t, c).NodeClaims[0].Reason; got != history.ReasonDeleted {
		t.Errorf("it was deleted because of %s", got)
	}
}

func TestAPriceIsThatOfAWSOrOfTheCatalog(t *testing.T) {
	list := &pricelist.List{OnDemandAt: noon, SpotAt: noon, OnDemand: map[string]float64{"g4dn.12xlarge": 5}, Spot: map[string]map[string]float64{"us-east-1a": {"g4dn.12xlarge": 2}}}
	for name, test := range map[string]struct {
		list               *pricelist.List
		region             string
		capacity, kind, at string
		usd                float64
		basis              history.PriceBasis
	}{
		"on demand, of AWS":          {list, "us-east-1", "on-demand", "g4dn.12xlarge", "us-east-1a", 5, history.PriceList},
		"spot, of the zone":          {list, "us-east-1", "spot", "g4dn.12xlarge", "us-east-1a", 2, history.PriceSpotHistory},
		"spot in a zone without one": {list, "us-east-1", "spot", "g4dn.12xlarge", "us-east-1b", 5, history.PriceSpotAtMost},
		"reserved":                   {list, "us-east-1", "reserved", "g4dn.12xlarge", "us-east-1a", 5, history.PriceList},
		"of the catalog":             {nil, "us-east-1", "on-demand", "g4dn.12xlarge", "", 3.912, history.PriceCatalog},
		"of another region":          {nil, "eu-west-1", "on-demand", "g4dn.12xlarge", "", 3.912, history.PriceOtherRegion},
		"of no type":                 {nil, "eu-west-1", "on-demand", "x9.none", "", 0, ""},
		"before the launch":          {nil, "eu-west-1", "on-demand", "", "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := collecting(t, clientOf(), func(c *Config) { c.Offerings = func() *pricelist.List { return test.list } })
			usd, basis := c.price(test.region, history.NodeClaim{InstanceType: test.kind, CapacityType: test.capacity, Zone: test.at})
			if basis != test.basis || (usd == nil) != (test.usd == 0) || usd != nil && math.Abs(*usd-test.usd) > 1e-9 {
				t.Errorf("the price is %v, %s", usd, basis)
			}
		})
	}
}

// podOf is one on a node that requests shares of its GPUs.
func podOf(name, node string, gpus int64, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, CreationTimestamp: metav1.NewTime(noon)}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	if gpus > 0 {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func TestPodsRequestShares(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ip-a"}}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("40"), "cpu": resource.MustParse("4")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	ofDaemonSet := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d"}}
	}
	succeeded := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	c, clock := collecting(t, clientOf(claimOf("a"), poolOf("gpu"), n,
		podOf("plain", "ip-a", 0), podOf("b", "ip-a", 8), podOf("a", "ip-a", 2), podOf("plugin", "ip-a", 0, ofDaemonSet), podOf("ended", "ip-a", 30, succeeded), podOf("pending", "", 30), podOf("elsewhere", "ip-b", 30)))
	c.step(t.Context(), nil)
	clock.Step(20 * time.Second)
	c.step(t.Context(), nil)
	got := read(t, c)
	if d := cmp.Diff([]string{"ml/a", "ml/b", "ml/plain"}, got.NodeClaims[0].Pods); d != "" {
		t.Errorf("first pods (-want +got):\n%s", d)
	}
	if d := cmp.Diff(history.States{Paid: 4 * 1820, Unobserved: 4 * 1800, Allocatable: 80, Requested: 20, Idle: 60}, got.NodeClaims[0].GPUSeconds); d != "" {
		t.Errorf("GPU seconds (-want +got):\n%s", d)
	}
	for state, want := range map[string]float64{"paid": 7280, "idle": 60, "requested": 20, "allocatable": 80, "unobserved": 7200} {
		if got := testutil.ToFloat64(c.series.seconds.WithLabelValues("gpu", state)); math.Abs(got-want) > 1e-6 {
			t.Errorf("poolwright_gpu_seconds_total of %s is %f, want %f", state, got, want)
		}
	}
	if got := testutil.ToFloat64(c.series.usd.WithLabelValues("gpu", "on-demand", "paid")); math.Abs(got-1820*3.912/3600) > 1e-6 {
		t.Errorf("poolwright_cost_usd_total is %f", got)
	}
}

func TestTheSeriesOfANodePoolEndWithIt(t *testing.T) {
	kube := clientOf(claimOf("a"), poolOf("gpu"), poolOf("other"))
	c, clock := collecting(t, kube)
	c.step(t.Context(), nil)
	if n := testutil.CollectAndCount(c.series.seconds); n != 5 {
		t.Errorf("there are %d series of one pool", n)
	}
	if err := kube.Delete(t.Context(), poolOf("gpu")); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Second)
	c.step(t.Context(), nil)
	if n := testutil.CollectAndCount(c.series.seconds); n != 5 {
		t.Errorf("there are %d series of a pool that is gone, and whose node runs", n)
	}
	claim := claimOf("a")
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	claim.Finalizers = nil
	if err := errors.Join(kube.Update(t.Context(), claim), kube.Delete(t.Context(), claim)); err != nil {
		t.Fatal(err)
	}
	clock.Step(time.Second)
	c.step(t.Context(), nil)
	if n := testutil.CollectAndCount(c.series.seconds) + testutil.CollectAndCount(c.series.usd); n != 0 {
		t.Errorf("%d series are left of a pool that is gone", n)
	}
	if _, err := newMetrics(c.cfg.Registry); err == nil {
		t.Error("metrics are registered twice")
	}
}

func change(kind, name string, action plan.Action, drift bool, before, after map[string]any) plan.Change {
	c := plan.Change{Key: state.Key{Target: state.TargetKubernetes, Kind: kind, Name: name}, Action: action, Drift: drift}
	if kind == "NodePool" {
		c.Key.Group = "karpenter.sh"
	}
	if before != nil {
		c.Before = &state.Item{Key: c.Key, Object: before}
	}
	if after != nil {
		c.After = &state.Item{Key: c.Key, Object: after}
	}
	if action == plan.Update {
		c.Fields = plan.Diff(before, after)
	}
	return c
}

func TestWhatARunLeavesInTheHistory(t *testing.T) {
	edited := change("NodePool", "gpu", plan.Update, true, map[string]any{"spec": map[string]any{"weight": int64(64)}}, map[string]any{"spec": map[string]any{"weight": int64(4)}})
	edited.Before.Managers = []owner.Manager{{Name: "kubectl-edit", Operation: "Update", Time: "2026-11-01T11:59:00Z"}, {Name: "odd", Time: "none"}}
	secret := change("Secret", "token", plan.Update, true, map[string]any{"kind": "Secret", "data": map[string]any{"a": "aGVsbG8td29ybGQ="}}, map[string]any{"kind": "Secret", "data": map[string]any{"a": "c2VjcmV0LXZhbHVl"}})
	long := change("ConfigMap", "long", plan.Update, true, map[string]any{"data": map[string]any{"a": strings.Repeat("ä", 300)}}, map[string]any{"data": map[string]any{"b": []any{"x"}}})
	held := change("ConfigMap", "held", plan.Delete, false, map[string]any{}, nil)
	held.Hold = hold.Reasons{{Rule: hold.MaxPrunePercent}}
	c, clock := collecting(t, clientOf())
	clock.SetTime(noon.Add(-1500 * time.Millisecond))
	ended := c.RunObserver("dev")()
	clock.SetTime(noon)
	ended(reconciler.Result{Revision: "main@sha1:abc", Outcome: apply.Outcome{Results: []apply.Result{
		{Change: change("ConfigMap", "new", plan.Create, false, nil, map[string]any{}), Status: apply.Applied},
		{Change: change("NodePool", "gpu", plan.Update, false, map[string]any{}, map[string]any{}), Status: apply.Applied},
		{Change: change("ConfigMap", "old", plan.Delete, false, map[string]any{}, nil), Status: apply.Applied},
		{Change: change("ConfigMap", "bad", plan.Create, false, nil, map[string]any{}), Status: apply.Failed, Err: errors.New("refused")},
		{Change: held, Status: apply.Held},
		{Change: edited, Status: apply.Applied},
		{Change: secret, Status: apply.Applied},
		{Change: long, Status: apply.Held},
		{Change: change("ConfigMap", "gone", plan.Create, true, nil, map[string]any{"data": map[string]any{"a": "b"}}), Status: apply.Failed, Err: errors.New("refused")},
	}}})
	c.step(t.Context(), nil)
	got := read(t, c)
	applied := []history.Apply{{
		Sync: "dev", Revision: "main@sha1:abc", Time: metav1.NewTime(noon), Seconds: 1.5, Created: 1, Updated: 1, Deleted: 1, Failed: 1, Held: 1,
		Objects: []string{"NodePool.karpenter.sh/gpu", "ConfigMap/new", "ConfigMap/old"},
	}}
	if d := cmp.Diff(applied, got.Applies); d != "" {
		t.Errorf("applies (-want +got):\n%s", d)
	}
	drifted := []history.Drift{
		{Object: "NodePool.karpenter.sh/gpu", Result: history.DriftCorrected, Fields: []history.FieldChange{{Path: "spec.weight", Before: "64", After: "4"}}, Managers: []owner.Manager{{Name: "kubectl-edit", Operation: "Update", Time: "2026-11-01T11:59:00Z"}, {Name: "odd", Time: "none"}}},
		{Object: "Secret/token", Result: history.DriftCorrected, Fields: []history.FieldChange{{Path: "data.a", Before: "(masked)", After: "(masked)"}}},
		{Object: "ConfigMap/long", Result: history.DriftReported, Fields: []history.FieldChange{{Path: "data.a", Before: strings.Repeat("ä", 100) + "..."}, {Path: "data.b", After: `["x"]`}}},
		{Object: "ConfigMap/gone", Result: history.DriftNotCorrected, Deleted: true},
	}
	for i := range drifted {
		drifted[i].Sync, drifted[i].Time = "dev", metav1.NewTime(noon)
	}
	if d := cmp.Diff(drifted, got.Drift); d != "" {
		t.Errorf("drift (-want +got):\n%s", d)
	}
	if content, err := json.Marshal(got); err != nil || strings.Contains(string(content), "aGVsbG8td29ybGQ=") {
		t.Errorf("a secret is in the history, %v", err)
	}
}

func TestMergedPullRequestsAreThoseOfTheStatus(t *testing.T) {
	merged := &metav1.Time{Time: noon.Add(-time.Hour)}
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}
	s.Status.PullRequests = &v1alpha1.PullRequestsStatus{Items: []v1alpha1.PullRequestStatus{
		{Number: 2, Headline: "open"},
		{Number: 1, Headline: "1 object", MergeCommit: "abc", MergedTime: merged, AppliedTime: merged, RolledOutTime: merged, Reviewed: &v1alpha1.ReviewedDisruption{NodesReplaced: 3, NodesRemoved: 1}},
	}}
	other := s.DeepCopy()
	other.Namespace = "elsewhere"
	c, clock := collecting(t, clientOf(s, other), func(c *Config) { c.Nodes = false })
	for range 3 {
		c.step(t.Context(), nil)
		clock.Step(time.Minute)
	}
	took := 0.0
	want := []history.PullRequest{{
		Sync: "dev", Number: 1, Headline: "1 object", Commit: "abc", Merged: *merged, Applied: *merged, RolledOut: *merged,
		Predicted: &history.NodeChanges{Replaced: 3, Removed: 1}, Actual: history.NodeChanges{Seconds: &took},
	}}
	if d := cmp.Diff(want, read(t, c).PullRequests); d != "" {
		t.Errorf("pull requests (-want +got):\n%s", d)
	}
}

// counted counts the writes of a client, and lets them fail while it is told to.
func counted(kube client.WithWatch, writes *int, failure *error) client.Client {
	return interceptor.NewClient(kube, interceptor.Funcs{
		Create: func(ctx context.Context, kube client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if *writes++; *failure != nil {
				return *failure
			}
			return kube.Create(ctx, object, opts...)
		},
		Update: func(ctx context.Context, kube client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			if *writes++; *failure != nil {
				return *failure
			}
			return kube.Update(ctx, object, opts...)
		},
	})
}

func TestNothingIsWrittenWhereNothingHappens(t *testing.T) {
	writes, failure := 0, error(nil)
	kube := clientOf()
	c, clock := collecting(t, kube, func(cfg *Config) { cfg.Live = counted(kube, &writes, &failure) })
	steps := func(d time.Duration) {
		for end := clock.Now().Add(d); clock.Now().Before(end); clock.Step(sampleInterval) {
			c.step(t.Context(), nil)
		}
	}
	steps(time.Hour)
	if writes != 0 {
		t.Errorf("%d writes without a node", writes)
	}
	if err := kube.Create(t.Context(), claimOf("a")); err != nil {
		t.Fatal(err)
	}
	steps(time.Minute)
	if writes != 1 {
		t.Errorf("%d writes for a node that came", writes)
	}
	steps(time.Hour)
	if writes != 16 {
		t.Errorf("%d writes in an hour with a node, want one in four minutes", writes-1)
	}
	failure = errors.New("the API server is away")
	steps(4*time.Minute + 10*time.Second)
	failed := writes
	failure = nil
	steps(sampleInterval)
	if failed < 18 || writes != failed+1 {
		t.Errorf("%d writes fail, and then there is %d", failed-16, writes-failed)
	}
	before := writes
	failure = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "poolwright-history", errors.New("exceeded quota"))
	steps(20 * time.Minute)
	if n := writes - before; n < 3 || n > 5 {
		t.Errorf("%d writes in 20 minutes that the API server refuses, want one in four minutes", n)
	}
	before = writes
	written := make(chan error, 1)
	if c.step(t.Context(), []chan<- error{written}); writes != before || !errors.Is(<-written, errPostponed) {
		t.Errorf("%d writes for a termination while the API server refuses them", writes-before)
	}
	failure = nil
	steps(refusedDelay + sampleInterval)
	if writes != before+1 {
		t.Errorf("%d writes once the API server refuses none", writes-before)
	}
}

func TestWhatAnotherHasWrittenMeanwhileIsTakenOver(t *testing.T) {
	kube := clientOf(claimOf("a"), poolOf("gpu"))
	c, _ := collecting(t, kube)
	c.step(t.Context(), nil)
	other := &store.Store{Kube: kube, Namespace: "poolwright-system"}
	written, err := other.Load(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	written.RecordApply(history.Apply{Sync: "other", Revision: "main@sha1:a", Time: metav1.NewTime(noon), Created: 1})
	if err := other.Save(t.Context(), written, func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	c.state.RecordApply(history.Apply{Sync: "dev", Revision: "main@sha1:a", Time: metav1.NewTime(noon), Created: 1})
	if got := read(t, c); len(got.Applies) != 2 {
		t.Errorf("%d applies are recorded", len(got.Applies))
	}
}

func TestANodeClaimThatOnlyTheCacheLacksIsNotGone(t *testing.T) {
	claim := claimOf("a")
	kube := clientOf(claim, poolOf("gpu"))
	c, clock := collecting(t, kube)
	c.step(t.Context(), nil)
	c.cfg.Cached = clientOf(poolOf("gpu"))
	for range 3 {
		clock.Step(sampleInterval)
		c.step(t.Context(), nil)
	}
	if n := len(c.state.Open()); n != 1 {
		t.Fatalf("%d nodes run", n)
	}
	claim.Finalizers = nil
	if err := errors.Join(kube.Update(t.Context(), claim), kube.Delete(t.Context(), claim)); err != nil {
		t.Fatal(err)
	}
	c.step(t.Context(), nil)
	if got := read(t, c).NodeClaims[0]; got.Reason != history.ReasonUnknown || !got.TerminationUnobserved {
		t.Errorf("the node that is gone is %+v", got)
	}
}

func TestADeletionThatWasObservedEndsTheNode(t *testing.T) {
	claim := claimOf("a", deletedNow)
	c, clock := collecting(t, clientOf(claim, poolOf("gpu")))
	c.step(t.Context(), nil)
	c.cfg.Cached = clientOf(poolOf("gpu"))
	clock.Step(3 * time.Second)
	c.deleted(claim) // This replica does not lead yet.
	if len(c.queued) > 0 {
		t.Error("a replica that does not lead records a deletion")
	}
	c.leads.Store(true)
	c.deleted(claim) // Its finalizer was removed by hand.
	clock.Step(2 * time.Second)
	c.step(t.Context(), nil)
	if got := read(t, c).NodeClaims[0]; !got.Terminated.Time.Equal(noon.Add(3*time.Second)) || got.TerminationUnobserved || got.Reason != history.ReasonDeleted {
		t.Errorf("the node that is gone is %+v", got)
	}
}

// provider counts terminations, and reads what is recorded before each.
type provider struct {
	cloudprovider.CloudProvider
	before func()
}

func (p *provider) Delete(context.Context, *karpv1.NodeClaim) error {
	p.before()
	return nil
}

func TestATerminationIsRecordedBeforeItIsCarriedOut(t *testing.T) {
	claim := claimOf("a", deletedNow)
	kube := clientOf(claim, poolOf("gpu"))
	c, _ := collecting(t, kube)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	terminations := 0
	p := c.Decorate(&provider{before: func() {
		terminations++
		h, err := (&store.Store{Kube: kube, Namespace: "poolwright-system"}).Read(t.Context())
		if err != nil || len(h.NodeClaims) != 1 || h.NodeClaims[0].Deleted.IsZero() {
			t.Errorf("before the termination %+v is recorded, %v", h.NodeClaims, err)
		}
	}})
	for range 3 { // Karpenter repeats it until the instance is gone.
		if err := p.Delete(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	c.RunObserver("dev")()(reconciler.Result{Revision: "main@sha1:a", Outcome: apply.Outcome{Results: []apply.Result{{Change: change("ConfigMap", "a", plan.Create, false, nil, map[string]any{}), Status: apply.Applied}}}})
	stop()
	if err := <-ended; err != nil || terminations != 3 {
		t.Errorf("%d terminations, %v", terminations, err)
	}
	h, err := (&store.Store{Kube: kube, Namespace: "poolwright-system"}).Read(t.Context())
	if err != nil || len(h.Applies) != 1 {
		t.Errorf("at its end it has written %d applies, %v", len(h.Applies), err)
	}
}

func TestATerminationDoesNotWaitForAHistoryThatCannotBeWritten(t *testing.T) {
	claim := claimOf("a", deletedNow)
	p := New(logr.Discard()).Decorate(&provider{before: func() {}})
	if err := p.Delete(t.Context(), claim); err != nil { // It is on no manager.
		t.Fatal(err)
	}
	writes, failure := 0, errors.New("refused")
	kube := clientOf(claim, poolOf("gpu"))
	c, _ := collecting(t, kube, func(cfg *Config) { cfg.Live = counted(kube, &writes, &failure) })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	if err := c.Decorate(&provider{before: func() {}}).Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil || writes == 0 {
		t.Errorf("%d writes, %v", writes, err)
	}
}

func TestManyTerminationsShareAWrite(t *testing.T) {
	const many = 100
	writes, failure := 0, error(nil)
	c, _ := collecting(t, clientOf(poolOf("gpu")), func(cfg *Config) { cfg.Live = counted(clientOf(), &writes, &failure) })
	written := make(chan error, many)
	for i := range many {
		o := c.observation(claimOf("a", deletedNow), nil)
		o.UID = strings.Repeat("x", i+1)
		c.queue(func(s *recorder.State) { s.Terminating(noon, o) })
		go func() { written <- c.flush(t.Context()) }()
	}
	// All wait, before the first of them is served.
	first := <-c.flushes
	all := c.waiting(first)
	for len(all) < many {
		all = append(all, <-c.flushes)
	}
	c.step(t.Context(), all)
	for range many {
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 || len(c.state.Open()) != many {
		t.Errorf("%d writes for %d nodes", writes, len(c.state.Open()))
	}
}
