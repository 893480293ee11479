package oracle

import (
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// renewDeadline is how long a holder of the lease acts on it after it has renewed it, where
// no response reports that the lease is gone.
const renewDeadline = 10 * time.Second

// leader finds writes that a process began after it had given the lease back, or after
// another one had acquired it. A process that does not lead yet may write what every replica
// writes: its events, the CRDs and its attempts at the lease.
func leader(records []trace.Record) []Violation {
	var out []Violation
	product := processes(records)
	transitions := leaseTransitions(records, product)
	for _, r := range records {
		q := r.Request
		if !wrote(q, product) || slices.Contains(anyReplica, q.Kind) {
			continue
		}
		var now leaseTransition
		for _, t := range transitions {
			if t.done < r.N {
				now = t
			}
		}
		if now.client != q.Client && !(now.former == q.Client && r.Begin.Before(now.until)) {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s: %s %s while %q led", q.Client, q.Verb, q.Object(), now.client)})
		}
	}
	return out
}

// leaseTransition is a change of the lease's holder.
type leaseTransition struct {
	done   int    // Done of the request that acquired the lease, or gave it back
	client string // empty where nobody holds it
	// former held a lease that a person deleted, and may act on it until then.
	former string
	until  time.Time
}

// leaseTransitions are where a process of the product acquired the lease from another one, or
// gave it back, in order.
func leaseTransitions(records []trace.Record, product map[string]bool) []leaseTransition {
	var all []leaseTransition
	var now leaseTransition
	for _, r := range records {
		if e := r.Event; e != nil && e.Kind == trace.LeaseDeleted {
			now.former, now.until = now.client, r.Begin.Add(renewDeadline)
		}
		q := r.Request
		if !wrote(q, product) || q.Holder == nil {
			continue
		}
		client := q.Client
		if *q.Holder == "" {
			client = ""
		}
		if client != now.client {
			now.done, now.client = r.Done, client
			all = append(all, now)
		}
	}
	return all
}

// wrote reports whether a request is a write of the product that succeeded.
func wrote(q *trace.Request, product map[string]bool) bool {
	return q != nil && product[q.Client] && q.Writes() && q.Succeeded()
}

var anyReplica = []string{
	"leases.coordination.k8s.io", "events", "events.events.k8s.io", "customresourcedefinitions.apiextensions.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io/status",
}
