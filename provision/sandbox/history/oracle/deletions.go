package oracle

import (
	"fmt"

	"github.com/poolwright/poolwright/provision/sandbox/history"
)

// deletions follows each incarnation from who made it to who deletes it.
func deletions(records []history.Record) []Violation {
	d := deletionCheck{product: processes(records), ours: map[string]bool{}, kept: map[string]bool{}}
	for _, r := range records {
		if r.Event != nil {
			d.event(r.Event)
		} else {
			d.request(r)
		}
	}
	return d.out
}

// deletionCheck is what is known at one place of the history.
type deletionCheck struct {
	product map[string]bool
	// ours and kept are UIDs.
	ours, kept map[string]bool
	// current is what the newest commit declares; others, what those before it declared
	// that the process that runs may still be following.
	current map[history.Object]string
	others  []map[history.Object]string
	out     []Violation
}

func (d *deletionCheck) event(e *history.Event) {
	switch e.Kind {
	case history.Committed:
		if d.current != nil {
			d.others = append(d.others, d.current)
		}
		d.current = byObject(e.Declared)
	case history.Started:
		d.others = nil // it has read no commit yet
	case history.PruneDisabled:
		d.kept[e.UID] = true
	case history.ForeignCreated:
		delete(d.ours, e.UID)
	}
}

func (d *deletionCheck) request(r history.Record) {
	q := r.Request
	if !d.product[q.Client] || !q.Writes() || !q.Succeeded() {
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
	case q.Verb == "deletecollection":
		report("a whole collection")
	case d.kept[q.UID]:
		report("which a person had marked to be kept")
	case !d.ours[q.UID]:
		report("an incarnation that the product did not make")
	case d.declared(q.Object()):
		report("which every followed commit declares")
	}
}

// declared reports whether all commits that may be followed declare the object.
func (d *deletionCheck) declared(o history.Object) bool {
	for _, commit := range append(d.others, d.current) {
		if _, found := commit[o]; !found {
			return false
		}
	}
	return true
}
