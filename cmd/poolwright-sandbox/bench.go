package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/benchmark"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// benchCommand is the user's input.
type benchCommand struct {
	poolwright, flux, karpenter, versions, page, results string
	objects                                              []int
	rounds, nodeRounds, together                         int
	maxLoad                                              float64
}

func newBench() *cobra.Command {
	var b benchCommand
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Poolwright beside Flux and Karpenter in sandboxes, and write docs/performance.md",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&b.poolwright, "poolwright", "", "the poolwright binary (default: the one beside this program)")
	flags.StringVar(&b.flux, "flux", "", "a folder with source-controller, kustomize-controller and their CRDs in crds; make bench-compare builds it (default: Poolwright alone is measured)")
	flags.StringVar(&b.karpenter, "karpenter", "", "the controller of a stock Karpenter; make bench-compare builds it (default: no nodes are measured)")
	flags.StringVar(&b.versions, "versions", "", "what the page has of the versions of what is measured")
	flags.StringVar(&b.page, "page", "", "the page to write (default: to the standard output)")
	flags.StringVar(&b.results, "results", "", "a file with what was measured: a run of the same versions goes on with the rounds that are missing, and one of other versions is refused (default: each run begins anew)")
	flags.IntSliceVar(&b.objects, "objects", []int{200, 2000}, "with how many objects; none with 0")
	flags.IntVar(&b.rounds, "rounds", 5, "how often each is measured")
	flags.IntVar(&b.nodeRounds, "node-rounds", 5, "how often the life of a node is measured; 0 measures no nodes")
	flags.IntVar(&b.together, "together", 20, "how many nodes become empty together, in one of the rounds; 0 measures that of no nodes")
	flags.Float64Var(&b.maxLoad, "max-load", 0, "begin no run while the load average of the last minute is more than that (default: rounds that begin with more than the processors are marked)")
	return cmd
}

//go:embed bench_head.md
var benchHead string

//go:embed bench_foot.md
var benchFoot string

func (b *benchCommand) run(cmd *cobra.Command) error {
	log.SetLogger(logr.Discard()) // clients of the sandbox log nothing of their own
	binary, err := product(b.poolwright)
	if err != nil {
		return err
	}
	if average, err := benchmark.Load(); b.maxLoad > 0 && (err != nil || average > b.maxLoad) {
		return errors.Join(fmt.Errorf("the load average is %.2f, more than --max-load=%.2f: wait until other work has ended", average, b.maxLoad), err)
	}
	page, err := b.begun()
	if err != nil {
		return err
	}
	if err := b.measureNodes(cmd, binary, page); err != nil {
		return err
	}
	if err := b.measureObjects(cmd, binary, page); err != nil {
		return err
	}
	if err := b.write(page); err != nil {
		return err
	}
	if b.page == "" {
		return page.Write(cmd.OutOrStdout())
	}
	return nil
}

// begun is the page of an earlier run, or a new one where there is none. Results of another machine or of other versions are an error:
// measuring takes long, and they would be lost.
func (b *benchCommand) begun() (*benchmark.Page, error) {
	fresh := &benchmark.Page{Machine: machine(), Versions: b.versions, Processors: runtime.NumCPU(), Head: benchHead, Foot: benchFoot}
	if b.results == "" {
		return fresh, nil
	}
	text, err := os.ReadFile(b.results)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the results: %w", err)
	}
	earlier := &benchmark.Page{Head: benchHead, Foot: benchFoot}
	if err := json.Unmarshal(text, earlier); err != nil {
		return nil, fmt.Errorf("reading the results in %s: %w", b.results, err)
	}
	if earlier.Machine != fresh.Machine || earlier.Versions != fresh.Versions {
		return nil, fmt.Errorf("%s has the results of %s on %s, which a run of %s on %s would replace: delete or move that file to begin anew",
			b.results, earlier.Versions, earlier.Machine, fresh.Versions, fresh.Machine)
	}
	return earlier, nil
}

// measureNodes adds the rounds about nodes that are missing, with a sandbox for each system.
func (b *benchCommand) measureNodes(cmd *cobra.Command, binary string, page *benchmark.Page) (err error) {
	if b.karpenter == "" || b.nodeRounds == 0 || page.Nodes != nil && len(page.Nodes.Load) >= b.nodeRounds {
		return nil
	}
	var systems []benchmark.NodeSystem
	for _, name := range []string{"Poolwright", "Karpenter"} {
		environment, stop, err := b.environment(cmd, benchmark.NodeConfig())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		var processes benchmark.Processes = &benchmark.StockKarpenter{Environment: environment, Binary: b.karpenter}
		if name == "Poolwright" {
			processes = &benchmark.PoolwrightEngine{Poolwright: benchmark.Poolwright{Environment: environment, Product: binary, Namespace: "poolwright-system"}}
		}
		system := benchmark.NodeSystem{Name: name, Processes: processes, Environment: environment}
		if err := processes.Start(cmd.Context()); err != nil {
			return err
		}
		if err := system.Begin(cmd.Context()); err != nil {
			return err
		}
		systems = append(systems, system)
	}
	page.AddNodes(b.together, systems)
	for len(page.Nodes.Load) < b.nodeRounds {
		if err := page.Nodes.AddRound(cmd.Context(), systems, cmd.ErrOrStderr()); err != nil {
			return err
		}
		if err := b.write(page); err != nil {
			return err
		}
	}
	return nil
}

// measureObjects adds the rounds about objects that are missing.
func (b *benchCommand) measureObjects(cmd *cobra.Command, binary string, page *benchmark.Page) (err error) {
	desired := slices.DeleteFunc(slices.Clone(b.objects), func(n int) bool { return n <= 0 })
	if len(desired) == 0 {
		return nil
	}
	environment, stop, err := b.environment(cmd, sandbox.DefaultConfig())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ours := &benchmark.Poolwright{Environment: environment, Product: binary, Namespace: "poolwright-system"}
	systems := []benchmark.System{ours.System()}
	if b.flux != "" {
		flux := &benchmark.Flux{Environment: environment, Dir: b.flux, Namespace: "flux-system"}
		systems = append(systems, flux.System())
	}
	for _, n := range desired {
		compared := page.Comparison(n, systems)
		for len(compared.Load) < b.rounds {
			if err := environment.AddRound(cmd.Context(), compared, systems, cmd.ErrOrStderr()); err != nil {
				return err
			}
			// After each round, so that a run that is ended has what it has measured.
			if err := b.write(page); err != nil {
				return err
			}
		}
	}
	return nil
}

// environment starts a sandbox.
func (b *benchCommand) environment(cmd *cobra.Command, config sandbox.Config) (environment *benchmark.Environment, stop func() error, err error) {
	config.Progress = cmd.ErrOrStderr()
	running, err := sandbox.Start(cmd.Context(), config)
	if err != nil {
		return nil, nil, err
	}
	if environment, err = benchmark.NewEnvironment(cmd.Context(), running); err != nil {
		return nil, nil, errors.Join(err, running.Stop())
	}
	return environment, running.Stop, nil
}

// write writes the page and the results to their files, where there are any.
func (b *benchCommand) write(page *benchmark.Page) error {
	if b.results != "" {
		text, err := json.Marshal(page)
		if err == nil {
			err = os.WriteFile(b.results, text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	if b.page == "" {
		return nil
	}
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(b.page, text.Bytes(), 0o644); err != nil { //nolint:gosec // It is a page of the documentation.
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// machine describes this machine: its processors and their number.
func machine() string {
	model := runtime.GOARCH
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if processors, err := proc.CPUInfo(); err == nil && len(processors) > 0 {
			model = cmp.Or(processors[0].ModelName, model)
		}
	}
	return fmt.Sprintf("%s, %d processors, %s", model, runtime.NumCPU(), runtime.GOOS)
}
