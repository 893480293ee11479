package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/prove"
	"github.com/poolwright/poolwright/provision/sandbox"
)

func newProveFreeze() *cobra.Command {
	product := productFlags{}
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "freeze FOLDER --poolwright BINARY",
		Short: "Write what a release leaves in a cluster, for the scenarios of upgrades",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return product.run(cmd, sandbox.DefaultConfig(), func(binary string, environment *sandbox.Environment) error {
				return prove.Freeze(cmd.Context(), environment, binary, timeout, args[0])
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&product.poolwright, "poolwright", "", "the binary of the release (default: the one beside this program)")
	flags.DurationVar(&timeout, "deadline", stepDeadline, "how long each wait for the product may take")
	return cmd
}
