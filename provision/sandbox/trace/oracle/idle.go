package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// routine are the kinds that a process writes although nothing is to be done: its lease, its
// events, that it has handled a request for a run, and when it has read AWS. The last is in the
// status of a Cluster, of which every run writes the time: what the status lists is worth as much as
// it is new, so that a person must be able to read its age, also while nothing differs.
var routine = []string{
	"leases.coordination.k8s.io", "events", "events.events.k8s.io", "syncs.poolwright.dev/status", "clusters.poolwright.dev/status",
}

// historyKind is the history of a cluster. It records what was applied some seconds later, and, while nodes run, what they
// cost every few minutes.
const historyKind = "configmaps/history"

// A process writes the history once every five seconds at most, save what was pending when all was as declared: the last
// writes of a few terminations, each of up to eight ConfigMaps.
const (
	historyBurst    = 10
	historyInterval = 4 * time.Second
)

// idle finds writes between the report that all is as declared and the next commit.
func idle(records []trace.Record) []Violation {
	var out []Violation
	product, converged := processes(records), false
	var since time.Time
	histories := map[string]int{}
	for _, r := range records {
		if e := r.Event; e != nil {
			switch e.Kind {
			case trace.Converged:
				converged, since = true, r.Begin
				clear(histories)
			case trace.Committed, trace.SyncDeleted, trace.Proposed, trace.Started, trace.PruneDisabled, trace.ForeignCreated, trace.Edited:
				converged = false
			}
			continue
		}
		q := r.Request
		if !converged || !product[q.Client] || !q.Writes() || slices.Contains(routine, q.Kind) {
			continue
		}
		if q.Kind != historyKind {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s %s although all was as declared", q.Verb, q.Object())})
			continue
		}
		elapsed := r.Begin.Sub(since)
		histories[q.Client]++
		if n := histories[q.Client]; n > historyBurst+int(elapsed/historyInterval) {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s %s, %d times in %s, although all was as declared", q.Verb, q.Object(), n, elapsed.Round(time.Second))})
		}
	}
	return out
}
