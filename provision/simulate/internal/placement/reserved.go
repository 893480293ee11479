package placement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// nodesLimit is the resource in which limits count nodes.
const nodesLimit corev1.ResourceName = "nodes"

// mostRounds bounds how often pods are tried again that waited for a capacity reservation. Each round
// launches a node or is the last.
const mostRounds = 50

// solving is what the scheduler finds nodes with.
type solving struct {
	reader  *snapshot.Client
	cluster *state.Cluster
	nodes   state.StateNodes
	pools   []*karpv1.NodePool
	types   map[string][]*cloudprovider.InstanceType
	// credits are places in capacity reservations that nodes leave, by the reservation's ID.
	credits map[string]int
	// untruncated keeps all instance types of new NodeClaims: to sort hundreds of them by price takes longer than
	// all else.
	untruncated bool
}

// solve is Karpenter's scheduler until it is done. A NodeClaim holds a place in each capacity
// reservation that it may be launched into, and pods for which none is left wait for the next round,
// after its launch, as they do in the engine.
func (f *Simulation) solve(ctx context.Context, of solving, pods []*corev1.Pod) (scheduling.Results, error) {
	all := scheduling.Results{PodErrors: map[*corev1.Pod]error{}}
	for round := 1; ; round++ {
		results, err := f.solveOnce(ctx, of, pods)
		if err != nil {
			return all, err
		}
		waiting := results.ReservedOfferingErrors()
		all.NewNodeClaims = append(all.NewNodeClaims, results.NewNodeClaims...)
		all.ExistingNodes = append(all.ExistingNodes, results.ExistingNodes...)
		launched := reservedLaunches(results.NewNodeClaims)
		last := len(waiting) == 0 || len(launched) == 0 || round == mostRounds
		for pod, err := range results.PodErrors {
			if _, waits := waiting[pod]; last || !waits {
				all.PodErrors[pod] = err
			}
		}
		if last {
			return all, nil
		}
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *corev1.Pod) bool { _, waits := waiting[p]; return !waits })
		of = of.after(results.NewNodeClaims, launched)
	}
}

func (f *Simulation) solveOnce(ctx context.Context, of solving, pods []*corev1.Pod) (scheduling.Results, error) {
	options := f.options()
	for id, count := range of.credits {
		options = append(options, scheduling.CreditReservationCapacity(id, count))
	}
	topology, err := scheduling.NewTopology(ctx, of.reader, of.cluster, of.nodes, of.pools, f.domains(of.types, pods), pods, options...)
	if err != nil {
		return scheduling.Results{}, fmt.Errorf("reading the pods' topology: %w", err)
	}
	scheduler := scheduling.NewScheduler(ctx, of.reader, of.pools, of.cluster, of.nodes, topology, of.types, f.daemons(), noopRecorder{}, f.Clock, nil, nil, options...)
	results, err := scheduler.Solve(ctx, pods)
	if err != nil {
		return results, fmt.Errorf("scheduling %d pods: %w", len(pods), err)
	}
	if of.untruncated {
		return results, nil
	}
	return results.TruncateInstanceTypes(ctx, scheduling.MaxInstanceTypes), nil
}

// reservedLaunches is how many of the NodeClaims are launched into each reservation, by ID: each into the
// one of lowest price of those that it holds a place in.
func reservedLaunches(claims []*scheduling.NodeClaim) map[string]int {
	out := map[string]int{}
	for _, claim := range claims {
		if !claim.Requirements.Has(cloudprovider.ReservationIDLabel) {
			continue
		}
		var best *cloudprovider.Offering
		for _, it := range claim.InstanceTypeOptions {
			for _, o := range it.Offerings.Available().Compatible(claim.Requirements) {
				if isReserved(o) && (best == nil || cmp.Or(cmp.Compare(o.Price, best.Price), strings.Compare(o.ReservationID(), best.ReservationID())) < 0) {
					best = o
				}
			}
		}
		if best != nil {
			out[best.ReservationID()]++
		}
	}
	return out
}

// after is with what is left once the NodeClaims have been launched: of reservations by the number of
// launches, and of limits by their smallest instance types.
func (s solving) after(claims []*scheduling.NodeClaim, launched map[string]int) solving {
	credits := maps.Clone(s.credits)
	taken := map[string]int{}
	for id, count := range launched {
		// Places that nodes leave are taken first.
		left := min(count, credits[id])
		if left > 0 {
			credits[id] -= left
		}
		taken[id] = count - left
	}
	s.credits = credits
	types := map[string][]*cloudprovider.InstanceType{}
	for pool, all := range s.types {
		types[pool] = make([]*cloudprovider.InstanceType, len(all))
		for i, it := range all {
			types[pool][i] = without(it, taken)
		}
	}
	s.types, s.pools = types, limited(s.pools, claims)
	return s
}

// without is the type with fewer places in its reservations.
func without(it *cloudprovider.InstanceType, taken map[string]int) *cloudprovider.InstanceType {
	if !slices.ContainsFunc(it.Offerings, func(o *cloudprovider.Offering) bool { return isReserved(o) && taken[o.ReservationID()] > 0 }) {
		return it
	}
	out := &cloudprovider.InstanceType{
		Name: it.Name, Requirements: it.Requirements, Capacity: it.Capacity, VolumeAttachmentLimits: it.VolumeAttachmentLimits,
		DynamicResources: it.DynamicResources, Overhead: it.Overhead,
	}
	for _, o := range it.Offerings {
		if isReserved(o) {
			fewer := *o
			fewer.ReservationCapacity = max(0, o.ReservationCapacity-taken[o.ReservationID()])
			o = &fewer
		}
		out.Offerings = append(out.Offerings, o)
	}
	return out
}

func isReserved(o *cloudprovider.Offering) bool {
	return o.CapacityType() == karpv1.CapacityTypeReserved
}

// limited are the pools with limits lowered by what NodeClaims of theirs take.
func limited(pools []*karpv1.NodePool, claims []*scheduling.NodeClaim) []*karpv1.NodePool {
	used := map[string]corev1.ResourceList{}
	for _, claim := range claims {
		smallest := claim.InstanceTypeOptions.OrderByPrice(claim.Requirements)[0].Capacity
		used[claim.NodePoolName] = resources.Merge(used[claim.NodePoolName], smallest, corev1.ResourceList{nodesLimit: resource.MustParse("1")})
	}
	out := slices.Clone(pools)
	for i, pool := range pools {
		if len(pool.Spec.Limits) == 0 || used[pool.Name] == nil {
			continue
		}
		out[i] = pool.DeepCopy()
		for name, limit := range out[i].Spec.Limits {
			limit.Sub(used[pool.Name][name])
			out[i].Spec.Limits[name] = limit
		}
	}
	return out
}

// freed are the places in capacity reservations of nodes that are gone, by the reservation's ID.
func (f *Simulation) freed(gone map[string]bool) map[string]int {
	out := map[string]int{}
	if f.Replacing {
		return out
	}
	for _, node := range f.Nodes {
		if id := node.Labels[cloudprovider.ReservationIDLabel]; gone[node.Name] && id != "" {
			out[id]++
		}
	}
	return out
}
