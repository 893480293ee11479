package forecast

import (
	"slices"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/blocker"
)

// nodeOutcomes sorts the nodes that are to be replaced and never are.
type nodeOutcomes struct {
	// blocked are those that something on them keeps.
	blocked []provision.Node
	// full counts the others beside which their pool has no capacity for a replacement,
	// closed the rest of a pool whose budgets never allow one.
	full, closed map[string]int
	// pods counts those on the nodes that are replaced, lost are those of them and of
	// pools that go which nothing makes again.
	pods              int
	withoutController []provision.Pod
	// unexplained is true when the forecast counts such nodes and does not name them.
	unexplained bool
}

func outcomesOf(f *provision.Forecast) nodeOutcomes {
	out := nodeOutcomes{closed: map[string]int{}, full: map[string]int{}}
	pools := map[string]provision.PoolDisruption{}
	for _, p := range f.Pools {
		pools[p.Name] = p.Disruption
	}
	waiting := 0
	for _, n := range f.Replaced {
		switch {
		case isBlocked(n):
			out.blocked = append(out.blocked, n)
		case slices.ContainsFunc(n.Blockers, atLimit):
			out.full[n.Pool]++
		case pools[n.Pool].Blocking:
			out.closed[n.Pool]++
		default:
			out.pods += len(n.Pods)
			out.withoutController = append(out.withoutController, podsWithoutController(n)...)
			if len(n.Blockers) > 0 {
				waiting++
			}
		}
	}
	for _, r := range f.Removed {
		for _, n := range r.Nodes {
			if !isBlocked(n) {
				out.withoutController = append(out.withoutController, podsWithoutController(n)...)
			}
		}
	}
	out.unexplained = f.Rollout.Incomplete && out.count()+waiting == 0
	return out
}

// podsWithoutController are the node's pods that nothing makes again.
func podsWithoutController(n provision.Node) []provision.Pod {
	return slices.DeleteFunc(slices.Clone(n.Pods), func(p provision.Pod) bool { return !p.WithoutController })
}

// isBlocked reports whether something on the node blocks its disruption until somebody acts.
func isBlocked(n provision.Node) bool {
	return slices.ContainsFunc(n.Blockers, func(b provision.Blocker) bool { return requiresAction(b) && !atLimit(b) })
}

// requiresAction reports whether somebody must act before the node is replaced. Other than
// [provision.Node.Blocked] it passes over a node that is starting: it becomes ready,
// or Karpenter removes it.
func requiresAction(b provision.Blocker) bool {
	return b.ForcedAfterSeconds == 0 && b.Kind != blocker.Starting
}

// atLimit reports whether it is the pool's limit that keeps the node.
func atLimit(b provision.Blocker) bool { return b.Kind == blocker.Limit }

// waitingForReservation counts those of blocked that only a full capacity reservation blocks: their pods run on, and
// they are replaced as soon as an instance of it is available.
func (x nodeOutcomes) waitingForReservation() int {
	n := 0
	for _, b := range x.blocked {
		if !slices.ContainsFunc(b.Blockers, func(b provision.Blocker) bool { return requiresAction(b) && b.Kind != blocker.Reservation }) {
			n++
		}
	}
	return n
}

func (x nodeOutcomes) count() int { return len(x.blocked) + total(x.closed) + total(x.full) }

// in counts those of one pool.
func (x nodeOutcomes) in(pool string) int {
	n := x.closed[pool] + x.full[pool]
	for _, b := range x.blocked {
		if b.Pool == pool {
			n++
		}
	}
	return n
}

func total(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
