package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/cmd/internal/document"
	"github.com/poolwright/poolwright/cmd/internal/planning"
	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/cmd/internal/reconciliation"
	"github.com/poolwright/poolwright/cmd/internal/terminal"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
)

// planFlags are the flags of plan.
type planFlags struct {
	output, sync string
	base, head   string
	offline      bool
	hours        float64
	color        terminal.Color
	variables    variableFlags
	prices       prices.Flag
}

func (f *planFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.sync, "sync", "", "plan as this Sync (default: the only one in the namespace)")
	flags.StringVar(&f.base, "base", "", "plan only the change from this revision: a branch, tag or commit of the working copy's repository")
	flags.StringVar(&f.head, "head", "", "the revision that the change leads to (default: the working copy as it is; needs --base)")
	flags.BoolVar(&f.offline, "offline", false, "connect to no cluster and not to AWS: compare only the two revisions (needs --base)")
	flags.Float64Var(&f.hours, "hours-per-day", 24, "the use for which a month's cost is shown")
	f.variables.addTo(flags)
	f.prices.AddTo(flags, "the account, else the cluster")
}

// check refuses combinations that mean nothing.
func (f *planFlags) check() error {
	switch {
	case f.head != "" && f.base == "":
		return errors.New("--head needs --base: name the revision that it would be merged into")
	case f.offline && f.base == "":
		return errors.New("--offline needs --base: without a cluster there is nothing but another revision to compare with")
	case f.offline && !f.prices.Offline():
		return errors.New("--offline makes no request, and --prices requires one: give it a file with the ConfigMap poolwright-price-list")
	case f.sync != "" && f.variables.file != "":
		return errors.New("--sync names a Sync of the cluster and --sync-file one of a file: choose one of them")
	case f.hours <= 0 || f.hours > 24:
		return fmt.Errorf("--hours-per-day %g is not more than 0 and at most 24", f.hours)
	}
	return nil
}

// source is where the flags have prices read: of a plan against a cluster from the account, and what it lacks
// from what the controller has published.
func (f *planFlags) source(conn *connection, progress io.Writer) (*prices.Source, error) {
	out, err := f.prices.Source(conn.client, conn.namespace, progress)
	if out != nil || err != nil || f.offline {
		return out, err
	}
	live, err := conn.client()
	if err != nil {
		return nil, err
	}
	return &prices.Source{Account: true, Cluster: live, Namespace: conn.namespace, Progress: progress}, nil
}

func newPlan(conn *connection, streams Streams) *cobra.Command {
	var flags planFlags
	cmd := &cobra.Command{
		Use: "plan [DIR]",
		// As kubectl, flux and argocd call it.
		Aliases: []string{"diff"},
		Short:   "Show what applying a folder, or merging a revision, would change",
		Long: `Show what applying a folder would change in the live cluster, field by field. Nothing is written.

With --base it shows the change from that revision, separate from what differs already, as the comment of a
pull request does: from the merge base of both, merged into the base as it is now. With --offline it compares only
the two revisions, without any cluster or credential.

Prices and offerings are read from the account, else from the ConfigMap poolwright-price-list of the controller, and
else they are those of the shipped catalog, as they are with --offline without --prices.

Variables have the values of the Sync; --substitute and --sync-file take precedence.

Exit codes: 0 no difference, 1 differences, 2 an error or problems in the folder.`,
		Example: "  poolwright plan clusters/dev\n  poolwright plan clusters/dev --base origin/main -o markdown\n  poolwright plan clusters/dev --base origin/main --head HEAD --offline",
		Args:    oneArgument("the folder", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlan(cmd, conn, streams, folderOf(args), flags)
		},
	}
	conn.addFlags(cmd.Flags())
	flags.addTo(cmd.Flags())
	conn.completeConnection(cmd)
	reports.addTo(cmd, &flags.output)
	flags.color.AddTo(cmd)
	for _, flag := range []string{"base", "head"} {
		completeFlag(cmd, flag, func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return planning.Revisions(folderOf(args)), cobra.ShellCompDirectiveNoFileComp
		})
	}
	return cmd
}

func runPlan(cmd *cobra.Command, conn *connection, streams Streams, folder string, flags planFlags) error {
	print, err := printer(flags.output, report.Options{HoursPerDay: flags.hours, Color: flags.color.On(streams.Out)}, streams)
	if err != nil {
		return err
	}
	if err := flags.check(); err != nil {
		return err
	}
	req, err := planRequest(cmd, conn, folder, flags, streams.Err)
	if err != nil {
		return err
	}
	r, err := planning.Plan(cmd.Context(), req)
	if err != nil {
		return err
	}
	if err := req.Prices.Err(); err != nil {
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
}

// planRequest plans as the Sync that would apply the folder, with its policies.
func planRequest(cmd *cobra.Command, conn *connection, folder string, flags planFlags, progress io.Writer) (planning.Request, error) {
	req := planning.Request{Dir: folder, Namespace: conn.namespace, Base: flags.base, Head: flags.head}
	// Before the first Sync exists, plan as the one that will.
	first := &v1alpha1.Sync{}
	first.Name = cmp.Or(flags.sync, "default")
	req.Sync = first
	var err error
	if req.Prices, err = flags.source(conn, progress); err != nil {
		return req, err
	}
	if req.Variables, err = flags.variables.input(); err != nil || flags.offline {
		return req, err
	}
	if req.REST, err = conn.restConfig(); err != nil {
		return req, err
	}
	if req.Variables.SyncFile != "" {
		return req, nil // The file names the Sync.
	}
	cl, err := conn.client()
	if err != nil {
		return req, err
	}
	req.Sync, err = reconciliation.FindSync(cmd.Context(), cl, conn.namespace, flags.sync)
	if errors.Is(err, reconciliation.ErrNoSync) {
		// Nothing is ours yet, so nothing would be deleted: report that, in case it is the
		// namespace or context that is wrong.
		fmt.Fprintf(progress, "%v: planning as a first Sync named default, which deletes nothing\n", err)
		req.Sync, err = first, nil
	}
	return req, err
}

// reports are the formats of the commands that print a report.
var reports = outputs{"text", "json", "yaml", "markdown"}

// printer chooses how a report is written to Out.
func printer(output string, opts report.Options, streams Streams) (func(report.Report) error, error) {
	if err := reports.check(output); err != nil {
		return nil, err
	}
	switch output {
	case "text":
		return func(r report.Report) error { return writeText(r, opts, streams.Out) }, nil
	case "markdown":
		return func(r report.Report) error { return r.Markdown(streams.Out, opts) }, nil
	}
	return func(r report.Report) error { return document.Write(streams.Out, output, document.Plan, r.JSON) }, nil
}

// writeText writes a report as text, with its lines broken at the width of a terminal.
func writeText(r report.Report, opts report.Options, w io.Writer) error {
	var text strings.Builder
	if err := r.Text(&text, opts); err != nil {
		return err
	}
	_, err := io.WriteString(w, terminal.WrapLines(text.String(), terminal.Width(w)))
	return err
}
