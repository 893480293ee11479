package benchmark

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/provision/sandbox"
)

// newBench starts a sandbox, and the product in it.
func newBench(b *testing.B) (*Environment, *Poolwright) {
	b.Helper()
	log.SetLogger(logr.Discard())
	product := filepath.Join(b.TempDir(), "poolwright")
	build := exec.CommandContext(b.Context(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", product, "../../poolwright")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building the product: %v\n%s", err, out)
	}
	running, err := sandbox.Start(b.Context(), sandbox.DefaultConfig())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := running.Stop(); err != nil {
			b.Error(err)
		}
	})
	e, err := NewEnvironment(b.Context(), running)
	if err != nil {
		b.Fatal(err)
	}
	return e, &Poolwright{Environment: e, Product: product, Namespace: "poolwright-system"}
}

// The bounds of BenchmarkOneChangeInGit, as ratios of processor time within one run: machines differ, and
// are busy with other work.
const (
	// maxChange is what a commit with one changed object takes, of what the first apply of all takes. Measured is
	// 0.25 with 2,000 objects, and 0.12 with 10,000.
	maxChange = 0.3
	// maxNoChange is the same of a run that finds no difference. Measured is 0.07, and 0.06.
	maxNoChange = 0.1
	// maxFirstApply is how much longer a first apply takes than a bare one. Measured is 1.1 to 1.3 with 2,000
	// objects, and 1.0 with 10,000, which depends on what else the machine does.
	maxFirstApply = 1.6
)

// BenchmarkOneChangeInGit measures the whole controller from a request to read Git until its status
// reports that what was found there is applied.
func BenchmarkOneChangeInGit(b *testing.B) {
	e, p := newBench(b)
	for _, n := range []int{2000, 10_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			var bare time.Duration
			round := Round{}
			for b.Loop() {
				r, _, err := e.NewRepository(b.Context(), n)
				if err != nil {
					b.Fatal(err)
				}
				took, err := e.ApplyBare(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				measured, err := e.Round(b.Context(), p.System(), n)
				if err != nil {
					b.Fatal(err)
				}
				bare += took
				for name, all := range measured {
					round[name] = append(round[name], all...)
				}
			}
			cpu := func(o Operation) float64 {
				return NewStatistics(round[o], func(u Usage) float64 { return u.CPU.Seconds() }).Median
			}
			for _, o := range Operations() {
				b.ReportMetric(seconds(round[o]), "s-"+string(o))
				b.ReportMetric(cpu(o), "cpu-s-"+string(o))
				b.ReportMetric(NewStatistics(round[o], func(u Usage) float64 { return float64(u.Requests) }).Median, "requests-"+string(o))
				b.ReportMetric(NewStatistics(round[o], func(u Usage) float64 { return float64(u.Private) / (1 << 20) }).Max, "MiB-private-"+string(o))
				b.ReportMetric(NewStatistics(round[o], func(u Usage) float64 { return float64(u.Peak) / (1 << 20) }).Max, "MiB-resident-"+string(o))
			}
			for name, ratio := range map[string]struct{ is, most float64 }{
				"one-change/first-apply": {cpu(OneChange) / cpu(FirstApply), maxChange},
				"no-change/first-apply":  {cpu(NoChange) / cpu(FirstApply), maxNoChange},
				"first-apply/bare":       {seconds(round[FirstApply]) / (bare.Seconds() / float64(b.N)), maxFirstApply},
			} {
				b.ReportMetric(ratio.is, name)
				if ratio.is > ratio.most {
					b.Errorf("%s is %.2f, more than %.2f", name, ratio.is, ratio.most)
				}
			}
		})
	}
}
