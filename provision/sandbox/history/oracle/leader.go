package oracle

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/history"
)

// leader finds writes that a process began after another one had acquired the lease. A
// process that does not lead yet may write what every replica writes: its events, the CRDs
// and its attempts at the lease.
func leader(records []history.Record) []Violation {
	var out []Violation
	product := processes(records)
	// changes are the places where a process acquired the lease.
	type change struct {
		done    int
		process string
	}
	var changes []change
	for _, r := range records {
		q := r.Request
		if q == nil || !product[q.Client] || q.Holder == nil || *q.Holder == "" || !q.Writes() || !q.Succeeded() {
			continue
		}
		if len(changes) == 0 || changes[len(changes)-1].process != q.Client {
			changes = append(changes, change{r.Done, q.Client})
		}
	}
	for _, r := range records {
		q := r.Request
		if q == nil || !product[q.Client] || !q.Writes() || !q.Succeeded() || slices.Contains(anyReplica, q.Kind) {
			continue
		}
		held := ""
		for _, c := range changes {
			if c.done < r.N {
				held = c.process
			}
		}
		if held != q.Client {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s: %s %s while %q led", q.Client, q.Verb, q.Object(), held)})
		}
	}
	return out
}

var anyReplica = []string{
	"leases.coordination.k8s.io", "events", "events.events.k8s.io", "customresourcedefinitions.apiextensions.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io/status",
}
