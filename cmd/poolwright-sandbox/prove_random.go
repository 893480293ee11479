package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove/randomwalk"
	"github.com/poolwright/poolwright/provision/sandbox"
)

// randomCommand is the user's input.
type randomCommand struct {
	product productFlags
	options randomwalk.Options
	replay  string
	shrink  string
}

func newProveRandom() *cobra.Command {
	var r randomCommand
	cmd := &cobra.Command{
		Use:   "random",
		Short: "Run random operations and faults for as long as you like, and check what happened",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	flags := cmd.Flags()
	r.product.add(flags, &r.options.Timeout, "text or json", "build poolwright with one of its precautions switched off")
	flags.Uint64Var(&r.options.Seed, "seed", 0, "which sequence of operations; 0 draws one")
	flags.DurationVar(&r.options.Duration, "for", 0, "how long")
	flags.IntVar(&r.options.Steps, "steps", 0, "how many operations (default: 200, where --for sets no time)")
	flags.BoolVar(&r.options.Kills, "kills", true, "kill the controller as one of the operations")
	flags.IntVar(&r.options.Bulk, "objects", 0, "how many more objects the repository declares")
	flags.DurationVar(&r.options.WarmUp, "warm-up", 5*time.Minute, "how long what is measured does not count for trends")
	flags.StringVar(&r.options.Traces, "traces", "", "a folder for the trace of a run that violates a rule")
	flags.StringVar(&r.replay, "replay", "", "perform the operations of this case in place of the seed's")
	flags.StringVar(&r.shrink, "shrink", "", "after a violation, search for the shortest sequence that repeats it, and write that case to this file")
	return cmd
}

func (r *randomCommand) run(cmd *cobra.Command) error {
	write, found := map[string]func(io.Writer, randomwalk.Report) error{"text": randomwalk.WriteText, "json": randomwalk.WriteJSON}[r.product.output]
	if !found {
		return fmt.Errorf("-o %q is not one of text, json", r.product.output)
	}
	r.options.Progress = cmd.ErrOrStderr()
	if r.options.Seed == 0 {
		r.options.Seed = uint64(time.Now().UnixNano() + int64(os.Getpid()))
	}
	if r.options.Duration == 0 && r.options.Steps == 0 {
		r.options.Steps = 200
	}
	if r.replay != "" {
		replayed, err := randomwalk.ReadCase(r.replay)
		if err != nil {
			return err
		}
		r.options.Replay = replayed.Operations
	}
	return r.product.run(cmd, sandbox.DefaultConfig(), func(binary string, environment *sandbox.Environment) error {
		r.options.Product = binary
		report, err := randomwalk.Run(cmd.Context(), environment, r.options)
		err = errors.Join(write(cmd.OutOrStdout(), report), err, report.Err())
		if r.shrink == "" || len(report.Violations) == 0 {
			return err
		}
		shortest, shrinkErr := randomwalk.ShrinkReport(cmd.Context(), environment, r.options, report)
		return errors.Join(err, shrinkErr, shortest.Save(r.shrink))
	})
}
