package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/reconciliation"
	"github.com/poolwright/poolwright/cmd/internal/uninstall"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// waitFlags are how long a command follows what it requested.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

// bounded ends a context after the timeout. Commands do so before their first request.
func (w *waitFlags) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, w.timeout)
}

func (w *waitFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", true, "wait until the Sync is ready")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 5*time.Minute, "how long to wait")
}

// syncCommand is a command that changes one Sync.
type syncCommand struct {
	conn    *connection
	streams Streams
	output  string
}

// addTo adds what such commands have in common: one argument, the connection, and -o.
func (c *syncCommand) addTo(cmd *cobra.Command) *cobra.Command {
	cmd.Args = oneArgument("the name of a Sync", true)
	c.conn.addFlags(cmd.Flags())
	c.conn.complete(cmd)
	objectOutputs.addTo(cmd, &c.output)
	return cmd
}

// on runs do on the named Sync, or on the only one there is, and prints what became of it, also where it is not ready.
func (c *syncCommand) on(ctx context.Context, args []string, do func(context.Context, client.WithWatch, *v1alpha1.Sync) error) error {
	if err := objectOutputs.check(c.output); err != nil {
		return err
	}
	cl, err := c.conn.client()
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	sync, err := reconciliation.FindSync(ctx, cl, c.conn.namespace, name)
	if err != nil {
		return err
	}
	err = do(ctx, cl, sync)
	if c.output == objectOutputs[0] || failed(err) {
		return err
	}
	return cmp.Or(c.conn.environment(c.streams).WriteSync(c.output, sync), err)
}

func newReconcile(conn *connection, streams Streams) *cobra.Command {
	c := &syncCommand{conn: conn, streams: streams}
	var wait waitFlags
	var update bool
	cmd := &cobra.Command{
		Use:   "reconcile [SYNC]",
		Short: "Fetch, compare and apply now instead of at the next interval",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := wait.bounded(cmd.Context())
			defer cancel()
			return c.on(ctx, args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				if sync.Spec.Suspend && sync.DeletionTimestamp.IsZero() {
					return fmt.Errorf("Sync %s is suspended%s; run: poolwright resume %s", sync.Name, suspension.Details(sync), sync.Name)
				}
				if update {
					return updateParameters(ctx, cl, sync, wait, streams.Err)
				}
				return request(ctx, cl, sync, wait, streams.Err, func(*v1alpha1.Sync) {})
			})
		},
	}
	wait.add(cmd)
	cmd.Flags().BoolVar(&update, "update-parameters", false, "update the SSM parameters of spec.substituteFrom to their newest values")
	return c.addTo(cmd)
}

func newResume(conn *connection, streams Streams) *cobra.Command {
	c := &syncCommand{conn: conn, streams: streams}
	var wait waitFlags
	var endRollback bool
	cmd := &cobra.Command{
		Use:   "resume [SYNC]",
		Short: "Resume a suspended Sync, or one that is rolled back",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := wait.bounded(cmd.Context())
			defer cancel()
			return c.on(ctx, args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				change, err := resume(sync, endRollback)
				if err != nil {
					return err
				}
				if err := raisePools(ctx, conn, streams.Err); err != nil {
					return err
				}
				return request(ctx, cl, sync, wait, streams.Err, change)
			})
		},
	}
	wait.add(cmd)
	cmd.Flags().BoolVar(&endRollback, "rollback", false, "end a rollback: apply what the branch or tag leads to")
	return c.addTo(cmd)
}

// raisePools takes back what an uninstall --drain did that was cut off: whoever
// takes up a Sync again has decided against it.
func raisePools(ctx context.Context, conn *connection, progress io.Writer) error {
	cfg, err := conn.restConfig()
	if err != nil {
		return err
	}
	return uninstall.RestoreLimits(ctx, cfg, progress)
}

// resume is the change that resumes a Sync: one that is suspended and rolled back stays rolled back, so that
// what was kept from being applied is not applied with the end of a suspension. A suspension may have ended by itself meanwhile: only
// who names the rollback ends it.
func resume(sync *v1alpha1.Sync, endRollback bool) (func(*v1alpha1.Sync), error) {
	switch {
	case sync.Spec.Suspend && endRollback:
		return nil, fmt.Errorf("Sync %s is suspended%s; to end that first, run: poolwright resume %s", sync.Name, suspension.Details(sync), sync.Name)
	case sync.Spec.Suspend:
		return suspension.End, nil
	case rollback.Of(sync) != "" && !endRollback:
		return nil, fmt.Errorf("Sync %s is not suspended, and is rolled back: %s", sync.Name, rollback.Message(sync))
	}
	return rollback.End, nil
}

func newSuspend(conn *connection, streams Streams) *cobra.Command {
	c := &syncCommand{conn: conn, streams: streams}
	var reason string
	var length time.Duration
	var overwrite bool
	cmd := &cobra.Command{
		Use:     "suspend [SYNC]",
		Short:   "Stop fetching, applying and correcting; nodes are still launched and terminated",
		Example: "  poolwright suspend dev --for 2h --reason 'EKS is upgraded'",
		RunE: func(cmd *cobra.Command, args []string) error {
			var until time.Time
			if cmd.Flags().Changed("for") {
				if length < time.Second {
					return usageError(cmd, fmt.Errorf("--for %s is shorter than a second: give how long to suspend, such as 2h or 30m", length))
				}
				until = time.Now().Add(length)
			}
			return c.on(cmd.Context(), args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				err := suspension.Suspend(ctx, cl, sync, reason, until, overwrite)
				if errors.Is(err, suspension.ErrSuspended) {
					return fmt.Errorf("%w; to replace that, give --overwrite", err)
				}
				if err != nil {
					return err
				}
				fmt.Fprintln(streams.Err, suspension.Message(sync))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others to read: in an annotation of the Sync until it is resumed")
	cmd.Flags().DurationVar(&length, "for", 0, "how long, such as 2h: then the controller resumes it (default: until somebody resumes it)")
	cmd.Flags().BoolVar(&overwrite, "overwrite", false, "replace a suspension that ends later, or has another reason")
	return c.addTo(cmd)
}

// request has the controller run and follows it to its end. The Sync is then as it was received last.
func request(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync, wait waitFlags, progress io.Writer, change func(*v1alpha1.Sync)) error {
	token := time.Now().Format(time.RFC3339Nano)
	before := sync.DeepCopy()
	if sync.Annotations == nil {
		sync.Annotations = map[string]string{}
	}
	sync.Annotations[fluxmeta.ReconcileRequestAnnotation] = token
	change(sync)
	if err := cl.Patch(ctx, sync, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("requesting a run of Sync %s: %w", sync.Name, err)
	}
	fmt.Fprintf(progress, "requested a run of Sync %s\n", sync.Name)
	if err := installation.CheckRequest(ctx, cl, sync, progress); err != nil {
		return err
	}
	if !wait.wait {
		return nil
	}
	waiting, cancel := wait.bounded(ctx)
	defer cancel()
	done, err := reconciliation.UntilHandled(waiting, cl, sync, token)
	if done != nil {
		done.DeepCopyInto(sync)
	}
	switch {
	case errors.Is(err, reconciliation.ErrDeleted) && !sync.DeletionTimestamp.IsZero():
		fmt.Fprintf(progress, "Sync %s is deleted\n", sync.Name)
		return nil
	case done == nil && errors.Is(ctx.Err(), context.Canceled):
		return &exit{code: exitInterrupted, err: fmt.Errorf("interrupted: the controller still handles the request; follow it with: kubectl -n %s get syncs.poolwright.dev %s -w", sync.Namespace, sync.Name)}
	case err != nil:
		return err
	case done == nil:
		return fmt.Errorf("Sync %s was not handled within %s; is the controller running? To check, run: kubectl -n %s get pods", sync.Name, wait.timeout, sync.Namespace)
	}
	message, ready := reconciliation.Result(done)
	if !ready {
		return &exit{code: exitDifferent, err: fmt.Errorf("Sync %s is not ready: %s", sync.Name, message)}
	}
	fmt.Fprintln(progress, message)
	return nil
}
