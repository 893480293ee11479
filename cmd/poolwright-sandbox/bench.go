package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/go-logr/logr"
	"github.com/prometheus/procfs"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/benchmark"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// benchCommand is the user's input.
type benchCommand struct {
	poolwright, flux, versions, page string
	objects                          []int
	rounds                           int
}

func newBench() *cobra.Command {
	var b benchCommand
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Poolwright beside Flux in one sandbox, and write docs/performance.md",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	cmd.Flags().StringVar(&b.poolwright, "poolwright", "", "the poolwright binary (default: the one beside this program)")
	cmd.Flags().StringVar(&b.flux, "flux", "", "a folder with source-controller, kustomize-controller and their CRDs in crds; make bench-compare builds it (default: Poolwright alone is measured)")
	cmd.Flags().StringVar(&b.versions, "versions", "", "what the page has of the versions of what is measured")
	cmd.Flags().StringVar(&b.page, "page", "", "the page to write (default: to the standard output)")
	cmd.Flags().IntSliceVar(&b.objects, "objects", []int{200, 2000}, "with how many objects")
	cmd.Flags().IntVar(&b.rounds, "rounds", 5, "how often each is measured")
	return cmd
}

//go:embed bench_head.md
var benchHead string

//go:embed bench_foot.md
var benchFoot string

func (b *benchCommand) run(cmd *cobra.Command) (err error) {
	log.SetLogger(logr.Discard()) // clients of the sandbox log nothing of their own
	binary, err := product(b.poolwright)
	if err != nil {
		return err
	}
	config := sandbox.DefaultConfig()
	config.Progress = cmd.ErrOrStderr()
	running, err := sandbox.Start(cmd.Context(), config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Stop()) }()
	environment, err := benchmark.NewEnvironment(cmd.Context(), running)
	if err != nil {
		return err
	}
	ours := &benchmark.Poolwright{Environment: environment, Product: binary, Namespace: "poolwright-system"}
	systems := []benchmark.System{ours.System()}
	if b.flux != "" {
		flux := &benchmark.Flux{Environment: environment, Dir: b.flux, Namespace: "flux-system"}
		systems = append(systems, flux.System())
	}
	page := &benchmark.Page{Machine: machine(), Versions: b.versions, Head: benchHead, Foot: benchFoot}
	for _, n := range b.objects {
		compared := benchmark.NewComparison(n, systems)
		page.Comparisons = append(page.Comparisons, compared)
		for range b.rounds {
			if err := environment.AddRound(cmd.Context(), compared, systems, cmd.ErrOrStderr()); err != nil {
				return err
			}
			// After each round, so that a run that is ended has what it has measured.
			if err := b.write(page); err != nil {
				return err
			}
		}
	}
	if b.page == "" {
		return page.Write(cmd.OutOrStdout())
	}
	return nil
}

// write writes the page to its file, if it has one.
func (b *benchCommand) write(page *benchmark.Page) error {
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
