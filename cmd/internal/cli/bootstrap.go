package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/bootstrap"
	"github.com/poolwright/poolwright/cmd/internal/terminal"
	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// bootstrapFlags are the input of bootstrap beside the request.
type bootstrapFlags struct {
	conn         *connection
	variables    variableFlags
	confirmation yesNo
	wait         bool
	timeout      time.Duration
	output       string
	color        terminal.Color
}

func newBootstrap(conn *connection, streams Streams) *cobra.Command {
	req := bootstrap.Request{ReleasedImage: readVersion().Image}
	f := bootstrapFlags{conn: conn}
	cmd := &cobra.Command{
		Use:   "bootstrap DIR",
		Short: "Create the AWS resources of a folder, install the controller, and create a Sync",
		Long: `Create the AWS resources that a folder declares, install the controller, and create the Sync that
follows the folder. It needs AWS credentials and a kubeconfig of the EKS cluster in the folder's Cluster, and
verifies first that both are of that cluster. The Sync applies the folder's Kubernetes objects.

It shows the plan and waits for confirmation. Run again, it changes only what differs.

Exit codes: 0 done or nothing to do, 1 not done (--dry-run, or not confirmed), 2 an error.`,
		Example: "  poolwright bootstrap clusters/dev --image registry.example.com/poolwright:v1 --secret git\n  poolwright bootstrap clusters/dev --image registry.example.com/poolwright:v1 --dry-run",
		Args:    oneArgument("the folder", false),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Dir, req.Namespace = args[0], conn.namespace
			var err error
			if req.Sync.Variables, err = f.variables.input(); err != nil {
				return err
			}
			return f.run(cmd, req, streams)
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&req.Image, "image", "", "the controller's image (default: the one that is installed, or that of this release)")
	cmd.Flags().StringVar(&req.Sync.Name, "name", "", "name of the Sync (default: the last element of --path)")
	cmd.Flags().StringVar(&req.Sync.URL, "url", "", "https or ssh address of the repository (default: the remote origin of DIR's clone)")
	cmd.Flags().StringVar(&req.Sync.Branch, "branch", "", "branch to follow (default: the one that is checked out)")
	cmd.Flags().StringVar(&req.Sync.Path, "path", "", "folder in the repository (default: where DIR is in its clone)")
	cmd.Flags().StringVar(&req.Sync.Secret, "secret", "", "name of the Secret with the repository's token")
	cmd.Flags().BoolVar(&req.TakeOver, "take-over", false, "scale a Karpenter that runs already to zero once the engine waits only for it")
	cmd.Flags().BoolVar(&f.wait, "wait", true, "wait until the controller is available")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long to wait")
	f.confirmation.addFlags(cmd.Flags())
	f.variables.addTo(cmd.Flags())
	cmd.Flags().Lookup("sync-file").Usage = "file with the Sync to create, optionally with the ConfigMaps and Secrets that its variables come from; the other flags take precedence"
	conn.completeConnection(cmd)
	reports.addTo(cmd, &f.output)
	f.color.AddTo(cmd)
	return cmd
}

func (f *bootstrapFlags) run(cmd *cobra.Command, req bootstrap.Request, streams Streams) error {
	print, err := printer(f.output, report.Options{Color: f.color.On(streams.Out)}, streams)
	if err != nil {
		return err
	}
	if err := f.possible(req, streams); err != nil {
		return err
	}
	if req.REST, err = f.conn.restConfig(); err != nil {
		return err
	}
	req.Progress = progressTo(streams)
	b, err := planned(cmd.Context(), req, streams)
	if err != nil {
		return err
	}
	planFirst, err := f.writePlan(b, print, streams)
	if err != nil {
		return err
	}
	takes, err := b.TakesOver()
	if err != nil {
		return err
	}
	return f.carriesOut(cmd.Context(), b, takes != "", planFirst, streams)
}

// writePlan writes the plan, where a person confirms it or it is all that there will be,
// and what else is to be known before. It reports whether the plan was written.
func (f *bootstrapFlags) writePlan(b *bootstrap.Bootstrap, print func(report.Report) error, streams Streams) (bool, error) {
	// A program gets one document: what became of the plan, where it is carried
	// out without confirmation.
	planFirst := f.output == "text" || !f.confirmation.yes || f.confirmation.dryRun || b.ChangeCount() == 0
	if planFirst {
		if err := print(b.Report()); err != nil {
			return false, fmt.Errorf("writing the plan: %w", err)
		}
	}
	fmt.Fprint(streams.Err, b.OtherKarpenters())
	for _, w := range b.Warnings {
		fmt.Fprintln(streams.Err, "Warning:", w)
	}
	return planFirst, nil
}

// carriesOut does what there is to do, waits where that is requested, and takes over
// from another Karpenter last.
func (f *bootstrapFlags) carriesOut(ctx context.Context, b *bootstrap.Bootstrap, takes, planFirst bool, streams Streams) error {
	if b.ChangeCount() == 0 {
		fmt.Fprintln(streams.Err, "nothing to change")
	}
	if b.ChangeCount() > 0 || takes {
		if err := f.apply(ctx, b, streams, planFirst); err != nil {
			return err
		}
	}
	if f.confirmation.dryRun || !f.wait && !takes {
		return nil
	}
	if err := f.finish(ctx, b, streams); err != nil || !takes {
		return err
	}
	return b.TakeOver(ctx, f.timeout)
}

// possible reports whether somebody can confirm, with all that is missing.
func (f *bootstrapFlags) possible(req bootstrap.Request, streams Streams) error {
	err := f.confirmation.possible(streams)
	if err != nil && req.Image == "" && req.ReleasedImage == "" {
		return fmt.Errorf("%w; and where nothing is installed yet, name the controller's image with --image", err)
	}
	return err
}

// finish waits for the controller and prints how to go on.
func (f *bootstrapFlags) finish(ctx context.Context, b *bootstrap.Bootstrap, streams Streams) error {
	if err := b.WaitAvailable(ctx, f.timeout); err != nil {
		return err
	}
	if waits := b.WaitsFor(ctx); waits != "" {
		fmt.Fprintf(streams.Err, "Sync %s does not follow the repository yet: %s\n", b.SyncName, waits)
		return nil
	}
	fmt.Fprintf(streams.Err, "Sync %s follows the repository; for its status run: kubectl -n %s get sync %s\n", b.SyncName, f.conn.namespace, b.SyncName)
	return nil
}

// planned makes the plan. The repository's problems are listed as lint does.
func planned(ctx context.Context, req bootstrap.Request, streams Streams) (*bootstrap.Bootstrap, error) {
	b, err := bootstrap.Plan(ctx, req)
	if problems, ok := errors.AsType[*targets.ProblemsError](err); ok {
		for _, p := range problems.Problems {
			fmt.Fprintln(streams.Out, p)
		}
		return nil, fmt.Errorf("%s in %s: nothing was installed", plural.Count(len(problems.Problems), "finding"), req.Dir)
	}
	return b, err
}

// apply gets a confirmation, makes the changes, and shows what became of them where
// that was not all, or where nothing was shown before.
func (f *bootstrapFlags) apply(ctx context.Context, b *bootstrap.Bootstrap, streams Streams, planPrinted bool) error {
	print, err := printer(f.output, report.Options{Color: f.color.On(streams.Out)}, streams)
	if err != nil {
		return err
	}
	if err := f.confirmation.prompt(ctx, streams, confirmPrompt(b)); err != nil {
		return err
	}
	if b.ChangeCount() == 0 {
		return nil
	}
	r, err := b.Apply(ctx)
	if err != nil || !planPrinted {
		if printed := print(r); printed != nil {
			return fmt.Errorf("writing the outcome: %w", printed)
		}
	}
	if err != nil {
		return fmt.Errorf("installing: %w; run the same command again to continue", err)
	}
	fmt.Fprintf(streams.Err, "made %s\n", plural.Count(b.ChangeCount(), "change"))
	return nil
}

// confirmPrompt is the prompt for all that is going to be done.
func confirmPrompt(b *bootstrap.Bootstrap) string {
	var parts []string
	if n := b.ChangeCount(); n > 0 {
		parts = append(parts, "make "+plural.Count(n, "change"))
	}
	if name, err := b.TakesOver(); err == nil && name != "" {
		parts = append(parts, "take over from Deployment "+name)
	}
	changes := strings.Join(parts, " and ")
	return strings.ToUpper(changes[:1]) + changes[1:] + "?"
}

// progressTo writes progress, one line at a time.
func progressTo(streams Streams) func(string) {
	return func(line string) { fmt.Fprintln(streams.Err, strings.ReplaceAll(line, "\n", " ")) }
}
