package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/wire"
)

func newLint(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "lint DIR",
		Short: "Check a folder without a cluster, with file and line for each finding",
		Long: `Check a folder without a cluster: that it renders, that every object is well formed, that Karpenter's
and our own kinds satisfy their schemas and rules, and that the Cluster asks nothing of AWS in vain.

Exit codes: 0 nothing found, 1 findings, 2 an error.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			problems, objects, err := wire.Lint(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintln(streams.Out, p)
			}
			if len(problems) > 0 {
				return &exit{code: exitDifferent, err: fmt.Errorf("%s in %s", counted(len(problems), "finding"), args[0])}
			}
			fmt.Fprintf(streams.Err, "%s, nothing found\n", counted(objects, "object"))
			return nil
		},
	}
}
