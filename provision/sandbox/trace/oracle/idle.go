package oracle

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// routine are the kinds that a process writes although nothing is to be done: its lease, its
// events, that it has handled a request for a run, and when it has read AWS. The last is in the
// status of a Cluster, of which every run writes the time: what the status lists is worth as much as
// it is new, so that a person must be able to read its age, also while nothing differs. Its history records
// what was applied some seconds later, and, while nodes run, what they cost every few minutes.
var routine = []string{
	"leases.coordination.k8s.io", "events", "events.events.k8s.io", "syncs.poolwright.dev/status", "clusters.poolwright.dev/status",
	"configmaps/history",
}

// idle finds writes between the report that all is as declared and the next commit.
func idle(records []trace.Record) []Violation {
	var out []Violation
	product, converged := processes(records), false
	for _, r := range records {
		if e := r.Event; e != nil {
			switch e.Kind {
			case trace.Converged:
				converged = true
			case trace.Committed, trace.SyncDeleted, trace.Proposed, trace.Started, trace.PruneDisabled, trace.ForeignCreated, trace.Edited:
				converged = false
			}
			continue
		}
		q := r.Request
		if converged && product[q.Client] && q.Writes() && !slices.Contains(routine, q.Kind) {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s %s although all was as declared", q.Verb, q.Object())})
		}
	}
	return out
}
