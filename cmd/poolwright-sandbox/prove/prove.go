// Package prove plays scenarios of the product in a sandbox with a fault at every kind of
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

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/history"
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
	environment *sandbox.Environment
	hand        client.Client
	// series distinguishes the stages of several runs in one environment.
	series string

	mu     sync.Mutex
	report Report
}

// Run plays the selected cases in a running sandbox. It returns an error where it could not
// play them; what the oracle found is in the report.
func Run(ctx context.Context, environment *sandbox.Environment, o Options) (Report, error) {
	return run(ctx, environment, o, "p")
}

func run(ctx context.Context, environment *sandbox.Environment, o Options, series string) (Report, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return Report{}, err
	}
	hand, err := client.New(environment.REST(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return Report{}, err
	}
	p := &prover{Options: o, environment: environment, hand: hand, series: series}
	begin := time.Now()
	for i, c := range scenarios() {
		if !o.Select.matches(0, c.name) {
			continue
		}
		if err := p.scenario(ctx, c, fmt.Sprintf("%s%d", series, i)); err != nil {
			return p.report, err
		}
	}
	p.report.Seconds = time.Since(begin).Seconds()
	if len(p.report.Results) == 0 {
		return p.report, errors.New("no case was selected")
	}
	return p.report, nil
}

// scenario records a scenario, and plays its cases.
func (p *prover) scenario(ctx context.Context, c scenario, prefix string) error {
	recorded := Result{Case: proveCase{Scenario: c.name, Fault: noFault}}
	points := p.play(ctx, c, &recorded, prefix+"-0")
	p.add(recorded)
	if recorded.Outcome != Held {
		return ctx.Err() // without a run that succeeds there are no points
	}
	all := cases(c.name, points)
	p.report.Observed = append(p.report.Observed, all...)
	selected := slices.DeleteFunc(slices.Clone(all), func(c proveCase) bool { return !p.Select.selects(c) })
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, p.Parallel) {
		workers.Go(func() {
			for i := range next {
				r := Result{Case: selected[i]}
				p.play(ctx, c, &r, fmt.Sprintf("%s-%d", prefix, i+1))
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

// play runs one case in a stage of its own, and returns the points that it met.
func (p *prover) play(ctx context.Context, c scenario, r *Result, name string) []point {
	begin := time.Now()
	defer func() { r.Seconds = time.Since(begin).Seconds() }()
	s, err := newStage(ctx, p.Options, p.environment, p.hand, name)
	if err != nil {
		r.failed(err)
		return nil
	}
	points, err := s.play(ctx, c, r)
	// The end of the run must not end the cleaning up.
	err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
	if err != nil {
		r.failed(err)
	}
	if err := p.keepHistory(*r, s); err != nil {
		r.failed(err)
	}
	return points
}

// play runs the case, and has the oracle check its history.
func (s *stage) play(ctx context.Context, c scenario, r *Result) ([]point, error) {
	if c.prepare != nil {
		if err := c.prepare(ctx, s); err != nil {
			return nil, err
		}
	}
	begin := len(s.tap.Records())
	met := func() bool { return true }
	for _, f := range faultKinds() {
		if f.name == r.Case.Fault {
			fault := f.fault(ctx, s)
			fault.At = r.Case.Point.in(s)
			met = s.tap.Arm(fault).Disarm
		}
	}
	if c.meanwhile != nil {
		s.life.meanwhile = func(ctx context.Context) error { return c.meanwhile(ctx, s) }
	}
	err := c.act(ctx, s)
	if err == nil {
		err = s.converge(ctx)
	}
	reached := met()
	end := len(s.tap.Records())
	var late *timeoutError
	switch {
	case errors.As(err, &late):
		s.tap.Record(history.Event{Kind: history.Stuck, Reason: late.Error()})
	case err != nil:
		return nil, err
	default:
		// A further run has nothing to do.
		err := s.run(ctx)
		if err == nil {
			err = s.observe(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	r.Violations = history.Check(s.tap.Records())
	switch {
	case len(r.Violations) > 0:
		r.Outcome = Violated
	case !reached:
		r.Outcome = NotReached
	default:
		r.Outcome = Held
	}
	return pointsOf(s, s.tap.Records()[begin:end]), nil
}
