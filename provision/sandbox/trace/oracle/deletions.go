package oracle

import (
	"fmt"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

const pods = "pods"

// deletions follows each incarnation from who made it to who deletes it.
func deletions(records []trace.Record) []Violation {
	d := deletionCheck{product: processes(records), ours: map[string]bool{}, kept: map[string]bool{}, costly: map[string]bool{}, since: map[string]int{}, evictable: map[string]bool{}}
	for _, r := range records {
		if r.Event != nil {
			d.event(r.Event)
		} else {
			d.request(r)
		}
	}
	return d.out
}

// deletionCheck is what is known at one place of the trace.
type deletionCheck struct {
	product map[string]bool
	// ours, kept and costly are UIDs; with the costly ones something goes that nobody gave up.
	ours, kept, costly map[string]bool
	// commits are what was declared, in order. A process may still follow any of those since
	// the one that was the newest when it began.
	commits []map[trace.Object]string
	since   map[string]int
	// evictable are the namespaces whose pods may be deleted.
	evictable map[string]bool
	out       []Violation
}

func (d *deletionCheck) event(e *trace.Event) {
	switch e.Kind {
	case trace.Committed, trace.SyncDeleted:
		d.commits = append(d.commits, byObject(e.Declared))
	case trace.Started:
		d.since[e.Client] = max(0, len(d.commits)-1) // it has read no earlier one
	case trace.PruneDisabled:
		d.kept[e.UID] = true
	case trace.LossAdded:
		d.costly[e.UID] = true
	case trace.ForeignCreated:
		delete(d.ours, e.UID)
	case trace.AppliedBefore:
		d.ours[e.UID] = true
	case trace.DisruptionAllowed:
		d.evictable[e.Object.Namespace] = e.Object.Kind == pods || d.evictable[e.Object.Namespace]
	}
}

func (d *deletionCheck) request(r trace.Record) {
	q := r.Request
	if q.Wire != trace.Kubernetes || !d.product[q.Client] || !q.Writes() || !q.Succeeded() {
		return
	}
	if q.Verb != "delete" && q.Verb != "deletecollection" {
		if q.UID != "" {
			d.ours[q.UID] = true
		}
		return
	}
	report := func(why string) {
		d.out = append(d.out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("deletes %s (UID %s), %s", q.Object(), q.UID, why)})
	}
	switch {
	case d.madeByOthers(q):
	case q.Verb == "deletecollection":
		report("a whole collection")
	case d.kept[q.UID]:
		report("which a person had marked to be kept")
	case d.costly[q.UID]:
		report("with which something goes that nobody confirmed")
	case !d.ours[q.UID]:
		report("an incarnation that the product did not make")
	case d.declared(q.Client, q.Object()):
		report("which every followed commit declares")
	}
}

// madeByOthers reports whether a request deletes what may be deleted although the product did not make it: a
// kubelet's node, since the rule of terminations is about its instance, or a pod of a DaemonSet, which makes another.
func (d *deletionCheck) madeByOthers(q *trace.Request) bool {
	return q.Kind == "nodes" || q.Kind == pods && q.Verb == "delete" && d.evictable[q.Namespace]
}

// declared reports whether all commits that a process may follow declare the object. Where there
// is no commit, nothing is declared.
func (d *deletionCheck) declared(client string, o trace.Object) bool {
	if len(d.commits) == 0 {
		return false
	}
	for _, commit := range d.commits[d.since[client]:] {
		if _, found := commit[o]; !found {
			return false
		}
	}
	return true
}
