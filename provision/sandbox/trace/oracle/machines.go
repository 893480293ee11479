package oracle

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// collected is how long an instance without a NodeClaim may live: Karpenter ends one that is
// older than half a minute, every ten seconds after a start.
const collected = time.Minute

// young is how long an instance is left alone that no NodeClaim names: its NodeClaim may be
// about to.
const young = 30 * time.Second

// launched is one instance, from the requests about it.
type launched struct {
	id string
	// claim is the NodeClaim whose status names it, empty as long as none does.
	claim string
	// begin is when EC2 had launched it, end when its termination was requested; zero where it
	// was not.
	begin, end time.Time
	// n are the requests that launched and ended it.
	n []int
}

// launches are the instances that the product launched, in order. visit, if any, is called
// for each request that succeeded, with what was known before it.
func launches(records []trace.Record, visit func(trace.Record, map[string]*launched)) []*launched {
	byID := map[string]*launched{}
	var out []*launched
	for _, r := range records {
		q := r.Request
		if q == nil || !q.Writes() || !q.Succeeded() {
			continue
		}
		if visit != nil {
			visit(r, byID)
		}
		for _, id := range q.Instances {
			i := byID[id]
			switch {
			case q.Wire == trace.AWS && q.Verb == "CreateFleet" && i == nil:
				byID[id] = &launched{id: id, begin: r.End, n: []int{r.N}}
				out = append(out, byID[id])
			case i == nil:
			case q.Wire == trace.AWS && q.Verb == "TerminateInstances" && i.end.IsZero():
				i.end, i.n = r.Begin, append(i.n, r.N)
			case q.Wire == trace.Kubernetes:
				i.claim = q.Name
			}
		}
	}
	return out
}

// terminations finds instances that were ended although their NodeClaim was there, and
// NodeClaims with an instance that were deleted although nobody allowed a disruption.
func terminations(records []trace.Record) []Violation {
	var out []Violation
	allowed, deleted := allowances(records), map[string]bool{}
	product := processes(records)
	launches(records, func(r trace.Record, instances map[string]*launched) {
		q := r.Request
		report := func(detail string) { out = append(out, Violation{N: []int{r.N}, Detail: detail}) }
		switch {
		case q.Wire == trace.Kubernetes && q.Verb == "delete" && q.Kind == nodeClaims:
			deleted[q.Name] = true
			has := slices.ContainsFunc(slices.Collect(maps.Values(instances)), func(i *launched) bool { return i.claim == q.Name && i.end.IsZero() })
			if why := allowed(r.N, q.Name); product[q.Client] && has && why != "" {
				report(fmt.Sprintf("deletes the NodeClaim %s, which has an instance, although %s", q.Name, why))
			}
		case q.Wire == trace.AWS && q.Verb == "TerminateInstances":
			for _, id := range q.Instances {
				if detail := unexpectedEnd(id, instances[id], r.Begin, deleted); detail != "" {
					report(detail)
				}
			}
		}
	})
	return out
}

// unexpectedEnd is what is wrong with the end of an instance at that time, empty where nothing is.
func unexpectedEnd(id string, i *launched, at time.Time, deleted map[string]bool) string {
	switch {
	case i == nil:
		return fmt.Sprintf("ends %s, which the product did not launch", id)
	case i.claim != "" && deleted[i.claim]:
		return ""
	case i.claim != "":
		return fmt.Sprintf("ends %s, whose NodeClaim %s was not deleted", id, i.claim)
	case at.Sub(i.begin) < young:
		return fmt.Sprintf("ends %s after %s, before a NodeClaim could name it", id, at.Sub(i.begin).Round(time.Second))
	}
	return ""
}

const (
	nodeClaims = "nodeclaims.karpenter.sh"
	nodePools  = "nodepools.karpenter.sh"
)

// allowances returns, for a place and a NodeClaim, why it must not be disrupted there; empty where it
// may be.
func allowances(records []trace.Record) func(n int, claim string) string {
	return func(n int, claim string) string {
		allowed, used := false, false
		for _, r := range records {
			if r.Event == nil || r.N >= n {
				continue
			}
			ofClaim := r.Event.Object == trace.Object{Kind: nodeClaims, Name: claim}
			switch r.Event.Kind {
			case trace.DisruptionAllowed:
				allowed = allowed || ofClaim || r.Event.Object.Kind == nodePools
			case trace.PodBound:
				used = used || ofClaim
			case trace.PodDeleted:
				used = used && !ofClaim
			}
		}
		switch {
		case !allowed:
			return "nobody allowed a disruption"
		case used:
			return "a pod uses its node"
		}
		return ""
	}
}

// machines finds NodeClaims that had two instances for too long, instances that lived for too
// long without one, and what is left over in the end.
func machines(records []trace.Record) []Violation {
	if len(records) == 0 {
		return nil
	}
	var out []Violation
	now := records[len(records)-1].Begin
	gone := map[string]trace.Record{}
	all := launches(records, func(r trace.Record, _ map[string]*launched) {
		if r.Request.Kind == nodeClaims && r.Request.Gone {
			gone[r.Request.Name] = r
		}
	})
	for n, i := range all {
		if i.end.IsZero() {
			i.end = now
		}
		for _, other := range all[:n] {
			if both := earlier(i.end, other.end).Sub(i.begin); i.claim != "" && i.claim == other.claim && both > collected {
				out = append(out, Violation{N: slices.Concat(other.n, i.n), Detail: fmt.Sprintf("the NodeClaim %s had both %s and %s for %s", i.claim, other.id, i.id, both.Round(time.Second))})
			}
		}
		alone := i.begin
		if i.claim != "" {
			without, found := gone[i.claim]
			if !found {
				continue
			}
			alone = without.End
		}
		if lived := i.end.Sub(alone); lived > collected {
			out = append(out, Violation{N: i.n, Detail: fmt.Sprintf("%s lived for %s without a NodeClaim", i.id, lived.Round(time.Second))})
		}
	}
	return append(out, leftOver(records)...)
}

// leftOver finds machines that are in part there when all has ended.
func leftOver(records []trace.Record) []Violation {
	var out []Violation
	for _, r := range records {
		if r.Event == nil || r.Event.Kind != trace.Observed {
			continue
		}
		for _, o := range r.Event.Unowned {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s has no owner", o)})
		}
		for _, m := range r.Event.Machines {
			if m.NodeClaim == "" || m.Instance == "" || m.Node == "" {
				out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("of a machine there is NodeClaim %q, instance %q, node %q", m.NodeClaim, m.Instance, m.Node)})
			}
		}
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// unavailableFor is how long an offering is left alone that EC2 had no capacity for; Karpenter
// counts three minutes from a moment after EC2's response.
const unavailableFor = 3*time.Minute - time.Second

// launching is how long a launch may be under way that was computed before EC2's response to
// another: several begin at the same time, and each is sent when its batch of requests closes.
const launching = time.Second

// unavailableOfferings finds launches that request what the same process was refused shortly before.
func unavailableOfferings(records []trace.Record) []Violation {
	type of struct{ client, offering string }
	refused := map[of]trace.Record{}
	var out []Violation
	for _, r := range records {
		q := r.Request
		if q == nil || len(q.Offerings) == 0 {
			continue
		}
		for _, o := range q.Offerings {
			before, found := refused[of{q.Client, o}]
			if since := r.Begin.Sub(before.End); found && r.N > before.Done && since >= launching && since < unavailableFor {
				out = append(out, Violation{N: []int{before.N, r.N}, Detail: fmt.Sprintf("requests %s %s after there was no capacity", o, since.Round(time.Second))})
			}
		}
		for _, o := range slices.Sorted(slices.Values(q.Refused)) {
			refused[of{q.Client, o}] = r
		}
	}
	return out
}
