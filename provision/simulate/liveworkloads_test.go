package simulate_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	"sigs.k8s.io/karpenter/pkg/utils/resources"
)

// unschedulable is what kube-scheduler writes on a pod that finds no node.
var unschedulable = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// collect deletes the NodeClaims of pools that are gone, as the garbage collector of Kubernetes does.
func (c *liveCluster) collect() {
	c.Helper()
	there := map[string]bool{}
	for _, pool := range list[*karpv1.NodePool](c, &karpv1.NodePoolList{}) {
		there[pool.Name] = true
	}
	for _, claim := range c.claims() {
		if !there[claim.Labels[karpv1.NodePoolLabelKey]] && claim.DeletionTimestamp.IsZero() {
			c.failed("collecting", c.api.Delete(c.ctx, claim))
		}
	}
}

// replicate makes the pods of Deployments, and deletes those that are too many or of another template.
func (c *liveCluster) replicate() {
	c.Helper()
	owned := map[string][]*corev1.Pod{}
	for _, pod := range c.pods() {
		owned[pod.Labels["app"]] = append(owned[pod.Labels["app"]], pod)
	}
	for _, d := range list[*appsv1.Deployment](c, &appsv1.DeploymentList{}) {
		hash := templateHash(d)
		var there []*corev1.Pod
		for _, pod := range owned[d.Name] {
			if pod.Labels["pod-template-hash"] == hash {
				there = append(there, pod)
			} else {
				c.failed("replacing a pod", c.api.Delete(c.ctx, pod))
			}
		}
		// Those without a node go first, as a ReplicaSet has it.
		slices.SortStableFunc(there, func(a, b *corev1.Pod) int {
			return cmp.Or(-cmp.Compare(min(1, len(a.Spec.NodeName)), min(1, len(b.Spec.NodeName))), strings.Compare(a.Name, b.Name))
		})
		for i := int(*d.Spec.Replicas); i < len(there); i++ {
			c.failed("scaling down", c.api.Delete(c.ctx, there[i]))
		}
		for i := len(there); i < int(*d.Spec.Replicas); i++ {
			c.must(c.api.Create(c.ctx, podOf(d, hash)))
		}
		delete(owned, d.Name)
	}
	for _, pods := range owned {
		for _, pod := range pods {
			c.failed("deleting a pod", c.api.Delete(c.ctx, pod))
		}
	}
	for _, b := range list[*policyv1.PodDisruptionBudget](c, &policyv1.PodDisruptionBudgetList{}) {
		if now := int32(max(0, c.allowed(b))); now != b.Status.DisruptionsAllowed {
			b.Status.DisruptionsAllowed = now
			c.must(c.api.Status().Update(c.ctx, b))
		}
	}
}

func templateHash(d *appsv1.Deployment) string {
	h := fnv.New32a()
	fmt.Fprint(h, d.Spec.Template.String())
	return fmt.Sprintf("%08x", h.Sum32())
}

func podOf(d *appsv1.Deployment, hash string) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.GenerateName = d.Namespace, d.Name+"-"+hash+"-"
	pod.Labels["pod-template-hash"] = hash
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: d.Name + "-" + hash, UID: types.UID(d.Name + hash), Controller: &yes}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: unschedulable}
	return pod
}

func selects(b *policyv1.PodDisruptionBudget, o client.Object) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(o.GetLabels()))
}

// allowed is how many pods of the budget may be evicted now.
func (c *liveCluster) allowed(b *policyv1.PodDisruptionBudget) int {
	healthy := 0
	for _, pod := range c.pods() {
		if pod.Namespace == b.Namespace && selects(b, pod) && pod.Status.Phase == corev1.PodRunning {
			healthy++
		}
	}
	return healthy - b.Spec.MinAvailable.IntValue()
}

// join registers the nodes of instances that run, as their kubelets do.
func (c *liveCluster) join() {
	c.Helper()
	there := map[string]bool{}
	for _, node := range c.nodes() {
		there[node.Spec.ProviderID] = true
	}
	for _, claim := range c.claims() {
		id := claim.Status.ProviderID
		if id == "" || there[id] || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		name := "node-" + claim.Name
		c.must(c.api.Create(c.ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
			Spec:       corev1.NodeSpec{ProviderID: id, Taints: []corev1.Taint{karpv1.UnregisteredNoExecuteTaint}},
			Status: corev1.NodeStatus{Capacity: claim.Status.Capacity, Allocatable: claim.Status.Allocatable,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
		}))
	}
}

// schedule binds pods that wait to the first node that has room, as kube-scheduler would. The taints
// at the start are removed before, as whoever has set them would.
func (c *liveCluster) schedule() {
	c.Helper()
	c.removeStartupTaints()
	nodes, used := c.nodes(), map[string]corev1.ResourceList{}
	pods := c.pods()
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			used[pod.Spec.NodeName] = resources.Merge(used[pod.Spec.NodeName], resources.RequestsForPods(pod))
		}
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			continue
		}
		at := slices.IndexFunc(nodes, func(n *corev1.Node) bool {
			return n.DeletionTimestamp.IsZero() && scheduling.Taints(n.Spec.Taints).ToleratesPod(pod) == nil &&
				scheduling.NewLabelRequirements(n.Labels).Compatible(scheduling.NewStrictPodRequirements(pod)) == nil &&
				resources.Fits(resources.Merge(used[n.Name], resources.RequestsForPods(pod)), n.Status.Allocatable)
		})
		if at < 0 {
			continue
		}
		name := nodes[at].Name
		used[name] = resources.Merge(used[name], resources.RequestsForPods(pod))
		pod.Spec.NodeName = name
		c.must(c.api.Update(c.ctx, pod))
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		c.must(c.api.Status().Update(c.ctx, pod))
	}
}

func (c *liveCluster) removeStartupTaints() {
	c.Helper()
	for _, node := range c.nodes() {
		left := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "startup") })
		if len(left) < len(node.Spec.Taints) && node.Labels[karpv1.NodeRegisteredLabelKey] == "true" {
			node.Spec.Taints = left
			c.must(c.api.Update(c.ctx, node))
		}
	}
}

// converge runs rounds until nothing changes any more.
func (c *liveCluster) converge() {
	c.Helper()
	c.failures = nil
	last, same, before := "", 0, ""
	for range 60 {
		c.round()
		if now := c.fingerprint(); now == last {
			same++
		} else {
			before, last, same = last, now, 0
		}
		if same >= 2 {
			return
		}
	}
	c.Fatalf("the cluster does not converge, the last round changed:\n%s\n%s\n%s", gocmp.Diff(strings.Fields(before), strings.Fields(last)), strings.Join(c.failures, "\n"), c.describe())
}

// fingerprint is the same as long as no object is written, but for the status of NodeOverlays, which each round writes anew.
func (c *liveCluster) fingerprint() string {
	c.Helper()
	var out []string
	for _, of := range []client.ObjectList{&awsv1.EC2NodeClassList{}, &karpv1.NodePoolList{}, &karpv1.NodeClaimList{}, &corev1.NodeList{}, &corev1.PodList{}} {
		for _, o := range list[client.Object](c, of) {
			out = append(out, fmt.Sprintf("%T/%s@%s", o, o.GetName(), o.GetResourceVersion()))
		}
	}
	return strings.Join(out, " ")
}

// describe is a line for each node and pod.
func (c *liveCluster) describe() string {
	var out []string
	for _, claim := range c.claims() {
		out = append(out, fmt.Sprintf("%s: %s %s %s, drifted %s, deleted %t", claim.Name, claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[karpv1.CapacityTypeLabelKey], claim.Labels[corev1.LabelTopologyZone],
			reasonOf(claim), !claim.DeletionTimestamp.IsZero()))
	}
	for _, pod := range c.pods() {
		out = append(out, fmt.Sprintf("%s on %q", pod.Name, pod.Spec.NodeName))
	}
	for _, pool := range list[*karpv1.NodePool](c, &karpv1.NodePoolList{}) {
		for _, cond := range pool.Status.Conditions {
			if cond.Status != metav1.ConditionTrue {
				out = append(out, fmt.Sprintf("NodePool %s: %s %s %s", pool.Name, cond.Type, cond.Status, cond.Message))
			}
		}
	}
	for _, class := range list[*awsv1.EC2NodeClass](c, &awsv1.EC2NodeClassList{}) {
		for _, cond := range class.Status.Conditions {
			if cond.Status != metav1.ConditionTrue {
				out = append(out, fmt.Sprintf("EC2NodeClass %s: %s %s %s", class.Name, cond.Type, cond.Status, cond.Message))
			}
		}
	}
	return strings.Join(out, "\n")
}

// reasonOf is why Karpenter has marked the NodeClaim as drifted; empty where it has not.
func reasonOf(claim *karpv1.NodeClaim) string {
	if mark := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); mark.IsTrue() {
		return mark.Reason
	}
	return ""
}
