// Package snapshot has the nodes, pods and declared objects of one revision so that they can be
// indexed, and as Karpenter's code reads them from a cluster.
package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
	"github.com/poolwright/poolwright/provision/simulate/reduce"
)

// Indexed is a provision.ClusterSnapshot with indexes.
type Indexed struct {
	provision.ClusterSnapshot
	// Clock stands still at the snapshot's time.
	Clock FixedClock
	// Pools and Classes are by name.
	Pools   map[string]*karpv1.NodePool
	Classes map[string]*awsv1.EC2NodeClass
	// refused are the names of NodePools that the API server would refuse.
	refused []string
	// Claims are by pool, oldest first, and Bound are the pods by the name of their
	// node.
	Claims map[string][]*karpv1.NodeClaim
	Bound  map[string][]*corev1.Pod
	// nodes are by provider id, named by name.
	nodes map[string]*corev1.Node
	named map[string]*corev1.Node
	// labeled are the pods by namespace, label and its value, made when first needed.
	labeled map[labelOf]map[string][]*corev1.Pod
	// capacities are by the names of NodeClaims, made when first needed.
	capacities map[string]corev1.ResourceList
	// requests are what pods request, by their shapes.
	requests map[reduce.ShapeKey]corev1.ResourceList
}

// New indexes a snapshot, and drops from it what Karpenter could not use.
func New(from provision.ClusterSnapshot, unknown Unknowns) *Indexed {
	f := &Indexed{
		ClusterSnapshot: from, Clock: FixedClock{At: from.Now},
		Pools: map[string]*karpv1.NodePool{}, Classes: map[string]*awsv1.EC2NodeClass{},
		Claims: map[string][]*karpv1.NodeClaim{}, nodes: map[string]*corev1.Node{}, named: map[string]*corev1.Node{},
		labeled: map[labelOf]map[string][]*corev1.Pod{}, capacities: map[string]corev1.ResourceList{},
		requests: map[reduce.ShapeKey]corev1.ResourceList{},
	}
	for _, class := range from.NodeClasses {
		if bad := badAlias(class); bad != "" {
			unknown.Add(codeAMIAliasInvalid, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: the AMI alias %q is not a family and a version with one @ between them, so the replacement of its nodes cannot be predicted.", class.Name, bad)
			continue
		}
		f.Classes[class.Name] = class
	}
	f.Overlays = nil
	for _, overlay := range from.Overlays {
		if !usablePrice(overlay) {
			unknown.Add(codeNodeOverlayPriceInvalid, "NodeOverlay/"+overlay.Name, "NodeOverlay %s: its price is no number of at most %.0e, so that the overlay is left out.", overlay.Name, mostPrice)
			continue
		}
		f.Overlays = append(f.Overlays, overlay)
	}
	for _, pool := range from.NodePools {
		if !pool.DeletionTimestamp.IsZero() || pool.Spec.Template.Spec.NodeClassRef == nil {
			continue
		}
		if bad := badRequirement(pool); bad != nil {
			unknown.Add(codeNodePoolRefused, "NodePool/"+pool.Name, "NodePool %s: the API server would refuse it, since the requirement of %q has the operator %s and %d values instead of one: the forecast is of the NodePool as it is in the cluster.", pool.Name, bad.Key, bad.Operator, len(bad.Values))
			f.refused = append(f.refused, pool.Name)
			continue
		}
		f.Pools[pool.Name] = pool
	}
	f.DaemonSets = slices.DeleteFunc(newest(from.DaemonSets), func(set *appsv1.DaemonSet) bool {
		err := workload.Validate(set.Spec.Template.ObjectMeta, set.Spec.Template.Spec)
		if err != nil {
			unknown.Add(codePodsRefused, "DaemonSet/"+set.Namespace+"/"+set.Name, "DaemonSet %s/%s: its pods are left out, since the API server would refuse them: %v.", set.Namespace, set.Name, err)
		}
		return err != nil
	})
	f.index()
	return f
}

// newest drops those of which another of the same name follows.
func newest(sets []*appsv1.DaemonSet) []*appsv1.DaemonSet {
	at := map[types.NamespacedName]int{}
	for i, set := range sets {
		at[types.NamespacedName{Namespace: cmp.Or(set.Namespace, metav1.NamespaceDefault), Name: set.Name}] = i
	}
	out := slices.Clone(sets[:0])
	for i, set := range sets {
		if at[types.NamespacedName{Namespace: cmp.Or(set.Namespace, metav1.NamespaceDefault), Name: set.Name}] == i {
			out = append(out, set)
		}
	}
	return out
}

// index sorts what was observed.
func (f *Indexed) index() {
	for _, claim := range f.NodeClaims {
		name := claim.Labels[karpv1.NodePoolLabelKey]
		f.Claims[name] = append(f.Claims[name], claim)
	}
	for _, list := range f.Claims {
		slices.SortFunc(list, oldestFirst)
	}
	for _, node := range f.Nodes {
		f.named[node.Name] = node
		if node.Spec.ProviderID != "" {
			f.nodes[node.Spec.ProviderID] = node
		}
	}
	f.bind()
}

// Observe takes over what is there from another snapshot, except the pods that wait.
func (f *Indexed) Observe(from *Indexed) {
	f.Claims, f.nodes, f.named, f.Bound = from.Claims, from.nodes, from.named, from.Bound
	f.NodeClaims, f.Nodes, f.PodDisruptionBudgets = from.NodeClaims, from.Nodes, from.PodDisruptionBudgets
	if f.Pods == nil {
		f.Pods = from.Pods
	}
	pods := slices.DeleteFunc(slices.Clone(from.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" {
			pods = append(pods, pod)
		}
	}
	f.setPods(pods)
	if f.DaemonSets == nil {
		f.DaemonSets = from.DaemonSets
	}
	if f.RuntimeClasses == nil {
		f.RuntimeClasses = from.RuntimeClasses
	}
	// A refused change leaves the NodePool as it is.
	for _, name := range f.refused {
		if live, ok := from.Pools[name]; ok {
			f.Pools[name] = live
		}
	}
	// What AWS returned is in a class's status, which no declaration has: it holds while
	// the request is the same.
	for name, class := range f.Classes {
		if live, ok := from.Classes[name]; ok && len(class.Status.Subnets)+len(class.Status.AMIs)+len(class.Status.SecurityGroups) == 0 {
			class = class.DeepCopy()
			class.Status = *live.Status.DeepCopy()
			f.Classes[name] = class
		}
	}
	f.clearReservations(from)
}

// PodsByWorkload are the snapshot's workloads with those of the pods that are theirs.
func (f *Indexed) PodsByWorkload(pods []*corev1.Pod, unknown Unknowns) map[workload.Ref]workload.Pods {
	runtimes := map[string]*nodev1.RuntimeClass{}
	for _, class := range f.RuntimeClasses {
		runtimes[class.Name] = class
	}
	out := workload.PodsByWorkload(f.Workloads, pods)
	for of, c := range out {
		if name := c.Pod.Spec.RuntimeClassName; name != nil && runtimes[*name] != nil {
			c.Pod = workload.WithRuntimeClass(c.Pod, runtimes[*name])
		} else if name != nil {
			unknown.Add(codeRuntimeClassUnknown, "RuntimeClass/"+*name, "RuntimeClass %s is not known here: what it requires of the nodes of its pods is left out.", *name)
		}
		if err := workload.Validate(c.Pod.ObjectMeta, c.Pod.Spec); err != nil {
			unknown.Add(codePodsRefused, of.Kind+"/"+of.Namespace+"/"+of.Name, "%s %s/%s: its pods are left out, since the API server would refuse them: %v.", of.Kind, of.Namespace, of.Name, err)
			c.Invalid = true
		}
		out[of] = c
	}
	return out
}

// Node is the NodeClaim's Node, nil while there is none.
func (f *Indexed) Node(claim *karpv1.NodeClaim) *corev1.Node {
	if claim.Status.ProviderID == "" {
		return nil
	}
	return f.nodes[claim.Status.ProviderID]
}

// Capacity is what Karpenter counts of a NodeClaim.
func (f *Indexed) Capacity(claim *karpv1.NodeClaim) corev1.ResourceList {
	if known, ok := f.capacities[claim.Name]; ok {
		return known
	}
	out := claim.Status.Capacity
	if node := f.Node(claim); node != nil && node.Labels[karpv1.NodeInitializedLabelKey] == "true" {
		out = AsEngineReads(node).Status.Capacity
	}
	f.capacities[claim.Name] = out
	return out
}

// Class is the pool's, nil when it is not there.
func (f *Indexed) Class(pool *karpv1.NodePool) *awsv1.EC2NodeClass {
	return f.Classes[pool.Spec.Template.Spec.NodeClassRef.Name]
}

func oldestFirst(a, b *karpv1.NodeClaim) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// SortedPools are the pools by name.
func (f *Indexed) SortedPools() []*karpv1.NodePool {
	return slices.SortedFunc(maps.Values(f.Pools), func(a, b *karpv1.NodePool) int { return strings.Compare(a.Name, b.Name) })
}

// Condition is a condition of an object of Karpenter, nil where there is none. Karpenter's StatusConditions sets the
// conditions up anew each time, which takes longer than all else that is read of a NodeClaim, and has those that are missing.
func Condition(object status.Object, kind string) *status.Condition {
	all := object.GetConditions()
	for i := range all {
		if all[i].Type == kind {
			return &all[i]
		}
	}
	return nil
}
