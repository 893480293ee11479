package batcher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/option"
	"github.com/awslabs/operatorpkg/reconciler"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

func TestWhatIsRemovedIsInNoBatch(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	b.Trigger("bound")
	b.Trigger("pending")
	b.Remove("bound")
	b.removal().Delete(t.Context(), event.DeleteEvent{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "unknown"}}}, nil)
	clk.Step(idle)
	batch, _ := b.closed(t.Context())
	if diff := cmp.Diff(sets.New[types.UID]("pending"), batch); diff != "" {
		t.Error(diff)
	}
	b.removal().Delete(t.Context(), event.DeleteEvent{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pending"}}}, nil)
	if batch, left := b.closed(t.Context()); batch != nil || left != 0 {
		t.Errorf("got %v, %s", batch, left)
	}
	// Removed while it was scheduled, or afterwards: nothing of it is kept.
	b.done(batch)
	b.Trigger("launched")
	b.done(sets.New[types.UID]("launched"))
	b.Remove("launched")
	if b.scheduled.Len() != 0 {
		t.Errorf("kept %v", b.scheduled)
	}
}

func TestAChangeThatNoObjectStandsForIsInTheNextBatch(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	b.TriggerReconcile()
	clk.Step(time.Minute)
	batch, _ := b.closed(t.Context())
	if batch.Len() != 1 {
		t.Fatalf("the batch is %v", batch)
	}
	b.TriggerReconcile() // While it is scheduled.
	b.done(batch)
	clk.Step(time.Minute)
	if batch, _ = b.closed(t.Context()); batch.Len() != 1 {
		t.Fatalf("the next batch is %v", batch)
	}
	b.done(batch)
	if batch, left := b.closed(t.Context()); batch != nil || left != 0 || b.scheduled.Len() != 0 {
		t.Errorf("then it has %v, %s, and keeps %v", batch, left, b.scheduled)
	}
}

// karpenter is a provisioner that records its runs.
type karpenter struct {
	// runs are those of Schedule, created how many NodeClaims were.
	runs, created int
	err           error
	// claims are how many NodeClaims the next runs need.
	claims    int
	meanwhile func()
}

// newProvisioner returns one whose cache has the pending pod p.
func newProvisioner(inner Scheduler, b *Batcher, synced func(context.Context) bool) *Provisioner {
	return NewProvisioner(inner, b, cacheOf(pendingPod("p")), synced, &sync.Mutex{})
}

func cacheOf(pods ...*corev1.Pod) client.WithWatch {
	builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
	for _, pod := range pods {
		builder = builder.WithObjects(pod)
	}
	return builder.Build()
}

func pendingPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return pod
}

func (k *karpenter) Name() string { return "provisioner" }

func (k *karpenter) Schedule(ctx context.Context) (scheduling.Results, error) {
	k.runs++
	if name := injection.GetControllerName(ctx); name != k.Name() {
		return scheduling.Results{}, fmt.Errorf("runs as %q", name)
	}
	if k.meanwhile != nil {
		k.meanwhile()
	}
	var results scheduling.Results
	for range k.claims {
		results.NewNodeClaims = append(results.NewNodeClaims, &scheduling.NodeClaim{Pods: []*corev1.Pod{pendingPod("p")}})
	}
	return results, k.err
}

func (k *karpenter) CreateNodeClaims(_ context.Context, claims []*scheduling.NodeClaim, given ...option.Function[provisioning.LaunchOptions]) ([]string, error) {
	if got := option.Resolve(given...); !got.RecordPodNomination || got.Reason != "provisioned" {
		return nil, fmt.Errorf("created with %+v", got)
	}
	k.created += len(claims)
	return nil, k.err
}

// withBuffers is one whose Reconcile schedules, and drops its batch unless complete.
type withBuffers struct {
	karpenter
	triggered int
	idle      time.Duration
	complete  bool
}

func (k *withBuffers) TriggerReconcile() { k.triggered++ }

func (k *withBuffers) Reconcile(ctx context.Context) (reconciler.Result, error) {
	k.idle = coreoptions.FromContext(ctx).BatchIdleDuration
	if k.complete {
		k.runs++
	}
	return reconciler.Result{}, k.err
}

func has(b *Batcher, uid types.UID) bool {
	_, ok := b.waiting[uid]
	return ok
}

func options(ctx context.Context) context.Context {
	return coreoptions.ToContext(ctx, &coreoptions.Options{BatchIdleDuration: time.Second, BatchMaxDuration: maximum})
}

// reconcileOnce runs the provisioner once, and lets the time pass for which it waits.
func reconcileOnce(t *testing.T, p *Provisioner, clk *clocktesting.FakeClock) error {
	t.Helper()
	return reconcileIn(options(t.Context()), p, clk)
}

func reconcileIn(ctx context.Context, p *Provisioner, clk *clocktesting.FakeClock) error {
	done := make(chan error, 1)
	go func() {
		_, err := p.Reconcile(ctx)
		done <- err
	}()
	for {
		select {
		case err := <-done:
			return err
		default:
			if clk.HasWaiters() {
				clk.Step(10 * time.Millisecond)
			}
		}
	}
}

func TestABatchEndsWhenItWasScheduled(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	inner, synced := &karpenter{}, false
	p := newProvisioner(inner, b, func(context.Context) bool { return synced })

	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 0 {
		t.Fatalf("without a pod: %d runs, %v", inner.runs, err)
	}
	b.Trigger("a")
	for range 3 {
		if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 0 {
			t.Fatalf("while a NodeClaim has no instance: %d runs, %v", inner.runs, err)
		}
	}
	synced, inner.err = true, errors.New("no instance types")
	if err := reconcileOnce(t, p, clk); !errors.Is(err, inner.err) || inner.runs != 1 {
		t.Fatalf("with an error: %d runs, %v", inner.runs, err)
	}
	inner.err = nil
	inner.meanwhile = func() { b.Trigger("b") }
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 2 {
		t.Fatalf("after it: %d runs, %v", inner.runs, err)
	}
	inner.meanwhile = nil
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 3 {
		t.Fatalf("what was added meanwhile: %d runs, %v", inner.runs, err)
	}
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 3 {
		t.Errorf("when all was scheduled: %d runs, %v", inner.runs, err)
	}
}

// Between our check of the state and Karpenter's own, a disruption can create a NodeClaim, which
// has no instance yet.
func TestABatchIsScheduledWhereTheStateIsIncompleteOnlyAfterTheCheck(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	checks := 0
	inner := &karpenter{claims: 2}
	p := newProvisioner(inner, b, func(context.Context) bool { checks++; return checks == 1 })
	b.Trigger("a")
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 1 || inner.created != 2 {
		t.Errorf("%d runs, %d NodeClaims, %v", inner.runs, inner.created, err)
	}
	if len(b.waiting) != 0 {
		t.Errorf("%v would be scheduled twice", b.waiting)
	}
}

func TestABatchStaysWhereItsNodeClaimsAreNotCreated(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	down := errors.New("connection refused")
	p := newProvisioner(&failing{karpenter{claims: 1}, down}, b, func(context.Context) bool { return true })
	b.Trigger("a")
	if err := reconcileOnce(t, p, clk); !errors.Is(err, down) || !has(b, "a") {
		t.Errorf("%v waits after %v", b.waiting, err)
	}
}

func TestNoNodeIsLaunchedForPodsThatNeedNoneWhenTheyAreScheduled(t *testing.T) {
	changed := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
		pod = pod.DeepCopy()
		change(pod)
		return pod
	}
	pending, evicted := pendingPod("p"), pendingPod("p")
	evicted.Spec.NodeName, evicted.Status.Phase = "deleted-node", corev1.PodRunning
	terminate := func(pod *corev1.Pod) {
		now := metav1.Now()
		pod.DeletionTimestamp, pod.Finalizers = &now, []string{"example.com/wait"}
	}
	for _, test := range []struct {
		name            string
		scheduled, then *corev1.Pod
		err             error
		want            int
	}{
		{"a pod that is still pending", pending, pending, nil, 1},
		{"a pending pod that was bound", pending, changed(pending, func(p *corev1.Pod) { p.Spec.NodeName = "replacement" }), nil, 0},
		{"a pending pod that is deleted", pending, nil, nil, 0},
		{"a pending pod that was created anew", pending, changed(pending, func(p *corev1.Pod) { p.UID = "other" }), nil, 0},
		{"a pod that is still on a node that is deleted", evicted, evicted, nil, 1},
		{"one that was evicted", evicted, changed(evicted, terminate), nil, 0},
		{"one of a StatefulSet, whose pod comes again only afterwards", evicted, changed(evicted, func(p *corev1.Pod) {
			terminate(p)
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", UID: "s"}}
		}), nil, 1},
		{"one that has ended", evicted, changed(evicted, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), nil, 0},
		{"a pod that cannot be read", pending, nil, errors.New("connection refused"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var then []*corev1.Pod
			if test.then != nil {
				then = append(then, test.then)
			}
			api := interceptor.NewClient(cacheOf(then...), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					if test.err != nil {
						return test.err
					}
					return c.Get(ctx, key, object, options...)
				},
			})
			claims := []*scheduling.NodeClaim{{Pods: []*corev1.Pod{test.scheduled}}, {Pods: []*corev1.Pod{pendingPod("gone"), test.scheduled}}}
			got := 0
			for _, claim := range claims {
				if NodeNeeded(t.Context(), api, claim) {
					got++
				}
			}
			if got != test.want*len(claims) {
				t.Errorf("%d of %d NodeClaims are needed", got, len(claims))
			}
		})
	}
}

func TestANodeClaimOfAStaticPoolIsNeededWithoutPods(t *testing.T) {
	if !NodeNeeded(t.Context(), cacheOf(), &scheduling.NodeClaim{}) {
		t.Error("it is not")
	}
}

func TestOnlyNodeClaimsThatAreNeededAreCreatedWhileNothingElseLaunches(t *testing.T) {
	clk, launches := clocktesting.NewFakeClock(time.Now()), &sync.Mutex{}
	b := newBatcher(clk, new(completeness))
	pods := cacheOf(pendingPod("p"))
	inner := &karpenter{claims: 1, meanwhile: func() {
		if launches.TryLock() {
			t.Error("a disruption could launch meanwhile")
		}
		if err := pods.Delete(t.Context(), pendingPod("p")); err != nil {
			t.Error(err)
		}
	}}
	p := NewProvisioner(inner, b, pods, func(context.Context) bool { return !launches.TryLock() }, launches)
	b.Trigger("p")
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 1 || inner.created != 0 {
		t.Errorf("%d runs, %d NodeClaims, %v", inner.runs, inner.created, err)
	}
	if len(b.waiting) != 0 || !launches.TryLock() {
		t.Errorf("%v waits, or the lock is still held", b.waiting)
	}
}

// failing is a provisioner whose NodeClaims cannot be created.
type failing struct {
	karpenter
	down error
}

func (f *failing) CreateNodeClaims(context.Context, []*scheduling.NodeClaim, ...option.Function[provisioning.LaunchOptions]) ([]string, error) {
	return nil, f.down
}

func TestWithoutCapacityBuffersKarpentersOwnBatcherIsNotUsed(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	inner := &withBuffers{}
	p := newProvisioner(inner, b, func(context.Context) bool { return true })
	b.Trigger("a")
	if err := reconcileOnce(t, p, clk); err != nil || inner.runs != 1 || inner.triggered != 0 {
		t.Errorf("%d runs, triggered %d times, %v", inner.runs, inner.triggered, err)
	}
}

func TestWithCapacityBuffersABatchThatKarpenterDropsStays(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	inner, synced := &withBuffers{}, []bool{true, false, true, true}
	p := newProvisioner(inner, b, func(context.Context) (is bool) {
		is, synced = synced[0], synced[1:]
		return is
	})
	ctx := coreoptions.ToContext(t.Context(), &coreoptions.Options{
		BatchIdleDuration: time.Second, BatchMaxDuration: maximum, FeatureGates: coreoptions.FeatureGates{CapacityBuffer: true},
	})
	b.Trigger("a")
	if err := reconcileIn(ctx, p, clk); err != nil || !has(b, "a") {
		t.Fatalf("after the batch was dropped %v waits, %v", b.waiting, err)
	}
	inner.complete = true
	if err := reconcileIn(ctx, p, clk); err != nil || inner.runs != 1 || len(b.waiting) != 0 {
		t.Errorf("%d runs, %v waits, %v", inner.runs, b.waiting, err)
	}
	if inner.triggered != 2 {
		t.Errorf("triggered %d times", inner.triggered)
	}
	if inner.idle > time.Microsecond {
		t.Errorf("Karpenter's own window is %s", inner.idle)
	}
}

func TestOnlyWhatNeedsANodeIsAdded(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	pending := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "pod"}}
	pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	bound := pending.DeepCopy()
	bound.Spec.NodeName = "node-a"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node"}}
	other := node.DeepCopy()
	other.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
	disrupted := node.DeepCopy()
	disrupted.Spec.Taints = []corev1.Taint{karpv1.DisruptedNoScheduleTaint}

	b := newBatcher(clk, new(completeness))
	cluster := state.NewCluster(clk, nil, nil)
	pods, nodes := NewPodTrigger(nil, b, cluster), NewNodeTrigger(nil, b)
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		node *corev1.Node
		want []types.UID
	}{
		{"a pod that cannot be scheduled", pending, nil, []types.UID{"pod"}},
		{"a node that is disrupted beside it", nil, disrupted, []types.UID{"node", "pod"}},
		{"the pod when it was bound", bound, nil, []types.UID{"node"}},
		{"the node when its disruption was given up", nil, node, nil},
		{"a node with another taint", nil, other, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var after time.Duration
			if test.pod != nil {
				result, err := pods.Reconcile(t.Context(), test.pod)
				if after = result.RequeueAfter; err != nil {
					t.Fatal(err)
				}
			} else {
				result, err := nodes.Reconcile(t.Context(), test.node)
				if after = result.RequeueAfter; err != nil {
					t.Fatal(err)
				}
			}
			got := sets.List(sets.KeySet(b.waiting))
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if needed := test.pod == pending || test.node == disrupted; needed != (after > 0) {
				t.Errorf("is reconciled again after %s", after)
			}
		})
	}
	if cluster.PodAckTime(client.ObjectKeyFromObject(pending)).IsZero() {
		t.Error("since when the pod is pending is not recorded")
	}
}

func TestAPodIsAddedWithItsOwner(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	b := newBatcher(clk, new(completeness))
	want := of("apps/v1", "ReplicaSet")
	pod := podsOf(want, 1, nil)[0].(*corev1.Pod)
	pod.Spec.NodeName = ""
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	if _, err := NewPodTrigger(nil, b, state.NewCluster(clk, nil, nil)).Reconcile(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got := b.waiting[pod.UID]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
