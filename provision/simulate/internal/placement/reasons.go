package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	provisioning "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/scheduling"
	nodepools "sigs.k8s.io/karpenter/pkg/utils/nodepool"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// mostReasons is of how many pools it is reported why they have no node for a pod.
const mostReasons = 2

// nearness is how close a pool comes to what a pod requests.
type nearness struct {
	pool string
	// misses are labels that the pod requires and the pool has not, sufficient the
	// extended resources it requests and the pool has, tolerated and untolerated the pool's
	// taints that it does and does not tolerate.
	misses, sufficient, tolerated, untolerated int
	// why is the first thing in the way, empty when only the scheduler has the reason.
	why string
}

// reasons are why no pool has a node for the pod: of the pool that comes closest
// to what the pod requests, and of another that comes as close. The scheduler names
// all pools alike.
func (f *Simulation) reasons(pod *corev1.Pod, err error) string {
	var all []nearness
	for _, pool := range f.SortedPools() {
		if !nodepools.IsStatic(pool) && f.Class(pool) != nil {
			all = append(all, f.near(pool, pod))
		}
	}
	if len(all) == 0 {
		return "there is no NodePool that has nodes for pods"
	}
	slices.SortStableFunc(all, func(a, b nearness) int {
		return cmp.Or(a.compare(b), cmp.Compare(a.untolerated, b.untolerated), cmp.Compare(b.tolerated, a.tolerated), strings.Compare(a.pool, b.pool))
	})
	var out []string
	raw := strings.Join(strings.Fields(err.Error()), " ")
	for _, n := range all {
		if n.compare(all[0]) != 0 || len(out) == mostReasons {
			break
		}
		out = append(out, "NodePool "+n.pool+" "+cmp.Or(n.why, unreserved(err), f.limited(n.pool, raw), "has no node for it"+trimmedReason(n.pool, raw)+f.refused(n.pool)))
	}
	return why(strings.Join(out, "; "))
}

func (n nearness) compare(other nearness) int {
	return cmp.Or(cmp.Compare(n.misses, other.misses), cmp.Compare(other.sufficient, n.sufficient))
}

// near compares a pool with what a pod requests.
func (f *Simulation) near(pool *karpv1.NodePool, pod *corev1.Pod) nearness {
	out := nearness{pool: pool.Name}
	has, required := offerings.Requirements(pool), scheduling.NewStrictPodRequirements(pod)
	has.Add(scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, pool.Name))
	var label, taint string
	for _, key := range sortedKeys(required) {
		if has.Compatible(scheduling.NewRequirements(required.Get(key)), scheduling.AllowUndefinedWellKnownLabels) != nil {
			out.misses++
			label = cmp.Or(label, fmt.Sprintf("has no nodes with %s, as the pod requires", required.Get(key)))
		}
	}
	for _, t := range pool.Spec.Template.Spec.Taints {
		if scheduling.Taints([]corev1.Taint{t}).ToleratesPod(pod) != nil {
			out.untolerated++
			taint = cmp.Or(taint, fmt.Sprintf("has the taint %s, which the pod does not tolerate", t.ToString()))
		} else {
			out.tolerated++
		}
	}
	short, sufficient := f.short(pool.Name, pod)
	out.sufficient, out.why = sufficient, cmp.Or(label, short, taint)
	return out
}

// short is of which resource no node of the pool has enough, extended ones first,
// and of how many of these that the pod requests the pool has some.
func (f *Simulation) short(pool string, pod *corev1.Pod) (why string, sufficient int) {
	types := slices.Clip(f.Offerings[pool].Allowed)
	for _, refused := range f.Offerings[pool].Refused {
		types = append(types, refused.Type)
	}
	if len(types) == 0 {
		return "allows no instance type", 0
	}
	requests := resources.RequestsForPods(pod)
	names := workload.SortedNames(requests)
	slices.SortStableFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Compare(rank(a), rank(b))
	})
	for _, name := range names {
		var most resource.Quantity
		for _, it := range types {
			if has := it.Allocatable()[name]; has.Cmp(most) > 0 {
				most = has
			}
		}
		if workload.IsExtendedResource(name) && !most.IsZero() {
			sufficient++
		}
		if desired := requests[name]; most.IsZero() && desired.Sign() > 0 {
			why = cmp.Or(why, fmt.Sprintf("has no %s", name))
		} else if desired.Cmp(most) > 0 {
			why = cmp.Or(why, fmt.Sprintf("has at most %s %s a node, and the pod requests %s", readable(most), name, readable(desired)))
		}
	}
	return why, sufficient
}

func rank(name corev1.ResourceName) int {
	if workload.IsExtendedResource(name) {
		return 0
	}
	return 1
}

// readable writes bytes in whole MiB, which no kernel's share makes longer.
func readable(q resource.Quantity) string {
	if bytes := q.Value(); q.Format == resource.BinarySI && bytes >= 1<<20 {
		return resource.NewQuantity(bytes>>20<<20, resource.BinarySI).String()
	}
	return q.String()
}

// unreserved reports that a pod waits for a capacity reservation.
func unreserved(err error) string {
	if provisioning.IsReservedOfferingError(err) {
		return "has no instance available in its capacity reservations"
	}
	return ""
}

// refused reports that EC2 refused some of what the pool could launch, which may be the reason.
func (f *Simulation) refused(pool string) string {
	if of := f.Offerings[pool]; len(of.Refused) > 0 && !of.HasOnlyRefused() {
		return ", without the offerings that EC2 refused"
	}
	return ""
}

// limited reports that the scheduler found the pool's limits used up.
func (f *Simulation) limited(pool, raw string) string {
	if !strings.Contains(raw, "(NodePool="+pool+")") {
		return ""
	}
	var limits []string
	list := corev1.ResourceList(f.Pools[pool].Spec.Limits)
	for _, name := range workload.SortedNames(list) {
		limit := list[name]
		limits = append(limits, limit.String()+" "+string(name))
	}
	return fmt.Sprintf("has no capacity for another node under its limit of %s", strings.Join(limits, ", "))
}

// trimmedReason is the scheduler's reason for one pool, where it is distinct from those for others,
// without the list of all that the pod requests.
func trimmedReason(pool, raw string) string {
	parts := strings.Split(raw, "; ")
	for _, part := range parts {
		if len(parts) == 1 || strings.Contains(part, karpv1.NodePoolLabelKey+" In ["+pool+"]") {
			short, _, _ := strings.Cut(part, ", requirements=")
			return ": " + short
		}
	}
	return ""
}

func sortedKeys(of scheduling.Requirements) []string {
	out := of.Keys().UnsortedList()
	slices.Sort(out)
	return out
}

// why cuts a reason to what a person reads.
func why(reason string) string {
	text := strings.Join(strings.Fields(reason), " ")
	const most = 400
	if len(text) > most {
		cut := most
		for cut > 0 && text[cut]&0xC0 == 0x80 {
			cut--
		}
		text = text[:cut] + " …"
	}
	return text
}
