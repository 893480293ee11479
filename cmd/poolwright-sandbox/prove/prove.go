// Package prove runs scenarios of the product in a sandbox with a fault at every kind of
// request that they send, and has the oracle of provision/sandbox/history check what
// happened. The first run of a scenario records its requests; each distinct request and each
// kind of fault is a case, which runs in namespaces, with a repository and with a controller
// of its own. A control switches one of the product's precautions off, so that the oracle
// must find it.
//
// A scenario is a file that scenarios lists, a control one that controls lists. Start
// reading at Run.
package prove

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/history"
	"github.com/poolwright/poolwright/provision/sandbox/history/oracle"
	"github.com/poolwright/poolwright/provision/sandbox/wiretap"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Options are what is proved, and how.
type Options struct {
	// Product is the poolwright binary.
	Product string
	// Timeout bounds each wait for the product.
	Timeout time.Duration
	// Select chooses the cases.
	Select Selection
	// Parallel is how many cases run at a time.
	Parallel int
	// Progress receives a line for each case.
	Progress io.Writer
	// Histories is a folder for the history of each case; none is written where it is empty.
	Histories string
}

// Selection chooses cases by regular expressions for their scenario, fault and point. A
// missing one matches all.
type Selection []*regexp.Regexp

// ParseSelection reads SCENARIO/FAULT/POINT, as go test reads -run.
func ParseSelection(text string) (Selection, error) {
	var out Selection
	for part := range strings.SplitSeq(text, "/") {
		if len(out) == 3 { // a kind may have a slash in it
			part = out[2].String() + "/" + part
			out = out[:2]
		}
		expression, err := regexp.Compile(part)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", text, err)
		}
		out = append(out, expression)
	}
	return out, nil
}

func (s Selection) matches(n int, text string) bool { return n >= len(s) || s[n].MatchString(text) }

func (s Selection) selects(c proveCase) bool {
	return s.matches(1, c.Fault) && s.matches(2, c.Point.String())
}

// prover runs the cases of one binary.
type prover struct {
	Options
	in fixture.Config

	mu     sync.Mutex
	report Report
}

// Run runs the selected cases in a running sandbox. It returns an error where it could not
// run them; what the oracle found is in the report.
func Run(ctx context.Context, environment *sandbox.Environment, o Options) (Report, error) {
	return run(ctx, environment, o, "p")
}

// run gives the fixtures of one binary names that begin with the prefix.
func run(ctx context.Context, environment *sandbox.Environment, o Options, prefix string) (Report, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return Report{}, err
	}
	hand, err := client.New(environment.REST(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return Report{}, err
	}
	p := &prover{Options: o, in: fixture.Config{Environment: environment, Admin: hand, Product: o.Product, Timeout: o.Timeout}}
	begin := time.Now()
	for i, c := range scenarios.All() {
		if !o.Select.matches(0, c.Name) {
			continue
		}
		if err := p.scenario(ctx, c, fmt.Sprintf("%s%d", prefix, i)); err != nil {
			return p.report, err
		}
	}
	p.report.Seconds = time.Since(begin).Seconds()
	if len(p.report.Results) == 0 {
		return p.report, errors.New("no case was selected")
	}
	return p.report, nil
}

// scenario records a scenario, and runs its cases.
func (p *prover) scenario(ctx context.Context, c scenarios.Scenario, prefix string) error {
	recorded := Result{Case: proveCase{Scenario: c.Name, Fault: noFault}}
	points := p.runCase(ctx, c, &recorded, prefix+"-0")
	p.add(recorded)
	if recorded.Outcome != Held {
		return ctx.Err() // without a run that succeeds there are no points
	}
	all := cases(c, points)
	p.report.Observed = append(p.report.Observed, all...)
	selected := slices.DeleteFunc(slices.Clone(all), func(c proveCase) bool { return !p.Select.selects(c) })
	next := make(chan int)
	var workers sync.WaitGroup
	parallel := max(1, p.Parallel)
	if c.Exclusive {
		parallel = 1
	}
	for range parallel {
		workers.Go(func() {
			for i := range next {
				r := Result{Case: selected[i]}
				p.runCase(ctx, c, &r, fmt.Sprintf("%s-%d", prefix, i+1))
				p.add(r)
			}
		})
	}
	for i := range selected {
		next <- i
	}
	close(next)
	workers.Wait()
	return ctx.Err()
}

// add takes a result into the report.
func (p *prover) add(r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Results = append(p.report.Results, r)
	slices.SortStableFunc(p.report.Results, func(a, b Result) int { return compareCases(a.Case, b.Case) })
	fmt.Fprintln(p.Progress, r.line())
}

// runCase runs one case in a fixture of its own, and returns the points that it met.
func (p *prover) runCase(ctx context.Context, c scenarios.Scenario, r *Result, name string) []point {
	begin := time.Now()
	defer func() { r.Seconds = time.Since(begin).Seconds() }()
	in := p.in
	in.Account, in.Exclusive = c.Account, c.Exclusive
	s, err := fixture.New(ctx, in, name)
	if err != nil {
		r.failed(err)
		return nil
	}
	points, err := runAndCheck(ctx, s, c, r)
	// The end of the run must not end the cleaning up.
	err = errors.Join(err, s.Close(context.WithoutCancel(ctx)), s.WriteHistory(p.Histories))
	if err != nil {
		r.failed(err)
	}
	return points
}

// runAndCheck runs the case, and has the oracle check its history.
func runAndCheck(ctx context.Context, s *fixture.Fixture, c scenarios.Scenario, r *Result) ([]point, error) {
	kind := faultOf(r.Case)
	if err := kind.prepare(s); errors.Is(err, errors.ErrUnsupported) {
		r.Outcome, r.Error = Skipped, err.Error()
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	begin, end, reached := 0, 0, false
	err := c.Prepare(ctx, s)
	if err == nil {
		begin = len(s.Tap.Records())
		reached, err = actWith(ctx, s, c, kind, r.Case.Point)
		end = len(s.Tap.Records())
	}
	if err := finish(ctx, s, c, err); err != nil {
		return nil, err
	}
	r.Cost = s.AWS.Spend(time.Now())
	r.Violations = oracle.Check(s.Tap.Records())
	switch {
	case len(r.Violations) > 0:
		r.Outcome = Violated
	case !reached:
		r.Outcome = NotReached
	default:
		r.Outcome = Held
	}
	return pointsOf(s, s.Tap.Records()[begin:end]), nil
}

// faultOf is the kind of fault of a case, with nothing left out; the recording run has none.
func faultOf(c proveCase) faultKind {
	var f faultKind
	for _, known := range faultKinds() {
		if known.name == c.Fault {
			f = known
		}
	}
	if f.prepare == nil {
		f.prepare = func(*fixture.Fixture) error { return nil }
	}
	if f.then == nil {
		f.then = func(context.Context, *fixture.Fixture) error { return nil }
	}
	return f
}

// actWith has the scenario act and converge while the fault happens, and returns whether it did.
func actWith(ctx context.Context, s *fixture.Fixture, c scenarios.Scenario, kind faultKind, at point) (reached bool, err error) {
	met := func() bool { return true }
	if kind.fault != nil {
		fault := kind.fault(ctx, s)
		if fault.At == (wiretap.Point{}) {
			fault.At, fault.Nth = at.in(s), at.Nth
		}
		met = s.Tap.Arm(fault).Disarm
	}
	if c.Meanwhile != nil {
		s.Meanwhile(func(ctx context.Context) error { return c.Meanwhile(ctx, s) })
	}
	err = c.Act(ctx, s)
	if err == nil {
		err = kind.then(ctx, s)
	}
	if err == nil {
		err = converge(ctx, s, c)
	}
	return met(), err
}

// converge waits until what the scenario began has come to its end.
func converge(ctx context.Context, s *fixture.Fixture, c scenarios.Scenario) error {
	if c.Converge != nil {
		return c.Converge(ctx, s)
	}
	return s.Converge(ctx)
}

// finish records how the case ended; err is that of waiting for the product.
func finish(ctx context.Context, s *fixture.Fixture, c scenarios.Scenario, err error) error {
	if err == nil && c.Converge == nil {
		err = s.Run(ctx) // which has nothing to do
	}
	if err == nil {
		err = s.Observe(ctx)
	}
	if late, ok := errors.AsType[*fixture.TimeoutError](err); ok {
		s.Tap.Record(history.Event{Kind: history.Stuck, Reason: late.Error()})
		err = nil
	}
	return errors.Join(err, s.End())
}
