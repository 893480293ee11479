package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/check"
)

// checkFlags are the input of check.
type checkFlags struct {
	pre     bool
	timeout time.Duration
	output  string
}

func newCheck(conn *connection, streams Streams) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether a cluster is ready for an installation, or whether the one that it has works",
		Long: `Check the installation: its CRDs, the controller and its leader, the gates of the engine, what the controller
reported of AWS, Git and forges, and what else runs in the cluster.

With --pre, check before an installation: the version of Kubernetes, your rights, the capacity of the system nodes
for two replicas, and what else runs.

It writes nothing, reads no Secret, and connects to the API server only. What it may not read, it skips.

Exit codes: 0 no check failed, whatever the warnings, 1 a check failed, 2 an error.`,
		Example: "  poolwright check --pre\n  poolwright check -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.output != "text" && f.output != "json" {
				return fmt.Errorf("-o %q is not one of text, json", f.output)
			}
			req, err := f.request(conn)
			if err != nil {
				return err
			}
			return printChecks(check.Run(cmd.Context(), req), f.output, streams)
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.pre, "pre", false, "check before an installation")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 15*time.Second, "how long each check may take")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	conn.completeContexts(cmd)
	completeOutput(cmd, "text", "json")
	return cmd
}

func (f *checkFlags) request(conn *connection) (check.Request, error) {
	cfg, err := conn.restConfig()
	if err != nil {
		return check.Request{}, err
	}
	req, err := check.Connect(cfg, f.timeout)
	req.Namespace, req.Pre, req.Version, req.Explain = conn.namespace, f.pre, readVersion().Version, conn.explain
	return req, err
}

// printChecks writes the report, and a count of its results.
func printChecks(report check.Report, output string, streams Streams) error {
	var err error
	if output == "json" {
		err = writeJSON(streams.Out, report)
	} else {
		err = writeChecks(streams.Out, report)
	}
	if err != nil {
		return fmt.Errorf("writing the checks: %w", err)
	}
	count := fmt.Sprintf("%d ok, %s, %d failed, %d skipped", report.Count(check.OK), counted(report.Count(check.Warning), "warning"), report.Count(check.Failed), report.Count(check.Skipped))
	fmt.Fprintln(streams.Err, count)
	if report.Count(check.Failed) > 0 {
		return &exit{code: exitDifferent}
	}
	return nil
}

// writeChecks writes a line for each result, and its remedy below it.
func writeChecks(w io.Writer, report check.Report) error {
	signs := map[check.Status]string{check.OK: "✔", check.Warning: "⚠", check.Failed: "✗", check.Skipped: "–"}
	for _, r := range report.Results {
		object := ""
		if r.Object != "" {
			object = r.Object + ": "
		}
		if _, err := fmt.Fprintf(w, "%s %s: %s%s\n", signs[r.Status], r.Name, object, r.Message); err != nil {
			return err
		}
		if r.Remedy == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "    %s\n", r.Remedy); err != nil {
			return err
		}
	}
	return nil
}
