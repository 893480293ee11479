package cli

import (
	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/child"
)

// newChild is the command that poolwright starts itself with, to render in a
// process that holds nothing; see package child.
func newChild(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:    "child VERB MEMORY SECONDS",
		Short:  "Render or forecast for the poolwright that started this process, under limits",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Nothing of the input is read before the limits hold.
			if err := child.Confine(args[1], args[2]); err != nil {
				return err
			}
			return child.Serve(cmd.Context(), args[0], streams.In, streams.Out)
		},
	}
}
