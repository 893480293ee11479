package prove

import (
	"context"
	"errors"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// caseSandbox is a sandbox in which cases run.
type caseSandbox struct {
	environment *sandbox.Environment
	// admin is the client of a person who may do everything.
	admin client.Client
}

func newCaseSandbox(environment *sandbox.Environment) (caseSandbox, error) {
	admin, err := client.New(environment.REST(), client.Options{Scheme: clientgoscheme.Scheme})
	return caseSandbox{environment, admin}, err
}

// sandboxesFor are sandboxes for that many cases which share one with no other. Where the first one is
// not taken, it is theirs, too.
func (p *prover) sandboxesFor(ctx context.Context, cases int, taken bool) ([]caseSandbox, error) {
	var out []caseSandbox
	desired := min(cases, max(1, p.Parallel))
	if desired > 0 && !taken {
		out = append(out, p.first)
	}
	for n := 0; len(out) < desired; n++ {
		if n == len(p.further) {
			environment, err := p.More(ctx)
			if err != nil {
				return nil, err
			}
			further, err := newCaseSandbox(environment)
			if p.further = append(p.further, further); err != nil {
				return nil, err
			}
		}
		out = append(out, p.further[n])
	}
	return out, nil
}

// stop ends the further sandboxes.
func (p *prover) stop() error {
	var errs []error
	for _, further := range p.further {
		errs = append(errs, further.environment.Stop())
	}
	return errors.Join(errs...)
}
