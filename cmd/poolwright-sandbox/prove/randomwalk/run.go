package randomwalk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/fixture"
	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/process"
	"github.com/poolwright/poolwright/provision/sandbox/trace/oracle"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// Options are what a walk is.
type Options struct {
	// Product is the poolwright binary, Timeout bounds each wait for it.
	Product string
	Timeout time.Duration
	// Seed determines the operations; Kills is whether they kill the controller.
	Seed  uint64
	Kills bool
	// Duration and Steps bound the walk, which ends with a check; zero is no bound.
	Duration time.Duration
	Steps    int
	// Replay are operations to perform in place of the seed's; no other bound counts then.
	Replay []Operation
	// Bulk is how many more objects the repository declares, as in [fixture.Config].
	Bulk int
	// WarmUp is how long samples do not count for trends.
	WarmUp time.Duration
	// Progress receives a line for each operation and for each sample.
	Progress io.Writer
	// Traces is a folder for the trace of a walk that violates a rule; none is written
	// where it is empty.
	Traces string
}

// Report is what a walk has come to.
type Report struct {
	Seed  uint64 `json:"seed"`
	Kills bool   `json:"kills"`
	// Operations are all that were performed, up to the check that found a violation.
	Operations []Operation        `json:"operations"`
	Violations []oracle.Violation `json:"violations,omitempty"`
	// Checks is how many there were, and Seconds how long the walk took.
	Checks  int      `json:"checks"`
	Seconds float64  `json:"seconds"`
	Samples []Sample `json:"samples"`
	Trends  []Trend  `json:"trends"`
}

// Err is an error where a rule was violated.
func (r Report) Err() error {
	if len(r.Violations) == 0 {
		return nil
	}
	return fmt.Errorf("after %d operations, %d violations of rules, of which the first is %s: %s",
		len(r.Operations), len(r.Violations), r.Violations[0].Rule, r.Violations[0].Detail)
}

// run is a walk under way.
type run struct {
	Options
	walker  *walker
	sampler sampler
	begin   time.Time
	report  Report
}

// Run walks in a running sandbox until a bound or a violation. It returns an error where it
// could not; what the oracle found is in the report.
func Run(ctx context.Context, environment *sandbox.Environment, o Options) (Report, error) {
	return walk(ctx, environment, o, fmt.Sprintf("walk-%d", o.Seed))
}

// walk walks in a fixture of that name.
func walk(ctx context.Context, environment *sandbox.Environment, o Options, name string) (_ Report, err error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return Report{}, err
	}
	admin, err := client.New(environment.REST(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return Report{}, err
	}
	port := 0
	if err := process.WithPorts(func() error { return nil }, &port); err != nil {
		return Report{}, err
	}
	metrics := fmt.Sprintf("127.0.0.1:%d", port)
	s, err := fixture.New(ctx, fixture.Config{
		Environment: environment, Admin: admin, Product: o.Product, Timeout: o.Timeout, Bulk: o.Bulk, Arguments: []string{"--metrics-addr=" + metrics},
	}, name)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	r := run{Options: o, sampler: sampler{metrics, s.CacheDir()}, begin: time.Now(), report: Report{Seed: o.Seed, Kills: o.Kills}}
	if r.walker, err = newWalker(ctx, s); err == nil {
		err = r.all(ctx)
	}
	r.report.Seconds, r.report.Trends = time.Since(r.begin).Seconds(), Trends(r.report.Samples, o.WarmUp)
	if len(r.report.Violations) > 0 || err != nil {
		err = errors.Join(err, s.WriteTrace(o.Traces))
	}
	return r.report, err
}

// all performs operations until a bound or a violation. It begins and ends with a check.
func (r *run) all(ctx context.Context) error {
	if err := r.one(ctx, Operation{Do: Check}); err != nil {
		return err
	}
	next := r.replayed()
	if r.Replay == nil {
		next = r.generated()
	}
	last := Operation{Do: Check}
	for o := range next {
		if len(r.report.Violations) > 0 {
			return nil
		}
		if err := r.one(ctx, o); err != nil {
			return err
		}
		last = o
	}
	if last.Do == Check || len(r.report.Violations) > 0 {
		return nil
	}
	return r.one(ctx, Operation{Do: Check})
}

func (r *run) replayed() iter.Seq[Operation] { return slices.Values(r.Replay) }

// generated are the seed's operations, until a bound.
func (r *run) generated() iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		generator := NewGenerator(r.Seed, r.Kills)
		for n := 0; (r.Steps == 0 || n < r.Steps) && (r.Duration == 0 || time.Since(r.begin) < r.Duration); n++ {
			if !yield(generator.Next()) {
				return
			}
		}
	}
}

// one performs an operation.
func (r *run) one(ctx context.Context, o Operation) error {
	fmt.Fprintf(r.Progress, "%9s  %s\n", r.elapsed(), o)
	r.report.Operations = append(r.report.Operations, o)
	if err := r.walker.perform(ctx, o); err != nil {
		return fmt.Errorf("after %s, %s: %w", r.elapsed(), o, err)
	}
	if o.Do != Check {
		return pause(ctx, o.Pause)
	}
	r.report.Checks++
	if r.report.Violations = r.walker.violations(); len(r.report.Violations) > 0 {
		return nil
	}
	return r.sample(ctx)
}

func (r *run) elapsed() time.Duration { return time.Since(r.begin).Round(100 * time.Millisecond) }

// sample measures the controller, if it runs.
func (r *run) sample(ctx context.Context) error {
	pid, running := r.walker.fixture.Running()
	if !running {
		return nil
	}
	s, err := r.sampler.sample(ctx, pid)
	if err != nil {
		return err
	}
	s.At = time.Since(r.begin)
	r.report.Samples = append(r.report.Samples, s)
	line, err := json.Marshal(s)
	fmt.Fprintf(r.Progress, "%9s  %s\n", r.elapsed(), line)
	return err
}
