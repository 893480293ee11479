package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/githubapp"
	"github.com/poolwright/poolwright/cmd/internal/probe"
	"github.com/poolwright/poolwright/cmd/internal/supportbundle"
	"github.com/poolwright/poolwright/cmd/internal/terminal"
	"github.com/poolwright/poolwright/internal/plural"
)

// checkFlags are the input of check.
type checkFlags struct {
	pre     bool
	probe   bool
	timeout time.Duration
	output  string
	bundle  string
}

func newCheck(conn *connection, streams Streams) *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether a cluster is ready for an installation, or whether its own works",
		Long: `Check the installation: its CRDs, the controller and its leader, the gates of the engine, what the controller
reported of AWS, Git and forges, and what else runs in the cluster.

With --pre, check before an installation: the version of Kubernetes, your permissions, the capacity of the system nodes
for two replicas, and what else runs.

It writes nothing, reads no Secret, and connects to the API server only. What it may not read, it skips. With --probe
it connects from here to AWS, Git and the forges, too, with your AWS credentials and the Secrets of the Syncs, none of
which it prints.

Exit codes: 0 no check failed, whatever the warnings, 1 a check failed, 2 an error.`,
		Example: "  poolwright check --pre\n  poolwright check --probe\n  poolwright check -o json\n  poolwright check --bundle bundle.tar.gz",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := documents.check(f.output); err != nil {
				return err
			}
			return f.run(cmd.Context(), conn, streams)
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&f.pre, "pre", false, "check before an installation")
	cmd.Flags().BoolVar(&f.probe, "probe", false, "connect from here to AWS, and to each Sync's repository and forge, too; with --pre to AWS")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 15*time.Second, "how long each check may take")
	documents.addTo(cmd, &f.output)
	cmd.Flags().StringVar(&f.bundle, "bundle", "", "write a support bundle to this new file, such as bundle.tar.gz: the checks, objects, events and logs, without secrets")
	conn.completeConnection(cmd)
	return cmd
}

func (f *checkFlags) run(ctx context.Context, conn *connection, streams Streams) error {
	cfg, err := conn.restConfig()
	if err != nil {
		return err
	}
	req, err := check.Connect(cfg, f.timeout)
	if err != nil {
		return err
	}
	req.Namespace, req.Pre, req.Version, req.Explain = conn.namespace, f.pre, readVersion().Version, conn.server.Explain
	if f.probe {
		req.Further = probe.Checks(req)
	}
	report := check.Run(ctx, req)
	if f.bundle != "" {
		logs, err := supportbundle.PodLogs(cfg)
		if err != nil {
			return err
		}
		err = writeBundle(ctx, f.bundle, supportbundle.Request{Kube: req.Kube, Logs: logs, Checks: report, Namespace: req.Namespace, Timeout: f.timeout, Now: req.Now()})
		if err != nil {
			return err
		}
		fmt.Fprintf(streams.Err, "wrote %s; read what is in it before you pass it on\n", f.bundle)
	}
	return printChecks(report, f.output, streams)
}

// writeBundle writes a support bundle to a file that does not exist yet, for its owner only. One
// that could not be completed is removed.
func writeBundle(ctx context.Context, path string, req supportbundle.Request) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: name another file for the support bundle", path)
	}
	if err != nil {
		return fmt.Errorf("writing the support bundle: %w", err)
	}
	err = supportbundle.Write(ctx, out, req)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// printChecks writes the report, and a count of its results.
func printChecks(report check.Report, output string, streams Streams) error {
	var err error
	if output == "text" {
		err = writeChecks(streams.Out, report, terminal.Width(streams.Out))
	} else {
		err = document.Value(streams.Out, output, document.Checks, report)
	}
	if err != nil {
		return fmt.Errorf("writing the checks: %w", err)
	}
	count := fmt.Sprintf("%d ok, %s, %d failed, %d skipped", report.Count(check.OK), plural.Count(report.Count(check.Warning), "warning"), report.Count(check.Failed), report.Count(check.Skipped))
	fmt.Fprintln(streams.Err, count)
	if report.Count(check.Failed) > 0 {
		return &exit{code: exitDifferent}
	}
	return nil
}

// writeChecks writes a line for each result, and its remedy below it. Lines are broken at the width,
// where it is not 0, as what goes on below is indented.
func writeChecks(w io.Writer, report check.Report, width int) error {
	signs := map[check.Status]string{check.OK: "✔", check.Warning: "⚠", check.Failed: "✗", check.Skipped: "–"}
	var out strings.Builder
	for _, r := range report.Results {
		object := ""
		if r.Object != "" {
			object = r.Object + ": "
		}
		terminal.Wrap(&out, signs[r.Status]+" "+r.Name+": "+object+r.Message, "  ", width)
		if r.Remedy != "" {
			terminal.Wrap(&out, "    "+r.Remedy, "    ", width)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func newGitHubApp(streams Streams) *cobra.Command {
	return githubapp.NewCommand(githubapp.Environment{Out: streams.Out, Err: streams.Err, Now: time.Now})
}
