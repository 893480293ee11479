// Package prove runs scenarios of the product in a sandbox with a fault at every kind of
// request that they send, and has the oracle of provision/sandbox/trace check what
// happened. The first run of a scenario records its requests. Each distinct request and each
// kind of fault is a case, which runs in namespaces, with a repository and with a controller
// of its own: a request that changes something in each scenario, one that reads in one of
// them. A control switches one of the product's precautions off, so that the oracle
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

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/scenarios"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/trace"
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
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
	// More starts a further sandbox, for cases of scenarios that share one with no other.
	More func(context.Context) (*sandbox.Environment, error)
	// Controls has each control run as well: the precaution switched off, and the cases that must
	// find that.
	Controls bool
	// OnlyControls has nothing else run than the controls whose names the first expression of Select
	// matches.
	OnlyControls bool
	// Results is a file that keeps each result. What it has already is in the report, and is not
	// run again. None is kept where it is empty.
	Results string
	// Progress receives a line for each case.
	Progress io.Writer
	// Traces is a folder for the trace of each case; none is written where it is empty.
	Traces string
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
	return s.matches(0, c.Scenario) && s.matches(1, c.Fault) && s.matches(2, c.Point.String())
}

// prover runs the cases of one binary.
type prover struct {
	Options
	// prefix begins the names of its fixtures.
	prefix string
	// first is where scenarios run that share a sandbox, further where each case has one.
	first   caseSandbox
	further []caseSandbox
	results *results

	mu sync.Mutex
	// count is how many fixtures there were.
	count  int
	report Report
}

// Run runs the selected cases in a running sandbox. It returns an error where it could not
// run them; what the oracle found is in the report, with what there was in Options.Results.
func Run(ctx context.Context, environment *sandbox.Environment, o Options) (Report, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return Report{}, err
	}
	kept, err := openResults(o.Results, time.Now)
	if err != nil {
		return Report{}, err
	}
	var report Report
	if o.OnlyControls {
		report = kept.before
		report.observe()
	} else {
		report, err = run(ctx, environment, o, "p", kept)
	}
	if err == nil && (o.Controls || o.OnlyControls) {
		err = runControls(ctx, environment, o, kept, &report)
	}
	return report, errors.Join(err, kept.Close())
}

// run gives the fixtures of one binary names that begin with the prefix. kept is what was run
// before, and keeps what is run now.
func run(ctx context.Context, environment *sandbox.Environment, o Options, prefix string, kept *results) (Report, error) {
	first, err := newCaseSandbox(environment)
	if err != nil {
		return Report{}, err
	}
	p := &prover{Options: o, prefix: prefix, first: first, results: kept, count: len(kept.before.Results)}
	p.report.Results = slices.Clone(kept.before.Results)
	begin := time.Now()
	err = errors.Join(p.runAll(ctx), p.stop())
	p.report.Seconds = kept.before.Seconds + time.Since(begin).Seconds()
	p.report.observe()
	if len(p.report.Results) == 0 {
		err = errors.Join(err, errors.New("no case was selected"))
	}
	return p.report, err
}

// runAll records the scenarios, and runs what is to be run until nothing is left.
func (p *prover) runAll(ctx context.Context) error {
	for next := p.recordings(); ; {
		if err := p.runCases(ctx, next); err != nil {
			return err
		}
		if next = p.report.open(p.Select); len(next) == 0 {
			return nil
		}
	}
}

// recordings are the runs without a fault of the selected scenarios that have none yet. One
// that did not hold has no points, and is run again.
func (p *prover) recordings() []proveCase {
	var out []proveCase
	for _, c := range scenarios.All() {
		if p.Select.matches(0, c.Name) && p.report.recording(c.Name) == nil {
			out = append(out, proveCase{Scenario: c.Name, Fault: noFault})
		}
	}
	return out
}

// runCases runs cases: those of the scenarios that share a sandbox in the first one, and at the
// same time the others, each in a sandbox that has no other case at that time.
func (p *prover) runCases(ctx context.Context, all []proveCase) error {
	var shared, exclusive []proveCase
	for _, c := range all {
		if scenarioOf(c).Exclusive {
			exclusive = append(exclusive, c)
		} else {
			shared = append(shared, c)
		}
	}
	var workers sync.WaitGroup
	workers.Go(func() { p.work(ctx, slices.Repeat([]caseSandbox{p.first}, max(1, p.Parallel)), shared) })
	own, err := p.sandboxesFor(ctx, len(exclusive), len(shared) > 0)
	if err == nil {
		p.work(ctx, own, exclusive)
	}
	workers.Wait()
	return errors.Join(err, ctx.Err())
}

// work runs cases, one at a time in each of the sandboxes.
func (p *prover) work(ctx context.Context, sandboxes []caseSandbox, all []proveCase) {
	next := make(chan proveCase)
	var workers sync.WaitGroup
	for _, at := range sandboxes {
		workers.Go(func() {
			for c := range next {
				p.add(ctx, p.runCase(ctx, at, c))
			}
		})
	}
	for _, c := range all {
		if ctx.Err() != nil {
			break
		}
		next <- c
	}
	close(next)
	workers.Wait()
}

// add takes a result into the report, unless the end of the run cut it off.
func (p *prover) add(ctx context.Context, r Result) {
	if ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Results = slices.DeleteFunc(p.report.Results, func(old Result) bool { return old.Case == r.Case })
	p.report.Results = append(p.report.Results, r)
	slices.SortStableFunc(p.report.Results, func(a, b Result) int { return compareCases(a.Case, b.Case) })
	p.results.keep(record{Result: &r})
	fmt.Fprintln(p.Progress, r.line())
}

// fixtureName is a name that no other fixture has.
func (p *prover) fixtureName(c proveCase) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	place, _ := placeOf(c)
	return fmt.Sprintf("%s%d-%d", p.prefix, place, p.count)
}

// runCase runs one case in a fixture of its own.
func (p *prover) runCase(ctx context.Context, at caseSandbox, what proveCase) Result {
	begin, c := time.Now(), scenarioOf(what)
	r := Result{Case: what}
	s, err := fixture.New(ctx, fixture.Config{
		Environment: at.environment, Admin: at.admin, Product: p.Product, Timeout: p.Timeout, Account: c.Account, Exclusive: c.Exclusive,
	}, p.fixtureName(what))
	if err == nil {
		var points []point
		if points, err = runAndCheck(ctx, s, c, &r); what.Fault == noFault {
			r.Points = points
		}
		// The end of the run must not end the cleaning up.
		err = errors.Join(err, s.Close(context.WithoutCancel(ctx)), s.WriteTrace(p.Traces))
	}
	if err != nil {
		r.failed(err)
	}
	r.Seconds = time.Since(begin).Seconds()
	return r
}

// runAndCheck runs the case, and has the oracle check its trace.
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
		s.Tap.Record(trace.Event{Kind: trace.Stuck, Reason: late.Error()})
		err = nil
	}
	return errors.Join(err, s.End())
}
