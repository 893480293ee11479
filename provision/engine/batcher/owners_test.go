package batcher

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name)}
}

func selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
}

func replicaSet(n int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: meta("o"), Spec: appsv1.ReplicaSetSpec{Replicas: &n, Selector: selector()}}
}

func statefulSet(n int32, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: meta("o"), Spec: appsv1.StatefulSetSpec{Replicas: &n, Selector: selector(), PodManagementPolicy: policy}}
}

func job(parallelism int32, completions *int32, succeeded int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: meta("o"),
		Spec:       batchv1.JobSpec{Parallelism: &parallelism, Completions: completions, Selector: selector()},
		Status:     batchv1.JobStatus{Succeeded: succeeded},
	}
}

// of is the owner with the name and UID "o".
func of(apiVersion, kind string) owner { return owner{"ml", apiVersion, kind, "o", "o"} }

// podsOf are pods of that owner, with a change.
func podsOf(from owner, n int, change func(*corev1.Pod)) (out []client.Object) {
	for i := range n {
		p := &corev1.Pod{ObjectMeta: meta("p" + strconv.Itoa(i))}
		p.Labels = map[string]string{"app": "a"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: from.apiVersion, Kind: from.kind, Name: from.name, UID: from.uid, Controller: new(true)}}
		p.Spec.NodeName = "node-a"
		if change != nil {
			change(p)
		}
		out = append(out, p)
	}
	return out
}

func TestABatchIsCompleteWhenItsOwnersHaveAllTheirPods(t *testing.T) {
	set, stateful, batch := of("apps/v1", "ReplicaSet"), of("apps/v1", "StatefulSet"), of("batch/v1", "Job")
	pending := func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	for _, test := range []struct {
		name    string
		object  client.Object
		pods    []client.Object
		waiting map[owner]int
		want    completeness
	}{
		{"all pods of a ReplicaSet wait", replicaSet(3), nil, map[owner]int{set: 3}, complete},
		{"some of them wait", replicaSet(3), nil, map[owner]int{set: 2}, incomplete},
		{"some wait, and all are there", replicaSet(5), podsOf(set, 5, nil), map[owner]int{set: 2}, complete},
		{"all need a node, and are not all added yet", replicaSet(5), podsOf(set, 5, pending), map[owner]int{set: 2}, complete},
		{"the scheduler has not tried the others yet", replicaSet(5), podsOf(set, 5, func(p *corev1.Pod) { p.Spec.NodeName = "" }), map[owner]int{set: 2}, incomplete},
		{"the others have ended", replicaSet(5), podsOf(set, 5, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), map[owner]int{set: 2}, incomplete},
		{"the others are another's", replicaSet(5), podsOf(of("apps/v1", "x"), 5, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "x" }), map[owner]int{set: 2}, incomplete},
		{"a ReplicaSet without a number has one", &appsv1.ReplicaSet{ObjectMeta: meta("o")}, nil, map[owner]int{set: 1}, complete},
		{"a ReplicaSet of that name that is another", func() client.Object { o := replicaSet(1); o.UID = "another"; return o }(), nil, map[owner]int{set: 1}, unknown},
		{"a StatefulSet that creates its pods at once", statefulSet(3, appsv1.ParallelPodManagement), nil, map[owner]int{stateful: 2}, incomplete},
		{"all of them", statefulSet(3, appsv1.ParallelPodManagement), nil, map[owner]int{stateful: 3}, complete},
		{"a StatefulSet that creates one after the other", statefulSet(3, appsv1.OrderedReadyPodManagement), nil, map[owner]int{stateful: 1}, complete},
		{"a Job of which as many run as may", job(4, new(int32(9)), 0), nil, map[owner]int{batch: 4}, complete},
		{"a Job of which fewer run", job(4, new(int32(9)), 0), nil, map[owner]int{batch: 3}, incomplete},
		{"a Job that needs few more", job(4, new(int32(9)), 7), nil, map[owner]int{batch: 2}, complete},
		{"a Job without a number of completions", job(4, nil, 7), nil, map[owner]int{batch: 3}, incomplete},
		{"a pod without an owner", nil, nil, map[owner]int{{}: 1}, unknown},
		{"one beside an owner that is complete", replicaSet(1), nil, map[owner]int{set: 1, {}: 1}, unknown},
		{"one beside an owner that is not", replicaSet(2), nil, map[owner]int{set: 1, {}: 1}, incomplete},
		{"an owner of another kind", nil, nil, map[owner]int{of("kubeflow.org/v1", "PyTorchJob"): 1}, unknown},
		{"an owner that is gone", nil, nil, map[owner]int{set: 1}, unknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := test.pods
			if test.object != nil {
				objects = append(objects, test.object)
			}
			api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
			owners := NewOwners(clocktesting.NewFakeClock(time.Now()), api, api)
			for range 10 { // After the first time its numbers count, whatever the order of the owners.
				if got := owners.completeness(t.Context(), test.waiting); got != test.want {
					t.Errorf("got %d, want %d", got, test.want)
				}
			}
		})
	}
}

func TestOfManyOwnersNoneIsRead(t *testing.T) {
	waiting := map[owner]int{}
	for i := range mostOwners + 1 {
		waiting[owner{"ml", "apps/v1", "ReplicaSet", strconv.Itoa(i), types.UID(strconv.Itoa(i))}] = 1
	}
	// Without a client a read would end the test.
	if got := NewOwners(clocktesting.NewFakeClock(time.Now()), nil, nil).completeness(t.Context(), waiting); got != unknown {
		t.Errorf("got %d", got)
	}
}

func TestNumbersOfOwnersAreReadAgainAfterAWhile(t *testing.T) {
	var reads, lists int
	set := of("apps/v1", "ReplicaSet")
	api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(replicaSet(3)).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			if _, ok := ctx.Deadline(); !ok {
				t.Error("a read has no deadline")
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})
	clk := clocktesting.NewFakeClock(time.Now())
	owners := NewOwners(clk, api, api)
	type numbers struct{ Reads, Lists int }
	for _, step := range []struct {
		after time.Duration
		n     int
		want  numbers
	}{
		{0, 1, numbers{1, 1}},
		{countLifetime - 1, 1, numbers{1, 1}},
		{1, 1, numbers{1, 2}},
		{countLifetime, 3, numbers{1, 2}}, // All wait: there is nothing to count.
		{sizeLifetime - 2*countLifetime, 1, numbers{2, 3}},
	} {
		clk.Step(step.after)
		owners.completeness(t.Context(), map[owner]int{set: step.n})
		if diff := cmp.Diff(step.want, numbers{reads, lists}); diff != "" {
			t.Errorf("after %s more (-want +got):\n%s", step.after, diff)
		}
	}
	owners.completeness(t.Context(), nil)
	if len(owners.sizes) != 0 {
		t.Errorf("of owners without a pod in the batch %v is kept", owners.sizes)
	}
}

func TestWhereAReadFailsNothingIsConcluded(t *testing.T) {
	down := errors.New("connection refused")
	set := of("apps/v1", "ReplicaSet")
	working := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(replicaSet(3)).Build()
	broken := interceptor.NewClient(working, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return down
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return down },
	})
	for name, owners := range map[string]*Owners{
		"of the owner": NewOwners(clocktesting.NewFakeClock(time.Now()), working, broken),
		"of its pods":  NewOwners(clocktesting.NewFakeClock(time.Now()), broken, working),
	} {
		if got := owners.completeness(t.Context(), map[owner]int{set: 1}); got != unknown {
			t.Errorf("%s: got %d", name, got)
		}
	}
}
