package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	requirements "sigs.k8s.io/karpenter/pkg/scheduling"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// Replacement is nodes that Karpenter replaces.
type Replacement struct {
	Nodes []ReplacedNode
	// Gone are the names of nodes that go, and nothing comes for them.
	Gone map[string]bool
	// Waiting are the pods that wait for a node beside those of the nodes.
	Waiting []*corev1.Pod
	// MostWork bounds the simulations, in instance types and nodes that the scheduler considers. Beyond it each node is replaced alone.
	MostWork int
}

// ReplacedNode is one that Karpenter replaces.
type ReplacedNode struct {
	Name, NodeClaim, Pool string
	// Was is what it is, which comes again where nothing else costs less.
	Was *offerings.Offering
	// Last is one that something keeps until somebody acts: it is replaced after the others.
	Last bool
}

// Launches are what Karpenter launches.
type Launches struct {
	// Launched are by the NodeClaim in whose place they come: none, one or several. Those for which it is not known are absent.
	Launched map[string][]*offerings.Offering
	// Together is set where the pods of each node are taken to move to one new node, without the other nodes, and
	// Incomplete where there is none for those of some. Reserved is set where some are left out for their place in a
	// capacity reservation.
	Together, Incomplete, Reserved bool
	// OtherPools is set where some of what is launched is of another NodePool than the node in whose place it comes.
	OtherPools bool
}

// Replace replaces nodes after pods that wait have found one: one after the other, or where that is too much work, each alone.
// It is Karpenter's scheduler that does the one, and OneNode the other.
func (f *Simulation) Replace(ctx context.Context, change Replacement) (Launches, error) {
	out := Launches{Launched: map[string][]*offerings.Offering{}}
	if len(change.Nodes) == 0 {
		return out, nil
	}
	if f.work(change) > change.MostWork {
		out.Together = true
		f.replaceAlone(change.Nodes, &out)
		return out, nil
	}
	r, err := f.replacements(ctx, change.Gone)
	if err != nil {
		return out, err
	}
	if err := r.schedule(ctx, change.Waiting); err != nil {
		return out, err
	}
	nodes := slices.Clone(change.Nodes)
	slices.SortStableFunc(nodes, func(a, b ReplacedNode) int { return order(a.Last) - order(b.Last) })
	for _, n := range nodes {
		launched, replaced, err := r.replace(ctx, n, f.moving(n.Name))
		if err != nil {
			return out, err
		}
		if replaced {
			out.Launched[n.NodeClaim] = launched
		}
	}
	out.OtherPools = r.otherPools
	return out, nil
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// work is that of replacing the nodes one after the other: the instance types that the scheduler considers for each pool and
// each pod, and the nodes that it considers.
func (f *Simulation) work(change Replacement) int {
	types := 0
	for _, sold := range f.Offerings {
		types += len(sold.Allowed)
	}
	total := len(change.Waiting) * types
	for _, n := range change.Nodes {
		total += types + len(f.Bound[n.Name])*len(f.Offerings[n.Pool].Allowed) + 2*len(f.Nodes)
	}
	return total
}

// replaceAlone replaces each node alone, equal ones once.
func (f *Simulation) replaceAlone(nodes []ReplacedNode, out *Launches) {
	groups, oneNode := map[string]*offerings.Offering{}, f.OneNode()
	for _, n := range nodes {
		if n.Was.CapacityType == karpv1.CapacityTypeReserved {
			out.Reserved = true
			continue
		}
		key := f.groupOf(n)
		launched, known := groups[key]
		if !known {
			launched = oneNode.For(f.Pools[n.Pool], f.moving(n.Name), n.Was)
			groups[key] = launched
		}
		if launched == nil {
			out.Incomplete = true
			continue
		}
		out.Launched[n.NodeClaim] = []*offerings.Offering{launched}
	}
}

// groupOf is equal for nodes in whose place the same comes.
func (f *Simulation) groupOf(n ReplacedNode) string {
	parts := []string{n.Pool, n.Was.InstanceType, n.Was.CapacityType, n.Was.Zone}
	for _, pod := range f.Bound[n.Name] {
		if podutil.IsReschedulable(pod) {
			parts = append(parts, templateOf(pod))
		}
	}
	slices.Sort(parts[4:])
	return strings.Join(parts, " ")
}

// templateOf is equal for pods of one shape. Those of one template are, and to compare their owners is much faster.
func templateOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner != nil && (owner.Kind == "ReplicaSet" || owner.Kind == "Job"):
		return pod.Namespace + "/" + string(owner.UID) + owner.Name
	case owner != nil && owner.Kind == "StatefulSet" && pod.Labels[appsv1.ControllerRevisionHashLabelKey] != "":
		return pod.Namespace + "/" + string(owner.UID) + owner.Name + "/" + pod.Labels[appsv1.ControllerRevisionHashLabelKey]
	}
	return Shape(pod)
}

// moving are the pods for which Karpenter finds another node before it takes this one away.
func (f *Simulation) moving(node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range f.Bound[node] {
		if podutil.IsReschedulable(pod) {
			out = append(out, snapshot.Unbound(pod))
		}
	}
	return out
}

// replacements replaces nodes one after the other, as Karpenter does: each simulation has the nodes that
// the earlier ones launched, and the pods where these have moved them.
type replacements struct {
	simulation *Simulation
	solving    solving
	// gone are the nodes that are there no more, by name.
	gone map[string]bool
	// moved are the pods that moved to a node, by its name.
	moved map[string][]*corev1.Pod
	// created counts the nodes and pods that the simulations made.
	created int
	// otherPools is set where a node of one pool is launched in the place of one of another.
	otherPools bool
}

// replacements starts with all nodes but those that are gone, by name.
func (f *Simulation) replacements(ctx context.Context, gone map[string]bool) (*replacements, error) {
	pools, instanceTypes := f.buyers()
	reader := &snapshot.Client{Snapshot: f.Resolved.Indexed, Deleted: gone}
	f.Release()
	cluster, err := f.read(ctx, reader, offerings.CloudProvider{Types: instanceTypes})
	if err != nil {
		return nil, err
	}
	out := &replacements{
		simulation: f, gone: map[string]bool{}, moved: map[string][]*corev1.Pod{},
		solving: solving{reader: reader, cluster: cluster, pools: pools, types: instanceTypes, untruncated: true},
	}
	maps.Copy(out.gone, gone)
	return out, nil
}

// schedule places pods that have no node. Those that find none are left out. What is launched for them takes no other
// pods: its price is in no amount, so that replaced nodes whose pods move there would be a saving that is none.
func (r *replacements) schedule(ctx context.Context, pods []*corev1.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	results, err := r.solve(ctx, "", pods)
	if err != nil {
		return err
	}
	_, err = r.apply(ctx, results, nil)
	return err
}

// replace takes away a node with so many pods that must find another one, and returns what Karpenter launches
// for them, with what it was in its place where prices are equal. It is false, and the node stays, where one of
// the pods finds none.
func (r *replacements) replace(ctx context.Context, n ReplacedNode, pods []*corev1.Pod) ([]*offerings.Offering, bool, error) {
	node := n.Name
	for _, pod := range r.moved[node] {
		pods = append(slices.Clip(pods), snapshot.Unbound(pod))
	}
	if len(pods) == 0 {
		r.gone[node] = true
		return nil, true, nil
	}
	results, err := r.solve(ctx, node, pods)
	if err != nil {
		return nil, false, err
	}
	if len(results.PodErrors) > 0 {
		for _, n := range results.ExistingNodes {
			for _, pod := range n.Pods {
				r.simulation.unplace(n.StateNode, pod)
			}
		}
		return nil, false, nil
	}
	r.gone[node] = true
	launched, err := r.apply(ctx, results, &n)
	return launched, true, err
}

func (r *replacements) solve(ctx context.Context, without string, pods []*corev1.Pod) (scheduling.Results, error) {
	of := r.solving
	if without != "" {
		// The pods of nodes that were replaced before count where they were: their zones are mostly the same.
		deleted := map[string]bool{without: true}
		maps.Copy(deleted, of.reader.Deleted)
		of.reader = &snapshot.Client{Snapshot: r.simulation.Resolved.Indexed, Deleted: deleted}
	}
	of.nodes = slices.DeleteFunc(state.StateNodes(slices.Collect(of.cluster.Nodes())).Active(), func(n *state.StateNode) bool {
		return n.Name() == without || r.gone[n.Name()]
	})
	return r.simulation.solve(ctx, of, pods)
}

// apply moves the pods, and adds the nodes that are launched: in the place of a node, or for pods that wait, where it is nil.
func (r *replacements) apply(ctx context.Context, results scheduling.Results, replaced *ReplacedNode) ([]*offerings.Offering, error) {
	var was *offerings.Offering
	if replaced != nil {
		was = replaced.Was
	}
	for _, node := range results.ExistingNodes {
		for _, pod := range node.Pods {
			r.bind(ctx, node.Name(), pod)
			r.moved[node.Name()] = append(r.moved[node.Name()], pod)
		}
	}
	var out []*offerings.Offering
	for _, claim := range results.NewNodeClaims {
		it, sold := launchedOffering(claim, was)
		if it == nil {
			continue
		}
		out = append(out, &offerings.Offering{InstanceType: it.Name, Zone: sold.Zone(), CapacityType: sold.CapacityType(), Type: it})
		node := r.node(claim, it, sold)
		if replaced == nil {
			// The scheduler still counts it against the pool's limits.
			node.Status.Allocatable = maps.Clone(node.Status.Allocatable)
			node.Status.Allocatable[corev1.ResourcePods] = resource.Quantity{}
		} else if claim.NodePoolName != replaced.Pool {
			r.otherPools = true
		}
		if err := r.solving.cluster.UpdateNode(ctx, node); err != nil {
			return nil, fmt.Errorf("adding a %s: %w", it.Name, err)
		}
		for _, pod := range claim.Pods {
			r.bind(ctx, node.Name, pod)
		}
	}
	return out, nil
}

// bind is under a name of its own: those of pods that are only declared are not unique.
func (r *replacements) bind(ctx context.Context, node string, pod *corev1.Pod) {
	r.created++
	bound := snapshot.WithoutVolumes(pod)
	bound.Name, bound.Spec.NodeName = fmt.Sprintf("%s-moved-%d", pod.Name, r.created), node
	// A pod whose node is not there takes nothing of it.
	_ = r.solving.cluster.UpdatePod(ctx, bound)
}

// node is the Node of a NodeClaim after its launch.
func (r *replacements) node(claim *scheduling.NodeClaim, it *cloudprovider.InstanceType, sold *cloudprovider.Offering) *corev1.Node {
	r.created++
	name := fmt.Sprintf("replacement-%d", r.created)
	labels := maps.Clone(claim.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, of := range []map[string]string{single(claim.Requirements), single(it.Requirements), single(sold.Requirements)} {
		maps.Copy(labels, of)
	}
	labels[karpv1.NodePoolLabelKey], labels[corev1.LabelHostname] = claim.NodePoolName, name
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: name, Taints: claim.Spec.Taints},
		Status:     corev1.NodeStatus{Capacity: it.Capacity, Allocatable: it.Allocatable()},
	}
}

// launchedOffering is what AWS launches for a NodeClaim; of equal prices what was is.
func launchedOffering(claim *scheduling.NodeClaim, was *offerings.Offering) (*cloudprovider.InstanceType, *cloudprovider.Offering) {
	var best *launchable
	for _, it := range claim.InstanceTypeOptions {
		for _, o := range it.Offerings.Available().Compatible(claim.Requirements) {
			l := newLaunchable(it, o)
			if best == nil || cmp.Or(l.compare(*best), cmp.Compare(l.other(was), best.other(was)), l.compareNames(*best)) < 0 {
				best = &l
			}
		}
	}
	if best == nil {
		return nil, nil
	}
	return best.it, best.offering
}

// single are the labels that the requirements leave one value for.
func single(of requirements.Requirements) map[string]string {
	out := map[string]string{}
	for key, r := range of {
		if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
			out[key] = r.Any()
		}
	}
	return out
}
