package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// of is a declared workload of the namespace ml; replicas below 0 are none declared.
func of(kind, name string, replicas int32, selects ...string) provision.Workload {
	w := provision.Workload{Kind: kind, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}}
	if replicas >= 0 {
		w.Replicas = &replicas
	}
	if len(selects) > 0 {
		w.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": selects[0]}}
	}
	return w
}

// live is a pod of the namespace ml that runs on a node, with an owner unless its kind is
// empty.
func live(name, owner, of string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, Labels: map[string]string{}}, Spec: corev1.PodSpec{NodeName: "n"}}
	if owner != "" {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: of, Controller: &yes}}
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

func TestPodsAreFoundByOwnerAndElseBySelector(t *testing.T) {
	waiting := func(p *corev1.Pod) { p.Spec.NodeName = "" }
	deleted := func(p *corev1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }
	in := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "other" }
	deployment, job := of("Deployment", "x", -1, "x"), of("Job", "x", 1)
	tests := map[string]struct {
		of   provision.Workload
		pods []*corev1.Pod
		want []string
	}{
		"a Deployment's through its ReplicaSet":             {deployment, []*corev1.Pod{live("a", "ReplicaSet", "x-5d4f", labelled("pod-template-hash", "5d4f"))}, []string{"a"}},
		"a Deployment's whose label was removed":            {deployment, []*corev1.Pod{live("a", "ReplicaSet", "x-5d4f")}, []string{"a"}},
		"not those of a ReplicaSet that nobody made for it": {deployment, []*corev1.Pod{live("a", "ReplicaSet", "x-5d4f", labelled("pod-template-hash", "77b"))}, nil},
		"not those of a Deployment whose name goes on":      {deployment, []*corev1.Pod{live("a", "ReplicaSet", "x-y-5d4f", labelled("pod-template-hash", "5d4f"))}, nil},
		"not those of another kind of the same name":        {deployment, []*corev1.Pod{live("a", "StatefulSet", "x")}, nil},
		"not those of another namespace": {deployment, []*corev1.Pod{
			live("a", "ReplicaSet", "x-5d4f", labelled("pod-template-hash", "5d4f"), elsewhere), live("b", "", "", labelled("app", "x"), elsewhere)}, nil},
		"those that nobody owns, by the selector":              {deployment, []*corev1.Pod{live("a", "", "", labelled("app", "x")), live("b", "", "", labelled("app", "y"))}, []string{"a"}},
		"not those that somebody else owns, for all selectors": {deployment, []*corev1.Pod{live("a", "Workflow", "w", labelled("app", "x"))}, nil},
		"on nodes first, then by name": {deployment, []*corev1.Pod{
			live("a", "", "", labelled("app", "x"), waiting), live("c", "", "", labelled("app", "x")), live("b", "", "", labelled("app", "x"))}, []string{"b", "c", "a"}},
		"not those that end or have ended": {deployment, []*corev1.Pod{
			live("a", "", "", labelled("app", "x"), deleted), live("b", "", "", labelled("app", "x"), in(corev1.PodFailed)), live("c", "", "", labelled("app", "x"), in(corev1.PodSucceeded))}, nil},
		"a Job's that has succeeded, which is not made again": {job, []*corev1.Pod{live("a", "Job", "x", in(corev1.PodSucceeded)), live("b", "Job", "x", in(corev1.PodFailed)), live("c", "Job", "x", deleted)}, []string{"a"}},
		"a CronJob's through its Job":                         {of("CronJob", "x", 0), []*corev1.Pod{live("a", "Job", "x-29384756"), live("b", "Job", "x-manual"), live("c", "Job", "x")}, []string{"a"}},
		"a Pod itself, whether it has failed or not":          {of("Pod", "x", -1), []*corev1.Pod{live("x", "", "", in(corev1.PodFailed)), live("y", "", "")}, []string{"x"}},
		"no pod of its name that somebody owns":               {of("Pod", "x", -1), []*corev1.Pod{live("x", "Job", "y")}, nil},
		"none for a selector that is empty":                   {provision.Workload{Kind: "ReplicaSet", Selector: &metav1.LabelSelector{}, Pod: deployment.Pod}, []*corev1.Pod{live("a", "", "")}, nil},
		"none for a selector that is wrong": {provision.Workload{Kind: "ReplicaSet", Pod: deployment.Pod,
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}}, []*corev1.Pod{live("a", "", "", labelled("app", "x"))}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			all := workload.PodsByWorkload([]provision.Workload{tt.of}, tt.pods)
			var got []string
			for _, pod := range all[workload.Ref{Kind: tt.of.Kind, Namespace: "ml", Name: "x"}].Live {
				got = append(got, pod.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfTwoWorkloadsOfOneNameTheLastCounts(t *testing.T) {
	all := workload.PodsByWorkload([]provision.Workload{of("Deployment", "x", 1), of("Deployment", "x", 7), of("StatefulSet", "x", 2)}, nil)
	got := map[string]int{}
	for ref, c := range all {
		got[ref.Kind] = c.Desired()
	}
	if diff := cmp.Diff(map[string]int{"Deployment": 7, "StatefulSet": 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A pod is counted for one workload, though two of them select it or could own it.
func TestAPodThatIsOwnedCountsOnce(t *testing.T) {
	all := workload.PodsByWorkload([]provision.Workload{of("ReplicaSet", "x-5d4f", 1, "x"), of("Deployment", "x", 1, "x")},
		[]*corev1.Pod{live("a", "ReplicaSet", "x-5d4f", labelled("pod-template-hash", "5d4f"), labelled("app", "x"))})
	var got []string
	for ref, c := range all {
		for range c.Live {
			got = append(got, ref.Kind)
		}
	}
	if diff := cmp.Diff([]string{"ReplicaSet"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDesiredIsWhatIsDeclaredOrWhatIsThere(t *testing.T) {
	two := []*corev1.Pod{{}, {}}
	for name, tt := range map[string]struct {
		pods workload.Pods
		want int
	}{
		"what is declared, whatever is there":         {workload.Pods{Workload: of("Deployment", "x", 5), Live: two}, 5},
		"what is there where nothing is declared":     {workload.Pods{Workload: of("Deployment", "x", -1), Live: two}, 2},
		"one where nothing is declared and none is":   {workload.Pods{Workload: of("Deployment", "x", -1)}, 1},
		"what an autoscaler has started from nothing": {workload.Pods{Workload: of("Deployment", "x", 0), Live: two}, 2},
		"none of none": {workload.Pods{Workload: of("Deployment", "x", 0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.pods.Desired(); got != tt.want {
				t.Errorf("%d, not %d", got, tt.want)
			}
			if got := tt.pods.ScaledToZero(); got != (tt.want == 0) {
				t.Errorf("idle is %t", got)
			}
		})
	}
}

func TestScaleToZeroIsOnlyForWorkloadsThatSomethingHasScaledDown(t *testing.T) {
	ref := func(name string) workload.Ref { return workload.Ref{Kind: "Deployment", Namespace: "ml", Name: name} }
	pods := func(name string, replicas int32, live ...*corev1.Pod) workload.Pods {
		return workload.Pods{Workload: of("Deployment", name, replicas), Live: live}
	}
	was := map[workload.Ref]workload.Pods{
		ref("scaled down"): pods("x", -1), ref("running"): pods("x", -1, &corev1.Pod{}), ref("declared"): pods("x", 2),
		ref("declared later"): pods("x", -1), ref("gone later"): pods("x", -1),
	}
	is := map[workload.Ref]workload.Pods{
		ref("scaled down"): pods("x", -1), ref("running"): pods("x", -1, &corev1.Pod{}), ref("declared"): pods("x", -1),
		ref("declared later"): pods("x", 3), ref("new"): pods("x", -1),
	}
	workload.ScaleToZero(was, is)
	desired := func(all map[workload.Ref]workload.Pods) map[string]int {
		out := map[string]int{}
		for ref, c := range all {
			out[ref.Name] = c.Desired()
		}
		return out
	}
	if diff := cmp.Diff(map[string]int{"scaled down": 0, "running": 1, "declared": 2, "declared later": 0, "gone later": 0}, desired(was)); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"scaled down": 0, "running": 1, "declared": 1, "declared later": 3, "new": 1}, desired(is)); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

func TestSortedIsByNamespaceThenNameThenKind(t *testing.T) {
	want := []workload.Ref{{"Pod", "a", "z"}, {"Deployment", "b", "x"}, {"StatefulSet", "b", "x"}, {"Deployment", "b", "y"}}
	all := map[workload.Ref]workload.Pods{}
	for _, ref := range want {
		all[ref] = workload.Pods{}
	}
	if diff := cmp.Diff(want, workload.Sorted(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
