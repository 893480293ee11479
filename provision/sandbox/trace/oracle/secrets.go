package oracle

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

// secrets finds requests of the product with a planted secret on a wire that is not the
// secret's own.
func secrets(records []trace.Record) []Violation {
	var out []Violation
	product, own := processes(records), map[string][]trace.Wire{}
	for _, r := range records {
		if e := r.Event; e != nil {
			if e.Kind == trace.SecretAdded {
				own[e.Secret] = e.Wires
			}
			continue
		}
		q := r.Request
		if !product[q.Client] {
			continue
		}
		for _, name := range q.Secrets {
			if !slices.Contains(own[name], q.Wire) {
				out = append(out, Violation{N: []int{r.N}, Detail: fmt.Sprintf("%s is in a request: %s %s on %s", name, q.Verb, q.Kind, q.Wire)})
			}
		}
	}
	return out
}
