package check

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTheReplicasNeedSystemNodes(t *testing.T) {
	label := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[key] = value }
	}
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	}
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	unready := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	large := func(name string, change ...func(*corev1.Node)) *corev1.Node {
		return node(name, "4", "16Gi", change...)
	}
	ours := func(on string) *corev1.Pod {
		p := pod("poolwright-"+on, on, "500m", "512Mi")
		p.Namespace, p.Labels = home, map[string]string{"app.kubernetes.io/name": "poolwright"}
		return p
	}
	ended := func(on string) *corev1.Pod {
		p := pod("ended", on, "4", "16Gi")
		p.Status.Phase = corev1.PodSucceeded
		return p
	}
	var busy []client.Object
	for i := range 11 {
		busy = append(busy, pod(fmt.Sprint("small-", i), "a", "10m", "10Mi"))
	}
	for name, c := range map[string]struct {
		has  []client.Object
		want expected
	}{
		"two nodes with capacity":         {[]client.Object{large("a"), large("b")}, expected{OK, "", "2 of 2 nodes have 500m CPU and 512Mi of memory free", ""}},
		"arm64 nodes":                     {[]client.Object{large("a", label(corev1.LabelArchStable, "arm64")), large("b", label(corev1.LabelArchStable, "arm64"))}, expected{OK, "", "2 of 2", ""}},
		"nodes of CriticalAddonsOnly":     {[]client.Object{large("a", taint("CriticalAddonsOnly")), large("b", taint("CriticalAddonsOnly"))}, expected{OK, "", "2 of 2", ""}},
		"pods that ended take nothing":    {[]client.Object{large("a"), large("b"), ended("a")}, expected{OK, "", "2 of 2", ""}},
		"our own pods do not count twice": {[]client.Object{node("a", "600m", "5Gi"), node("b", "600m", "5Gi"), ours("a"), ours("b")}, expected{OK, "", "2 of 2", ""}},
		"no node":                         {nil, expected{Failed, "", "no node on which the controller may run", "managed node group"}},
		"only nodes of Karpenter":         {[]client.Object{large("a", label("karpenter.sh/nodepool", "general")), large("b", label("karpenter.sh/nodepool", "general"))}, expected{Failed, "", "no node on which", ""}},
		"only Windows":                    {[]client.Object{large("a", label(corev1.LabelOSStable, "windows"))}, expected{Failed, "", "no node on which", ""}},
		"one node for both":               {[]client.Object{large("a")}, expected{Warning, "", "all 2 replicas are on node a", "second system node"}},
		"one node for one of them":        {[]client.Object{node("a", "900m", "5Gi")}, expected{Failed, "", "1 of 2 replicas", ""}},
		// A tainted node counts for the topology spread, so that the second replica is not scheduled.
		"a second node with a taint":            {[]client.Object{large("a"), large("b", taint("dedicated"))}, expected{Failed, "", "1 of 2 replicas can be scheduled, each of which requests 500m CPU and 512Mi of memory: b: taint dedicated:NoSchedule", ""}},
		"a second node that is cordoned":        {[]client.Object{large("a"), large("b", cordoned)}, expected{Failed, "", "b: it is cordoned", ""}},
		"a second node that is not ready":       {[]client.Object{large("a"), large("b", unready)}, expected{Failed, "", "b: it is not ready", ""}},
		"a second node of another architecture": {[]client.Object{large("a"), large("b", label(corev1.LabelArchStable, "s390x"))}, expected{Failed, "", "not built for s390x", ""}},
		"too little CPU":                        {[]client.Object{large("a"), node("b", "2", "16Gi"), pod("x", "b", "1600m", "1Gi")}, expected{Failed, "", "b: 400m of 500m cpu are free", ""}},
		"too little memory":                     {[]client.Object{large("a"), node("b", "2", "1Gi"), pod("x", "b", "100m", "600Mi")}, expected{Failed, "", "b: 424Mi of 512Mi memory are free", ""}},
		"too many pods":                         {append([]client.Object{large("a"), large("b")}, busy...), expected{Failed, "", "a: 0 of 1 pods are free", ""}},
		"nodes smaller than the limit":          {[]client.Object{node("a", "2", "1500Mi"), node("b", "2", "1500Mi")}, expected{Warning, "", "may use 3584Mi: a has 1500Mi; b has 1500Mi", "more memory; docs/limits.md, \"What it takes\""}},
		"a small one among enough large ones":   {[]client.Object{node("a", "2", "1500Mi"), large("b"), large("c")}, expected{OK, "", "3 of 3", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := fixture{objects: c.has, pre: true}.checker(t).systemNodes(t.Context())
			compare(t, []expected{c.want}, got)
		})
	}
}

func TestTheInstalledDeploymentDecidesWhatItNeeds(t *testing.T) {
	one := int32(1)
	small := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "poolwright"}}
	small.Spec.Replicas = &one
	small.Spec.Template.Spec = pod("", "", "100m", "64Mi").Spec
	got := fixture{objects: []client.Object{small, node("a", "200m", "100Mi")}}.checker(t).systemNodes(t.Context())
	compare(t, []expected{{OK, "", "1 of 1 nodes have 100m CPU and 64Mi of memory free, for 1 replicas", ""}}, got)
}

func TestThePodsOfAllNodesAreNotReadWhereEnoughNodesFit(t *testing.T) {
	d, err := embedded(home)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []corev1.Node
	for i := range 3 * readNodes {
		nodes = append(nodes, *node(fmt.Sprint("node-", i), "4", "16Gi"))
	}
	reads := 0
	p, err := placementOf(d, nodes, func(string) (corev1.ResourceList, error) { reads++; return nil, nil })
	if err != nil || reads != readNodes {
		t.Errorf("the pods of %d nodes are read, %v", reads, err)
	}
	compare(t, []expected{{OK, "", "at least 50 of 150 nodes have", ""}}, []Result{p.result()})

	full := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	reads = 0
	p, err = placementOf(d, nodes, func(string) (corev1.ResourceList, error) { reads++; return full, nil })
	if err != nil || reads != len(nodes) {
		t.Errorf("the pods of %d nodes are read where none fits, %v", reads, err)
	}
	compare(t, []expected{{Failed, "", "and 145 more", ""}}, []Result{p.result()})
}
