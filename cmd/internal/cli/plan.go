package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/poolwright/poolwright/cmd/internal/wire"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
)

func newPlan(conn *connection, streams Streams) *cobra.Command {
	var output, name string
	cmd := &cobra.Command{
		Use:   "plan [DIR]",
		Short: "Show what applying a folder would change in the live cluster",
		Long: `Show what applying a folder would change in the live cluster, field by field. Nothing is written.

Exit codes: 0 no difference, 1 differences, 2 an error or mistakes in the folder.`,
		Example: "  poolwright plan clusters/dev\n  poolwright plan clusters/dev -o markdown",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "."
			if len(args) > 0 {
				folder = args[0]
			}
			print, err := printer(output, streams)
			if err != nil {
				return err
			}
			req, err := planRequest(cmd, conn, folder, name, streams.Err)
			if err != nil {
				return err
			}
			r, err := wire.Plan(cmd.Context(), req)
			if err != nil {
				return err
			}
			if err := print(r); err != nil {
				return fmt.Errorf("writing the plan: %w", err)
			}
			switch {
			case len(r.Problems) > 0:
				return &exit{code: exitError}
			case !r.Empty():
				return &exit{code: exitDifferent}
			}
			return nil
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or markdown")
	cmd.Flags().StringVar(&name, "sync", "", "plan as this Sync (default: the only one in the namespace)")
	return cmd
}

// planRequest plans as the Sync that would apply the folder, with its policies.
func planRequest(cmd *cobra.Command, conn *connection, folder, name string, progress io.Writer) (wire.PlanRequest, error) {
	cfg, err := conn.restConfig()
	if err != nil {
		return wire.PlanRequest{}, err
	}
	cl, err := conn.client()
	if err != nil {
		return wire.PlanRequest{}, err
	}
	req := wire.PlanRequest{REST: cfg, Dir: folder, Namespace: conn.namespace}
	sync, err := findSync(cmd.Context(), cl, conn.namespace, name)
	switch {
	case errors.Is(err, errNoSync):
		// Before the first Sync exists, plan as the one that will. Nothing is
		// ours yet, so nothing would be deleted: say so, in case it is the
		// namespace or context that is wrong.
		fmt.Fprintf(progress, "%v: planning as a first Sync named default, which deletes nothing\n", err)
		sync = &v1alpha1.Sync{}
		sync.Name = "default"
	case err != nil:
		return req, err
	}
	req.Sync = sync
	return req, nil
}

// printer chooses how a report is written to Out.
func printer(output string, streams Streams) (func(report.Report) error, error) {
	switch output {
	case "text":
		opts := report.Options{Color: isTerminal(streams.Out)}
		return func(r report.Report) error { return r.Text(streams.Out, opts) }, nil
	case "json":
		return func(r report.Report) error { return r.JSON(streams.Out) }, nil
	case "markdown":
		return func(r report.Report) error { return r.Markdown(streams.Out, report.Options{}) }, nil
	}
	return nil, fmt.Errorf("-o %q is not one of text, json, markdown", output)
}

// isTerminal reports whether a person reads w, and wants colours.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}
