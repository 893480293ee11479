package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/cmd/internal/costing"
	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// costFlags are the flags of cost.
type costFlags struct {
	output    string
	request   costing.Request
	variables variableFlags
	prices    prices.Flag
}

func (f *costFlags) addTo(flags *pflag.FlagSet) {
	flags.Float64Var(&f.request.HoursPerDay, "hours-per-day", 8, "the use that is shown beside a month around the clock")
	flags.StringVar(&f.request.Region, "region", "", "the region of the prices, for a folder whose Cluster does not specify one")
	f.variables.addTo(flags)
	f.prices.AddTo(flags, "the ConfigMap of the cluster that --context or --kubeconfig names, else the shipped catalog")
	flags.StringVar(&f.request.Document, "document", "", "file with the costs that a document states (default: the nearest cost.yaml in the folder or above it)")
}

func newCost(conn *connection, streams Streams) *cobra.Command {
	var flags costFlags
	cmd := &cobra.Command{
		Use:   "cost [DIR]",
		Short: "Estimate what the nodes of a folder's pools cost, and check a document's cost table",
		Long: `Estimate what one node of each pool costs in a month: around the clock on demand and on spot, for some
hours a day, and with no pod at all. For a pool with GPUs that is the node that is launched for a pod with one GPU:
the cheapest that the pool allows, and the most expensive. Prices are those of the built-in catalog, without a request to
a cluster or to AWS; with --prices they are those that AWS returned, and with --context or --kubeconfig those that the controller
of that cluster published. Where DIR is no kustomization and has one below clusters/, that one is used.

Variables such as ${CLUSTER_NAME} are substituted as the Sync does, where values are given; what holds one
without a value is left out, and listed.

Where a file cost.yaml has the costs that a document states, its figures are computed again from its own unit
prices and compared with today's, with the cause of each difference.

Exit codes: 0 done, 2 an error or problems in the folder or in that file.`,
		Example: "  poolwright cost clusters/dev\n  poolwright cost clusters/dev --hours-per-day 2 -o markdown",
		Args:    oneArgument("the folder", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.request.Dir = folderOf(args)
			return runCost(cmd, conn, streams, flags)
		},
	}
	conn.addFlags(cmd.Flags())
	conn.completeConnection(cmd)
	flags.addTo(cmd.Flags())
	reports.addTo(cmd, &flags.output)
	return cmd
}

// writeCosts writes the costs in one of the formats of reports.
func writeCosts(w io.Writer, format string, table costing.Result) error {
	switch format {
	case "text":
		return table.Text(w)
	case "markdown":
		return table.Markdown(w)
	}
	return document.Write(w, format, document.Costs, table.JSON)
}

func runCost(cmd *cobra.Command, conn *connection, streams Streams, flags costFlags) error {
	if err := reports.check(flags.output); err != nil {
		return err
	}
	if h := flags.request.HoursPerDay; !(h > 0 && h <= 24) {
		return fmt.Errorf("--hours-per-day %g is not more than 0 and at most 24", h)
	}
	given, err := flags.variables.input()
	if err != nil {
		return err
	}
	if flags.request.Values, _, err = variables.Offline(cmd.Context(), given); err != nil {
		return fmt.Errorf("costing %s: %w", flags.request.Dir, err)
	}
	if flags.request.Prices, err = flags.prices.SourceFor(cmd.Flags(), conn.client, conn.namespace, streams.Err); err != nil {
		return err
	}
	table, err := costing.Run(cmd.Context(), flags.request)
	if err != nil {
		return fmt.Errorf("costing %s: %w", flags.request.Dir, err)
	}
	if err := writeCosts(streams.Out, flags.output, table); err != nil {
		return err
	}
	if len(table.Pools) == 0 && len(table.Problems) == 0 {
		fmt.Fprintf(streams.Err, "%s declares no NodePool\n", flags.request.Dir)
	}
	for _, p := range table.Problems {
		fmt.Fprintln(streams.Err, p)
	}
	if n := len(table.Problems); n > 0 {
		return &exit{code: exitError, err: fmt.Errorf("%s in %s: what it is about may be missing above", plural.Count(n, "problem"), flags.request.Dir)}
	}
	return nil
}
