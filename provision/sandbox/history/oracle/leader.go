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
	transitions := leaseTransitions(records, product)
	for _, r := range records {
		q := r.Request
		if !wrote(q, product) || slices.Contains(anyReplica, q.Kind) {
			continue
		}
		holder := ""
		for _, t := range transitions {
			if t.done < r.N {
				holder = t.client
			}
		}
		if holder != q.Client {
			out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s: %s %s while %q led", q.Client, q.Verb, q.Object(), holder)})
		}
	}
	return out
}

// leaseTransition is a change of the lease's holder.
type leaseTransition struct {
	done   int // Done of the request that acquired the lease
	client string
}

// leaseTransitions are where a process of the product acquired the lease from another one, in order.
func leaseTransitions(records []history.Record, product map[string]bool) []leaseTransition {
	var all []leaseTransition
	for _, r := range records {
		q := r.Request
		if !wrote(q, product) || q.Holder == nil || *q.Holder == "" {
			continue
		}
		if len(all) == 0 || all[len(all)-1].client != q.Client {
			all = append(all, leaseTransition{r.Done, q.Client})
		}
	}
	return all
}

// wrote reports whether a request is a write of the product that succeeded.
func wrote(q *history.Request, product map[string]bool) bool {
	return q != nil && product[q.Client] && q.Writes() && q.Succeeded()
}

var anyReplica = []string{
	"leases.coordination.k8s.io", "events", "events.events.k8s.io", "customresourcedefinitions.apiextensions.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io/status",
}
