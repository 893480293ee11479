package get

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// since sets when a condition of a NodeClaim changed last.
func since(kind string, status metav1.ConditionStatus, at metav1.Time) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) {
		condition(kind, status, kind, "")(c)
		c.Status.Conditions[len(c.Status.Conditions)-1].LastTransitionTime = at
	}
}

func TestThePhasesOfANode(t *testing.T) {
	start := func(last ...func(*karpv1.NodeClaim)) []func(*karpv1.NodeClaim) {
		return append([]func(*karpv1.NodeClaim){
			since(karpv1.ConditionTypeLaunched, metav1.ConditionTrue, ago(110*time.Minute)), since(karpv1.ConditionTypeRegistered, metav1.ConditionTrue, ago(100*time.Minute)),
			since(karpv1.ConditionTypeInitialized, metav1.ConditionTrue, ago(90*time.Minute)),
		}, last...)
	}
	lastPod := func(c *karpv1.NodeClaim) { c.Status.LastPodEventTime = ago(20 * time.Minute) }
	notReady := func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionFalse, ago(5*time.Minute)
	}
	pods := []Pod{{Namespace: "ml", Name: "a", Node: "ip-a"}}
	for name, c := range map[string]struct {
		claims []karpv1.NodeClaim
		nodes  []corev1.Node
		pods   []Pod
		want   string
	}{
		"ready with pods":             {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start(lastPod)...)}, []corev1.Node{node("a", "1")}, pods, "Launching 120, Registering 110, Initializing 100, Ready 90"},
		"ready without pods":          {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start(lastPod)...)}, []corev1.Node{node("a", "1")}, nil, "Launching 120, Registering 110, Initializing 100, Ready 90, Empty 20"},
		"without pods from the start": {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start()...)}, []corev1.Node{node("a", "1")}, nil, "Launching 120, Registering 110, Initializing 100, Ready 90, Empty 90"},
		"launching":                   {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", launching("InsufficientCapacity", ""))}, nil, nil, "Launching 120"},
		"initializing": {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start(since(karpv1.ConditionTypeInitialized, metav1.ConditionUnknown, ago(time.Minute)))...)}, []corev1.Node{node("a", "0")}, nil,
			"Launching 120, Registering 110, Initializing 100"},
		"not ready":               {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start()...)}, []corev1.Node{node("a", "1", notReady)}, pods, "Launching 120, Registering 110, Initializing 100, Ready 90, NotReady 5"},
		"terminating":             {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start(deleted)...)}, []corev1.Node{node("a", "1")}, pods, "Launching 120, Registering 110, Initializing 100, Ready 90, Terminating 1"},
		"without a NodeClaim":     {nil, []corev1.Node{node("a", "1", func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = ago(50 * time.Minute) })}, pods, "Registering 60, Ready 50"},
		"a clock that is behind":  {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start(since(karpv1.ConditionTypeLaunched, metav1.ConditionTrue, ago(200*time.Minute)))...)}, []corev1.Node{node("a", "1")}, pods, "Launching 120, Registering 120, Initializing 100, Ready 90"},
		"pods that were not read": {[]karpv1.NodeClaim{claim("a", "gpu", "g5.xlarge", "spot", start(lastPod)...)}, []corev1.Node{node("a", "1")}, nil, "Launching 120, Registering 110, Initializing 100, Ready 90"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Objects{Claims: c.claims, Nodes: c.nodes, Pods: c.pods}
			if name == "pods that were not read" {
				o.IncompleteKinds = []IncompleteKind{{Kind: kindPods, Reason: Forbidden}}
			}
			var got []string
			for _, p := range NewReport(o, now(), types(t)).Nodes[0].Phases {
				got = append(got, fmt.Sprintf("%s %.0f", p.State, now().Sub(p.Since.Time).Minutes()))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("the phases are %s, not %s", text, c.want)
			}
		})
	}
}

func TestPendingPodsAreThoseThatRequestGPUsTheOldestFirst(t *testing.T) {
	o := Objects{}
	for i := range maxPendingPods + 5 {
		o.Pods = append(o.Pods, Pod{Namespace: "ml", Name: fmt.Sprintf("train-%03d", i), GPUs: map[corev1.ResourceName]int64{"nvidia.com/gpu": 2}, Created: ago(time.Duration(i) * time.Minute)})
	}
	o.Pods = append(o.Pods, Pod{Namespace: "web", Name: "shop"}, Pod{Namespace: "ml", Name: "bound", Node: "ip-a", GPUs: map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}})
	r := NewReport(o, now(), types(t))
	if n := len(r.PendingPods); n != maxPendingPods || *r.Summary.PendingGPUPods != maxPendingPods+5 {
		t.Errorf("%d are listed, %d counted", n, *r.Summary.PendingGPUPods)
	}
	if first := r.PendingPods[0]; first.Name != "train-104" || first.GPUs != 2 {
		t.Errorf("the first one is %+v", first)
	}
}

func TestWhatWasNotReadIsKnownByItsKind(t *testing.T) {
	for kind, want := range map[string][2]bool{"": {true, true}, kindSyncs: {false, true}, kindPools: {true, false}} {
		r := Report{IncompleteKinds: []IncompleteKind{{Kind: kind, Reason: Forbidden}}}
		if got := [2]bool{r.SyncsRead(), r.PoolsRead()}; got != want {
			t.Errorf("without %s: %v", kind, got)
		}
	}
}
