// Package placement finds nodes for pods with Karpenter's own scheduler, and explains why a pod gets none.
package placement

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	nodepools "sigs.k8s.io/karpenter/pkg/utils/nodepool"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// Simulation is a cluster in which pods are placed.
type Simulation struct {
	*offerings.Resolved
	// Explain gives the reason of a pod that finds no node by pool; without it the
	// reason is the scheduler's own.
	Explain bool
	// cluster is Karpenter's view of the nodes without those that are gone, the last that
	// was needed: it takes more memory than all else.
	cluster *state.Cluster
	deleted map[string]bool
	// offeringsID is equal for instance types with the same offerings, by which withoutDominated distinguishes them;
	// specialOfferings is set where offerings differ in more.
	offeringsID      map[*cloudprovider.InstanceType]int
	specialOfferings bool
	// Replacing is true where the nodes that are gone stay until their replacements are there, so that
	// their places in capacity reservations are not free.
	Replacing bool
}

// Release gives back the memory for placing pods. It is taken again when pods are placed.
func (f *Simulation) Release() { f.cluster, f.deleted = nil, nil }

// workers is how many candidates the scheduler evaluates together.
const workers = 2

// Place lets Karpenter's scheduler find nodes for the pods, with the nodes that
// are gone, by name, left out. The outcomes are by the ids of the pods.
func (f *Simulation) Place(ctx context.Context, pods []*corev1.Pod, gone map[string]bool) (map[types.UID]Outcome, error) {
	return f.place(ctx, pods, gone, f.withoutDominated)
}

// place is Place with those of the instance types that pools can buy that considered returns.
func (f *Simulation) place(ctx context.Context, pods []*corev1.Pod, gone map[string]bool, considered func([]*karpv1.NodePool, map[string][]*cloudprovider.InstanceType, []*corev1.Pod) map[string][]*cloudprovider.InstanceType) (map[types.UID]Outcome, error) {
	out := map[types.UID]Outcome{}
	if len(pods) == 0 {
		return out, nil
	}
	reader := &snapshot.Client{Snapshot: f.Resolved.Indexed, Deleted: gone}
	pools, instanceTypes := f.buyers()
	cluster, err := f.view(ctx, reader, offerings.CloudProvider{Types: instanceTypes})
	if err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(state.StateNodes(slices.Collect(cluster.Nodes())).Active(), func(n *state.StateNode) bool { return gone[n.Name()] })
	results, err := f.solve(ctx, solving{reader: reader, cluster: cluster, nodes: nodes, pools: pools, types: considered(pools, instanceTypes, pods), credits: f.freed(gone)}, pods)
	if err != nil {
		return nil, err
	}
	for _, node := range results.NewNodeClaims {
		for _, pod := range node.Pods {
			out[pod.UID] = Outcome{Pool: node.NodePoolName}
		}
	}
	for _, node := range results.ExistingNodes {
		for _, pod := range node.Pods {
			out[pod.UID] = Outcome{Pool: node.Labels()[karpv1.NodePoolLabelKey], Node: node.Name()}
			f.unplace(node.StateNode, pod)
		}
	}
	reasons := map[string]string{}
	for pod, err := range results.PodErrors {
		if !f.Explain {
			out[pod.UID] = Outcome{Reason: why(err.Error())}
			continue
		}
		key := Shape(pod) + err.Error()
		if reasons[key] == "" {
			reasons[key] = f.reasons(pod, err)
		}
		out[pod.UID] = Outcome{Reason: reasons[key]}
	}
	return out, nil
}

// unplace takes back what placing a pod changed of a node of the view: a copy of all nodes for
// each placing, as Karpenter makes, would take as much memory as the view itself. Where the node
// has another pod of that name, what was changed is not known any more.
func (f *Simulation) unplace(node *state.StateNode, pod *corev1.Pod) {
	if slices.ContainsFunc(f.Bound[node.Name()], func(p *corev1.Pod) bool { return workload.NameOf(p) == workload.NameOf(pod) }) {
		f.Release()
		return
	}
	node.HostPortUsage().DeletePod(client.ObjectKeyFromObject(pod))
	node.VolumeUsage().DeletePod(client.ObjectKeyFromObject(pod))
}

// options are the scheduler's, as the engine would set them.
func (f *Simulation) options() []scheduling.Options {
	out := []scheduling.Options{scheduling.NumConcurrentReconciles(workers), scheduling.DisableReservedCapacityFallback}
	if f.Cluster.PreferencePolicy == "Ignore" {
		out = append(out, scheduling.IgnorePreferences)
	}
	if f.Cluster.MinValuesPolicy == "BestEffort" {
		out = append(out, scheduling.MinValuesPolicy("BestEffort"))
	}
	return out
}

// buyers are the pools from which Karpenter takes nodes for pods, in the order in
// which it tries them, with what they can buy.
func (f *Simulation) buyers() ([]*karpv1.NodePool, map[string][]*cloudprovider.InstanceType) {
	var pools []*karpv1.NodePool
	instanceTypes := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range f.SortedPools() {
		if s, ok := f.Offerings[pool.Name]; ok && !nodepools.IsStatic(pool) {
			pools = append(pools, pool)
			instanceTypes[pool.Name] = s.Allowed
		}
	}
	nodepools.OrderByWeight(pools)
	return pools, instanceTypes
}

// domains are the instance types from which the scheduler learns over what pods may
// spread. The types of a pool are in the same zones and have no hosts, so that one of
// each is enough for all but unusual labels.
func (f *Simulation) domains(instanceTypes map[string][]*cloudprovider.InstanceType, pods []*corev1.Pod) map[string][]*cloudprovider.InstanceType {
	out := map[string][]*cloudprovider.InstanceType{}
	few := usual(pods) && usual(f.Pods)
	for name := range instanceTypes {
		if allowed := f.Offerings[name].Allowed; few {
			out[name] = allowed[:min(len(allowed), 1)]
		} else {
			out[name] = f.Offerings[name].All
		}
	}
	return out
}

// usual reports whether pods spread over nothing but hosts and zones.
func usual(pods []*corev1.Pod) bool {
	for _, pod := range pods {
		keys := []string{}
		for _, spread := range pod.Spec.TopologySpreadConstraints {
			keys = append(keys, spread.TopologyKey)
		}
		for _, term := range workload.AffinityTerms(pod) {
			keys = append(keys, term.TopologyKey)
		}
		for _, key := range keys {
			if key != corev1.LabelHostname && key != corev1.LabelTopologyZone {
				return false
			}
		}
	}
	return true
}

// view is the cluster that a simulation starts from. One node more or less, as when
// Karpenter evaluates a single one, is no reason to read everything again.
func (f *Simulation) view(ctx context.Context, reader *snapshot.Client, cloud cloudprovider.CloudProvider) (*state.Cluster, error) {
	if len(reader.Deleted) <= 1 {
		reader = &snapshot.Client{Snapshot: f.Resolved.Indexed}
	}
	if f.cluster != nil && maps.Equal(reader.Deleted, f.deleted) {
		return f.cluster, nil
	}
	f.Release()
	cluster, err := f.read(ctx, reader, cloud)
	if err != nil {
		return nil, err
	}
	f.cluster, f.deleted = cluster, reader.Deleted
	return cluster, nil
}

// read is Karpenter's own view of the nodes.
func (f *Simulation) read(ctx context.Context, reader *snapshot.Client, cloud cloudprovider.CloudProvider) (*state.Cluster, error) {
	counted := *reader
	counted.PodsAggregated = true
	out := state.NewCluster(f.Clock, &counted, cloud)
	for _, claims := range f.Claims {
		for _, claim := range claims {
			if !reader.Deleted[claim.Status.NodeName] {
				out.UpdateNodeClaim(claim.DeepCopy())
			}
		}
	}
	for _, node := range f.Nodes {
		if reader.Deleted[node.Name] {
			continue
		}
		// A Node without a provider id is given one there.
		if err := out.UpdateNode(ctx, f.AsCounted(node)); err != nil {
			return nil, fmt.Errorf("reading node %s: %w", node.Name, err)
		}
	}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" || reader.Deleted[pod.Spec.NodeName] || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
			continue
		}
		// Only what keeps others away must be listed one by one; the rest was read
		// with the nodes. A pod whose node is not there is no concern.
		_ = out.UpdatePod(ctx, snapshot.WithoutVolumes(pod))
	}
	out.SetSynced(true)
	return out, nil
}

// daemons are the pods that every node must hold.
func (f *Simulation) daemons() []*corev1.Pod {
	var out []*corev1.Pod
	for _, set := range f.DaemonSets {
		pod := daemonset.PodForDaemonSet(set.DeepCopy())
		pod.Spec.Volumes = nil
		out = append(out, pod)
	}
	return out
}

// noopRecorder drops events.
type noopRecorder struct{}

// Publish does nothing.
func (noopRecorder) Publish(...events.Event) {}

// Shape is what of a pod the scheduler reads.
func Shape(pod *corev1.Pod) string {
	type container struct {
		Resources corev1.ResourceRequirements
		Ports     []corev1.ContainerPort
		Restart   *corev1.ContainerRestartPolicy
	}
	var containers []container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, one := range list {
			containers = append(containers, container{one.Resources, one.Ports, one.RestartPolicy})
		}
		containers = append(containers, container{})
	}
	// These are plain values of the API, which always marshal.
	text, _ := json.Marshal([]any{
		pod.Namespace, pod.Spec.NodeSelector, pod.Spec.Affinity, pod.Spec.Tolerations, pod.Spec.TopologySpreadConstraints,
		pod.Spec.Overhead, pod.Spec.Resources, pod.Spec.ResourceClaims, containers,
	})
	return string(text)
}

// Outcome is what becomes of a pending pod: a node of a pool, of none, or why it gets
// none.
type Outcome struct {
	Pool, Reason string
	// Node is the name of a node that there is already, or its NodeClaim's; empty for a new one.
	Node string
}
