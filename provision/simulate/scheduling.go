package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
	nodepools "sigs.k8s.io/karpenter/pkg/utils/nodepool"

	"github.com/poolwright/poolwright/provision/gpu/startuptaint"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// workers is how many candidates the scheduler looks at together.
const workers = 2

// place lets Karpenter's scheduler find nodes for the pods, with the nodes that
// are gone left out.
func (c *comparison) place(ctx context.Context, f *fleet, pending []pendingPod, gone map[string]bool) (map[types.UID]outcome, error) {
	out := map[types.UID]outcome{}
	if len(pending) == 0 {
		return out, nil
	}
	pods := make([]*corev1.Pod, 0, len(pending))
	for _, s := range pending {
		pods = append(pods, s.pod)
	}
	reader := &snapshotClient{fleet: f, gone: gone}
	pools, instanceTypes := f.buyers()
	cluster, err := f.view(ctx, reader, priceListCloud{types: instanceTypes})
	if err != nil {
		return nil, err
	}
	nodes := slices.DeleteFunc(cluster.DeepCopyNodes().Active(), func(n *state.StateNode) bool { return gone[n.Name()] })
	options := f.options()
	topology, err := scheduling.NewTopology(ctx, reader, cluster, nodes, pools, f.domains(instanceTypes, pods), pods, options...)
	if err != nil {
		return nil, fmt.Errorf("reading the pods' topology: %w", err)
	}
	scheduler := scheduling.NewScheduler(ctx, reader, pools, cluster, nodes, topology, instanceTypes, f.daemons(), noopRecorder{}, f.clock, nil, nil, options...)
	results, err := scheduler.Solve(ctx, pods)
	if err != nil {
		return nil, fmt.Errorf("scheduling %d pods: %w", len(pods), err)
	}
	results = results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes)
	for _, node := range results.NewNodeClaims {
		for _, pod := range node.Pods {
			out[pod.UID] = outcome{pool: node.NodePoolName}
		}
	}
	for _, node := range results.ExistingNodes {
		for _, pod := range node.Pods {
			out[pod.UID] = outcome{pool: node.Labels()[karpv1.NodePoolLabelKey]}
		}
	}
	told := map[string]string{}
	for pod, err := range results.PodErrors {
		// Only of what is after the step the reasons are told.
		if f != c.after {
			out[pod.UID] = outcome{why: why(err.Error())}
			continue
		}
		key := shape(pod) + err.Error()
		if told[key] == "" {
			told[key] = f.reasons(pod, err)
		}
		out[pod.UID] = outcome{why: told[key]}
	}
	for _, s := range pending {
		for _, pod := range s.like {
			out[pod.UID] = out[s.pod.UID]
		}
	}
	return out, nil
}

// options are the scheduler's, as the engine would set them.
func (f *fleet) options() []scheduling.Options {
	out := []scheduling.Options{scheduling.NumConcurrentReconciles(workers), scheduling.DisableReservedCapacityFallback}
	if f.Cluster.IgnorePreferences {
		out = append(out, scheduling.IgnorePreferences)
	}
	if f.Cluster.RelaxMinValues {
		out = append(out, scheduling.MinValuesPolicy("BestEffort"))
	}
	return out
}

// buyers are the pools from which Karpenter takes nodes for pods, in the order in
// which it tries them, with what they can buy.
func (f *fleet) buyers() ([]*karpv1.NodePool, map[string][]*cloudprovider.InstanceType) {
	var pools []*karpv1.NodePool
	instanceTypes := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range f.sortedPools() {
		if s, ok := f.offerings[pool.Name]; ok && !nodepools.IsStatic(pool) {
			pools = append(pools, pool)
			instanceTypes[pool.Name] = s.allowed
		}
	}
	nodepools.OrderByWeight(pools)
	return pools, instanceTypes
}

// domains are the instance types from which the scheduler learns over what pods may
// spread. The types of a pool are in the same zones and know no hosts, so that one
// of each is enough for all but unusual labels.
func (f *fleet) domains(instanceTypes map[string][]*cloudprovider.InstanceType, pods []*corev1.Pod) map[string][]*cloudprovider.InstanceType {
	out := map[string][]*cloudprovider.InstanceType{}
	few := usual(pods) && usual(f.Pods)
	for name, types := range instanceTypes {
		if few {
			out[name] = types[:min(len(types), 1)]
		} else {
			out[name] = f.offerings[name].all
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
// Karpenter looks at a single one, is no reason to read everything again.
func (f *fleet) view(ctx context.Context, reader *snapshotClient, cloud cloudprovider.CloudProvider) (*state.Cluster, error) {
	made := &f.whole
	switch {
	case len(reader.gone) <= 1:
		reader = &snapshotClient{fleet: f}
	case !maps.Equal(reader.gone, f.gone):
		f.rest, f.gone = nil, reader.gone
		fallthrough
	default:
		made = &f.rest
	}
	if *made == nil {
		cluster, err := f.cluster(ctx, reader, cloud)
		if err != nil {
			return nil, err
		}
		*made = cluster
	}
	return *made, nil
}

// cluster is Karpenter's own view of the nodes.
func (f *fleet) cluster(ctx context.Context, reader *snapshotClient, cloud cloudprovider.CloudProvider) (*state.Cluster, error) {
	out := state.NewCluster(f.clock, reader, cloud)
	for _, claims := range f.claims {
		for _, claim := range claims {
			if !reader.gone[claim.Status.NodeName] {
				out.UpdateNodeClaim(claim.DeepCopy())
			}
		}
	}
	for _, node := range f.Nodes {
		if reader.gone[node.Name] {
			continue
		}
		// A Node without a provider id is given one there.
		if err := out.UpdateNode(ctx, asEngineReads(node)); err != nil {
			return nil, fmt.Errorf("reading node %s: %w", node.Name, err)
		}
	}
	for _, pod := range f.Pods {
		if pod.Spec.NodeName == "" || reader.gone[pod.Spec.NodeName] || pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
			continue
		}
		// Only what keeps others away must be told one by one; the rest was read
		// with the nodes. A pod whose node is not there is no concern.
		_ = out.UpdatePod(ctx, bare(pod))
	}
	out.SetSynced(true)
	return out, nil
}

// asEngineReads is a copy of a Node as the engine's cache returns it to Karpenter, with the
// GPUs of the capacity annotation.
func asEngineReads(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	startuptaint.WithRecordedCapacity(logr.Discard())(out)
	return out
}

// daemons are the pods that every node must hold.
func (f *fleet) daemons() []*corev1.Pod {
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
