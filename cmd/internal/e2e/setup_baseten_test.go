package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// Set-up 004: three provisioners of v1alpha5 as they are written, at EKS 1.32,
// that pods choose by label, beside nodes of Cluster Autoscaler. The 30 seconds until
// an empty node goes are made shorter by a commit, when the pods run.
func TestSetupBaseten(t *testing.T) {
	t.Parallel()
	s := applyExample(t, "baseten")
	others := s.autoscales("autoscaled", 2)
	all := []struct{ file, pool, kind string }{
		{"memory", "memory", "r5a.xlarge"}, {"cpu", "cpu", "c5a.xlarge"},
		{"gpu", "gpu", "g4dn.xlarge"}, {"gpu-g5", "gpu", "g5.xlarge"},
		// By the memory of its GPU: g4dn.xlarge, which is cheaper, has too little.
		{"gpu-memory", "gpu", "g5.xlarge"},
	}
	var deployments []*unstructured.Unstructured
	for _, one := range all[:3] {
		deployments = append(deployments, s.creates("workloads/"+one.file+".yaml"))
	}
	for i, one := range all {
		if i == len(deployments) {
			// Only now: the pod that takes any GPU would take this one's node, were it
			// ready first, and the scheduler would be right. So would the one that needs
			// memory.
			deployments = append(deployments, s.creates("workloads/"+one.file+".yaml"))
		}
		want := machine{
			Pool: one.pool, Type: one.kind, Capacity: onDemand,
			Labels:   map[string]string{"baseten.co/karpenter-provisioner": one.pool},
			Volume:   volume{Device: "/dev/xvda", Size: "60", Type: "gp3", DeletedWith: "true"},
			Metadata: metadata{Endpoint: "enabled", Tokens: "required", HopLimit: "2", IPv6: "disabled"},
			Image:    "amazon-eks-node-1.32-" + s.latest(),
		}
		if one.pool == "gpu" {
			want.Taints, want.Volume.Size = []string{"nvidia.com/gpu=true:NoSchedule"}, "200"
			want.Image = "amazon-eks-gpu-node-1.32-" + s.latest()
		}
		s.landsOf(deployments[i]).is(want)
	}
	s.runsThePage("Verify", "Monitor")
	pools := []string{"memory", "cpu", "gpu"}
	for _, pool := range pools {
		s.waitsFor(pool, "30s")
		s.git.repo.replace("clusters/dev/provisioner-"+pool+".yaml", "ttlSecondsAfterEmpty: 30", "ttlSecondsAfterEmpty: 5")
	}
	s.git.repo.commit("Let empty nodes go sooner")
	s.requests()
	s.applied()
	s.zero()
	for _, pool := range pools {
		s.lasted(pool, 5*time.Second)
	}
	others.untouched()
	others.launchesTwo()
	others.untouched()
	others.launchesOne()
	others.untouched()
}

// autoscaled are nodes that Cluster Autoscaler brought.
type autoscaled struct {
	setupSuite
	group     string
	node      otherNode
	instances []string
	// known is the state when the last of them was ready.
	known groupState
}

// autoscales launches nodes as the node group's Auto Scaling group does when
// Cluster Autoscaler raises its size, and waits until they are ready.
func (s setupSuite) autoscales(group string, n int32) *autoscaled {
	s.Helper()
	a := &autoscaled{setupSuite: s, group: group, node: otherNode{
		name: group, image: "amazon-eks-node-1.32-" + s.latest(), kind: "m5.large", kubelet: "--node-labels=eks.amazonaws.com/nodegroup=" + group,
		tags: map[string]string{"eks:cluster-name": s.of.Cluster, "eks:nodegroup-name": group, "kubernetes.io/cluster/" + s.of.Cluster: "owned"},
	}}
	s.otherTemplate(s.account, a.node)
	a.launches(n)
	return a
}

// launches has the group launch more nodes, and waits until they are ready.
func (a *autoscaled) launches(n int32) {
	a.Helper()
	a.instances = append(a.instances, a.launchesOther(a.account, a.node, n)...)
	a.ready(len(a.instances))
	a.known = a.state()
}

// untouched compares all nodes that the group has launched with what they were when the last of them was ready.
func (a *autoscaled) untouched() {
	a.Helper()
	if diff := cmp.Diff(a.known, a.state()); diff != "" {
		a.Errorf("Cluster Autoscaler's nodes were touched (-before +after):\n%s", diff)
	}
	a.unnamed()
}

// ready waits until the group has so many nodes, and pods may run on each.
func (a *autoscaled) ready(n int) {
	a.Helper()
	a.until("Cluster Autoscaler's nodes are ready", func() error {
		nodes, err := a.nodes()
		if err != nil {
			return err
		}
		for _, node := range nodes {
			if len(node.Spec.Taints) > 0 {
				return fmt.Errorf("node %s has %v", node.Name, node.Spec.Taints)
			}
		}
		if len(nodes) != n {
			return fmt.Errorf("there are %d nodes", len(nodes))
		}
		return nil
	})
}

// unschedulable creates pods that any node may run until one fits on none, which it returns: the condition by which both autoscalers
// decide.
func (a *autoscaled) unschedulable(prefix string) (pod corev1.Pod) {
	a.Helper()
	for i := range 10 {
		name := fmt.Sprintf("%s-%d", prefix, i)
		a.plainPod(name, func(pod *corev1.Pod) {
			need := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: need, Limits: need}
		})
		fits := false
		a.until("pod "+name+" runs, or fits on no node", func() error {
			if err := a.hand.Get(a.Context(), client.ObjectKey{Namespace: "default", Name: name}, &pod); err != nil {
				return err
			}
			fits = pod.Status.Phase == corev1.PodRunning
			if fits || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
				return nil
			}
			return fmt.Errorf("it is %s", pod.Status.Phase)
		})
		if !fits {
			return pod
		}
	}
	a.Fatalf("ten pods of 1500m fit on the nodes that there are")
	return pod
}

// runs waits until a pod runs, and returns whether that is on a node of the group.
func (a *autoscaled) runs(pod corev1.Pod) bool {
	a.Helper()
	var node corev1.Node
	a.until("pod "+pod.Name+" runs", func() error {
		if err := a.hand.Get(a.Context(), client.ObjectKeyFromObject(&pod), &pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return a.hand.Get(a.Context(), client.ObjectKey{Name: pod.Spec.NodeName}, &node)
	})
	return node.Labels["eks.amazonaws.com/nodegroup"] == a.group
}

// launchesTwo: for a pod without a label of a provisioner, the engine launches a node, although Cluster Autoscaler does. Of the two
// nodes one stays empty.
func (a *autoscaled) launchesTwo() {
	a.Helper()
	after := a.revision()
	pod := a.unschedulable("either")
	// The group's node comes only now: were it ready first, the engine would have nothing to launch for, and its empty node goes within
	// seconds.
	a.until("the engine launches a node", func() error {
		if len(a.claimed(after)) == 0 {
			return errors.New("there is no NodeClaim")
		}
		return nil
	})
	a.launches(1)
	a.Logf("two nodes were launched for one pod, which runs on that of the node group: %t", a.runs(pod))
	a.zero()
	if claims := a.claimed(after); len(claims) != 1 {
		a.Errorf("the engine had NodeClaims %v for one pod", claims)
	}
}

// launchesOne: with the taints that the README has, the engine launches none for such a pod.
func (a *autoscaled) launchesOne() {
	a.Helper()
	for _, pool := range []string{"cpu", "memory"} {
		label := "  labels:\n    baseten.co/karpenter-provisioner: " + pool + "\n"
		a.git.repo.replace("clusters/dev/provisioner-"+pool+".yaml", label, label+"  taints: [{key: baseten.co/karpenter-provisioner, value: "+pool+", effect: NoSchedule}]\n")
	}
	a.git.repo.commit("Keep pods without a label off the nodes of cpu and memory")
	a.requests()
	a.applied()
	after := a.revision()
	pod := a.unschedulable("other")
	a.expectEvent(pod.Name, "FailedScheduling", "did not tolerate taint", "baseten.co/karpenter-provisioner")
	a.launches(1)
	if !a.runs(pod) {
		a.Errorf("pod %s runs on no node of the group", pod.Name)
	}
	a.zero()
	if claims := a.claimed(after); len(claims) > 0 {
		a.Errorf("the engine had NodeClaims %v", claims)
	}
}

// claimed are the NodeClaims that there have been after a revision, those that are gone included.
func (a *autoscaled) claimed(after uint64) []string {
	a.Helper()
	names := map[string]bool{}
	for _, one := range a.history.all(a.gpuSuite) {
		if one.revision > after {
			names[one.object.GetName()] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (a *autoscaled) nodes() ([]corev1.Node, error) {
	var list corev1.NodeList
	err := a.hand.List(a.Context(), &list, client.MatchingLabels{"eks.amazonaws.com/nodegroup": a.group})
	return list.Items, err
}

// nodeState is what a hand on a node would leave behind.
type nodeState struct {
	Name   string
	UID    types.UID
	Labels map[string]string
	Spec   corev1.NodeSpec
	Leaves bool
}

// groupState is all that AWS and the cluster show of the group, but for heartbeats.
type groupState struct {
	Group     string
	Instances []sandboxaws.Instance
	Nodes     []nodeState
}

func (a *autoscaled) state() (state groupState) {
	a.Helper()
	got, err := a.account.eks.DescribeNodegroup(a.Context(), &eks.DescribeNodegroupInput{ClusterName: &a.of.Cluster, NodegroupName: &a.group})
	if err != nil {
		a.Fatal(err)
	}
	text, err := json.MarshalIndent(got.Nodegroup, "", " ")
	if err != nil {
		a.Fatal(err)
	}
	state.Group = string(text)
	for _, i := range a.AWS.Instances() {
		if slices.Contains(a.instances, i.ID) {
			i.UserData = ""
			state.Instances = append(state.Instances, i)
		}
	}
	nodes, err := a.nodes()
	if err != nil {
		a.Fatal(err)
	}
	for _, node := range nodes {
		if _, has := node.Labels[karpv1.NodePoolLabelKey]; has {
			a.Errorf("node %s is said to be Karpenter's", node.Name)
		}
		state.Nodes = append(state.Nodes, nodeState{node.Name, node.UID, node.Labels, node.Spec, node.DeletionTimestamp != nil})
	}
	return state
}

// unnamed: nobody but this test asked AWS for anything to one of the instances, and
// nobody at all to change the group.
func (a *autoscaled) unnamed() {
	a.Helper()
	for _, call := range a.AWS.Calls() {
		named := slices.ContainsFunc(a.instances, func(id string) bool { return strings.Contains(call.Params, id) })
		if named && call.Key != personKey {
			a.Errorf("%s named one of Cluster Autoscaler's instances: %s", call.Operation, call.Params)
		}
		if strings.HasSuffix(call.Operation, "NodegroupConfig") || strings.HasSuffix(call.Operation, "NodegroupVersion") || call.Operation == "DeleteNodegroup" {
			a.Errorf("a node group was changed: %s %s", call.Operation, call.Params)
		}
	}
}
