package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/demo"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// stepDeadline bounds each wait for the next event, where the user sets nothing
// else.
const stepDeadline = 90 * time.Second

// demoCommand is the user's input.
type demoCommand struct {
	output     string
	keep       bool
	ui         bool
	poolwright string
	setup      string
	example    string
	deadline   time.Duration
	metrics    string
}

func newDemo() *cobra.Command {
	var d demoCommand
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job and print a timeline: from Git to a GPU node to zero",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	cmd.Flags().StringVarP(&d.output, "output", "o", "text", "text, or json: one event a line")
	cmd.Flags().BoolVar(&d.keep, "keep", false, "keep the sandbox running at the end and print how to use it")
	cmd.Flags().BoolVar(&d.ui, "ui", false, "keep the sandbox running at the end, and open the page of poolwright ui; the last line has its address")
	cmd.Flags().StringVar(&d.poolwright, "poolwright", "", "the poolwright binary (default: the one beside this program)")
	cmd.Flags().DurationVar(&d.deadline, "deadline", stepDeadline, "how long each step may take")
	cmd.Flags().StringVar(&d.setup, "setup", "", "the set-up to run (default altanova): one of "+strings.Join(setups.Names(), ", "))
	completeSetup(cmd)
	cmd.Flags().StringVar(&d.example, "example", "", "a changed copy of examples/altanova; the demo runs its cluster and pools; not with --setup")
	cmd.Flags().StringVar(&d.metrics, "metrics-addr", "127.0.0.1:0", "where the controller serves its Prometheus metrics; its log has the port that it chose for 0")
	return cmd
}

func (d *demoCommand) run(cmd *cobra.Command) (err error) {
	ctx, progress := cmd.Context(), cmd.ErrOrStderr()
	options := demo.Options{Deadline: d.deadline, MetricsAddress: d.metrics}
	if options.Printer, err = d.printer(cmd); err != nil {
		return err
	}
	if options.Setup, options.Folder, err = d.resolveSetup(); err != nil {
		return err
	}
	if options.Product, err = product(d.poolwright); err != nil {
		return err
	}
	cfg := options.Setup.SandboxConfig()
	cfg.Progress = progress
	environment, err := sandbox.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	run, err := demo.New(environment, options)
	if err != nil {
		return err
	}
	if err = run.Execute(ctx); ctx.Err() != nil {
		// What failed then failed because somebody requested it to end.
		return errors.New("interrupted")
	}
	if (d.keep || d.ui) && run.Controller() != nil {
		if err != nil {
			fmt.Fprintln(progress, "Error:", err)
		}
		return errors.Join(err, d.explore(ctx, progress, environment, run))
	}
	if err == nil {
		fmt.Fprint(progress, d.hint())
	}
	return err
}

// hint is the last line of a demo that was not kept, for a person.
func (d *demoCommand) hint() string {
	if d.keep || d.output != "text" {
		return ""
	}
	return "\nthe same with the page of poolwright ui in your browser: make demo ARGS=--ui\n"
}

// explore keeps the sandbox, with what a person needs to explore it.
func (d *demoCommand) explore(ctx context.Context, progress io.Writer, environment *sandbox.Environment, run *demo.Run) error {
	fmt.Fprintf(progress, "\ncommands for this sandbox:\n")
	exports(progress, environment)
	fmt.Fprintf(progress, "%s get syncs -A\n%s get nodepools,nodeclaims,nodes\n", environment.Kubectl, environment.Kubectl)
	fmt.Fprintf(progress, "tail -f %s\n", run.Controller().Log())
	if !d.ui {
		return stay(ctx, progress, environment, run.Controller())
	}
	address, wait, err := startPage(ctx, progress, run.Product, environment.Env()["KUBECONFIG"])
	if err != nil {
		return err
	}
	go func() {
		// The sandbox stays without it.
		if err := wait(); err != nil && ctx.Err() == nil {
			fmt.Fprintln(progress, "poolwright ui has ended:", err)
		}
	}()
	return stay(ctx, progress, environment, run.Controller(), "the page: "+address)
}

func (d *demoCommand) printer(cmd *cobra.Command) (demo.Printer, error) {
	switch d.output {
	case "text":
		return demo.Text(cmd.OutOrStdout(), time.Now()), nil
	case "json":
		return demo.JSON(cmd.OutOrStdout()), nil
	}
	return nil, fmt.Errorf("-o %q is not one of text, json", d.output)
}

// resolveSetup returns the set-up, and the folder with its example.
func (d *demoCommand) resolveSetup() (setups.Setup, string, error) {
	if d.setup != "" && d.example != "" {
		return setups.Setup{}, "", fmt.Errorf("--example %s is a copy of examples/altanova, and --setup %s names an example: give one of them", d.example, d.setup)
	}
	setup, err := setups.Named(cmp.Or(d.setup, "altanova"))
	if err != nil {
		return setup, "", err
	}
	folder := cmp.Or(d.example, filepath.Join("examples", setup.Name))
	if _, err := os.Stat(filepath.Join(folder, setup.Path)); err != nil {
		return setup, "", fmt.Errorf("the example %s has no folder %s; run this in the clone, or name an example with --example", folder, setup.Path)
	}
	return setup, folder, nil
}

// product finds the product's binary: where a user names none, beside this program, where make
// puts both.
func product(named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "poolwright")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no %s; build it with: make build", path)
	}
	return path, nil
}
