package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/controls"
	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/gpupool"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// proveCommand is the user's input.
type proveCommand struct {
	product  productFlags
	options  prove.Options
	selected string
	page     string
	list     bool
}

// productFlags are those of both commands: the binary that is proved, and the format of the
// report.
type productFlags struct {
	output     string
	poolwright string
	without    string
}

// add adds the flags; formats and without are what the help has of -o and of --break.
func (f *productFlags) add(flags *pflag.FlagSet, timeout *time.Duration, formats, without string) {
	flags.StringVarP(&f.output, "output", "o", "text", formats)
	flags.StringVar(&f.poolwright, "poolwright", "", "the poolwright binary (default: the one beside this program)")
	flags.StringVar(&f.without, "break", "", without+": one of "+strings.Join(controls.Names(), ", "))
	flags.DurationVar(timeout, "deadline", stepDeadline, "how long each wait for the product may take")
}

// run finds or builds the binary, starts a sandbox, and calls do with both.
func (f *productFlags) run(cmd *cobra.Command, config sandbox.Config, do func(binary string, environment *sandbox.Environment) error) (err error) {
	log.SetLogger(logr.Discard()) // clients of the sandbox log nothing of their own
	dir, err := os.MkdirTemp("", "poolwright-prove-")
	if err != nil {
		return fmt.Errorf("making a folder for the product: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := productWithout(cmd.Context(), f.without, f.poolwright, dir)
	if err != nil {
		return err
	}
	config.Progress = cmd.ErrOrStderr()
	environment, err := sandbox.Start(cmd.Context(), config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, environment.Stop()) }()
	return do(binary, environment)
}

func newProve() *cobra.Command {
	var p proveCommand
	cmd := &cobra.Command{
		Use:   "prove",
		Short: "Run scenarios with a fault at each kind of request, and check what happened",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	flags := cmd.Flags()
	p.product.add(flags, &p.options.Timeout, "text, json or markdown", "build poolwright with one of its precautions switched off, and prove that")
	flags.StringVar(&p.selected, "run", "", "run only cases SCENARIO/FAULT/POINT that match these regular expressions; with --only-controls, only controls whose names match")
	flags.BoolVar(&p.options.Controls, "controls", false, "run each control, too: the precaution switched off, and the cases that must find that")
	flags.BoolVar(&p.options.OnlyControls, "only-controls", false, "run each control, and no other case")
	flags.StringVar(&p.page, "page", "", "with -o markdown: the page as it was, of which the numbers stay that this run does not have")
	flags.BoolVar(&p.list, "list", false, "list scenarios, faults, rules and controls, and start nothing")
	flags.StringVar(&p.options.Traces, "traces", "", "a folder for the trace of each case")
	flags.StringVar(&p.options.Results, "results", "", "a file that keeps each result, so that a further run goes on where this one ended")
	flags.IntVar(&p.options.Parallel, "parallel", 2, "how many cases run at a time, and as many again of those that need a sandbox of their own")
	cmd.AddCommand(newProveRandom(), newProveFreeze())
	return cmd
}

func (p *proveCommand) run(cmd *cobra.Command) error {
	if p.list {
		fmt.Fprint(cmd.OutOrStdout(), prove.List())
		return nil
	}
	write, err := p.writer()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	p.options.Progress = cmd.ErrOrStderr()
	if p.product.without != "" && p.selected == "" {
		control, err := controls.Named(p.product.without)
		if err != nil {
			return err
		}
		if control.Test() != "" {
			return runTestWithout(ctx, cmd.OutOrStdout(), control)
		}
		p.selected = control.Finds
	}
	if p.options.Select, err = prove.ParseSelection(p.selected); err != nil {
		return err
	}
	config := sandbox.DefaultConfig()
	config.Nodes.Join, config.Nodes.NodeGone, config.Nodes.BuiltinPlugin = 300*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
	config.Fault = gpupool.FaultOf
	p.options.More = func(ctx context.Context) (*sandbox.Environment, error) {
		config.Progress = cmd.ErrOrStderr()
		return sandbox.Start(ctx, config)
	}
	return p.product.run(cmd, config, func(binary string, environment *sandbox.Environment) error {
		p.options.Product = binary
		report, err := prove.Run(ctx, environment, p.options)
		return errors.Join(write(cmd.OutOrStdout(), report), err, report.Err())
	})
}

// runTestWithout runs the Go test that must find a control. It is an error where that does, as
// where a case violates a rule.
func runTestWithout(ctx context.Context, out io.Writer, control controls.Control) (err error) {
	dir, err := os.MkdirTemp("", "poolwright-prove-")
	if err != nil {
		return fmt.Errorf("making a folder for the control: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	found, err := control.Fails(ctx, dir)
	switch {
	case err != nil:
		return err
	case found:
		return fmt.Errorf("without %s, %s fails", control.Name, control.Test())
	}
	fmt.Fprintf(out, "without %s, %s passes: the control is not found\n", control.Name, control.Test())
	return nil
}

// productWithout builds the product without one of its precautions, or finds the binary where
// none is named.
func productWithout(ctx context.Context, precaution, named, dir string) (string, error) {
	if precaution == "" {
		return product(named)
	}
	control, err := controls.Named(precaution)
	if err != nil {
		return "", err
	}
	return control.Build(ctx, dir)
}

// writer is what prints the report.
func (p *proveCommand) writer() (func(io.Writer, prove.Report) error, error) {
	switch p.product.output {
	case "text":
		return prove.WriteText, nil
	case "json":
		return prove.WriteJSON, nil
	case "markdown":
		var before []byte
		if p.page != "" {
			var err error
			if before, err = os.ReadFile(p.page); err != nil {
				return nil, fmt.Errorf("reading the page as it was: %w", err)
			}
		}
		return func(w io.Writer, r prove.Report) error { return prove.WriteMarkdown(w, r, time.Now(), string(before)) }, nil
	}
	return nil, fmt.Errorf("-o %q is not one of text, json, markdown", p.product.output)
}
