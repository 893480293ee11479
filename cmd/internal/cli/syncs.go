package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/follow"
	"github.com/poolwright/poolwright/cmd/internal/uninstall"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
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

func newReconcile(conn *connection, streams Streams) *cobra.Command {
	var wait waitFlags
	var update bool
	cmd := &cobra.Command{
		Use:   "reconcile [SYNC]",
		Short: "Fetch, compare and apply now instead of at the next interval",
		Args:  oneArgument("the name of a Sync", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := wait.bounded(cmd.Context())
			defer cancel()
			return onSync(ctx, conn, args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				if sync.Spec.Suspend && sync.DeletionTimestamp.IsZero() {
					return fmt.Errorf("Sync %s is suspended%s; run: poolwright resume %s", sync.Name, suspendReason(sync), sync.Name)
				}
				if update {
					return updateParameters(ctx, cl, sync, wait, streams.Err)
				}
				return request(ctx, cl, sync, wait, streams.Err, func(*v1alpha1.Sync) {})
			})
		},
	}
	conn.addFlags(cmd.Flags())
	conn.complete(cmd)
	wait.add(cmd)
	cmd.Flags().BoolVar(&update, "update-parameters", false, "update the SSM parameters of spec.substituteFrom to their newest values")
	return cmd
}

func newResume(conn *connection, streams Streams) *cobra.Command {
	var wait waitFlags
	cmd := &cobra.Command{
		Use:   "resume [SYNC]",
		Short: "Resume a suspended Sync, or one that is rolled back",
		Args:  oneArgument("the name of a Sync", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := wait.bounded(cmd.Context())
			defer cancel()
			return onSync(ctx, conn, args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				if err := raisePools(ctx, conn, streams.Err); err != nil {
					return err
				}
				return request(ctx, cl, sync, wait, streams.Err, resume(sync))
			})
		},
	}
	conn.addFlags(cmd.Flags())
	conn.complete(cmd)
	wait.add(cmd)
	return cmd
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

// suspended is what a person reads once the Sync is suspended.
func suspended(sync *v1alpha1.Sync) string {
	if sync.DeletionTimestamp != nil {
		return fmt.Sprintf("Sync %s is suspended; it is being deleted, and leaves what is not deleted yet", sync.Name)
	}
	return fmt.Sprintf("Sync %s is suspended; resume it with: poolwright resume %s", sync.Name, sync.Name)
}

// suspend suspends a Sync, for the reason of this time and no other.
func suspend(ctx context.Context, cl client.Client, sync *v1alpha1.Sync, reason string) error {
	before := sync.DeepCopy()
	resumed(sync)
	sync.Spec.Suspend = true
	if reason != "" {
		metav1.SetMetaDataAnnotation(&sync.ObjectMeta, v1alpha1.SuspendReasonAnnotation, reason)
	}
	if err := cl.Patch(ctx, sync, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("suspending Sync %s: %w", sync.Name, err)
	}
	return nil
}

// resumed is the change that ends a suspension.
func resumed(sync *v1alpha1.Sync) {
	sync.Spec.Suspend = false
	delete(sync.Annotations, v1alpha1.SuspendReasonAnnotation)
}

// resume is the change that resumes a Sync: one that is suspended and rolled back stays rolled back, so that
// what was kept from being applied is not applied with the end of a suspension.
func resume(sync *v1alpha1.Sync) func(*v1alpha1.Sync) {
	if sync.Spec.Suspend {
		return resumed
	}
	return rollback.End
}

// suspendReason is why a Sync was suspended, behind a colon; empty where nobody named a reason.
func suspendReason(sync *v1alpha1.Sync) string {
	reason := sync.Annotations[v1alpha1.SuspendReasonAnnotation]
	if reason == "" {
		return ""
	}
	return ": " + sanitize.Text(reason)
}

func newSuspend(conn *connection, streams Streams) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "suspend [SYNC]",
		Short: "Stop fetching, applying and correcting; nodes are still launched and terminated",
		Args:  oneArgument("the name of a Sync", true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onSync(cmd.Context(), conn, args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				if err := suspend(ctx, cl, sync, reason); err != nil {
					return err
				}
				fmt.Fprintln(streams.Err, suspended(sync))
				return nil
			})
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others to read: in an annotation of the Sync until it is resumed")
	conn.complete(cmd)
	return cmd
}

// onSync runs do on the named Sync, or on the only one there is.
func onSync(ctx context.Context, conn *connection, args []string, do func(context.Context, client.WithWatch, *v1alpha1.Sync) error) error {
	cl, err := conn.client()
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	sync, err := findSync(ctx, cl, conn.namespace, name)
	if err != nil {
		return err
	}
	return do(ctx, cl, sync)
}

// errNoSync reports that the namespace holds no Sync at all.
var errNoSync = errors.New("no Sync found")

func findSync(ctx context.Context, cl client.Client, namespace, name string) (*v1alpha1.Sync, error) {
	if name != "" {
		var sync v1alpha1.Sync
		err := cl.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &sync)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("no Sync %q in namespace %s; to list those that there are, run: kubectl get syncs -A", name, namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Sync %s: %w", name, err)
		}
		return &sync, nil
	}
	var list v1alpha1.SyncList
	err := cl.List(ctx, &list, client.InNamespace(namespace))
	switch {
	case meta.IsNoMatchError(err), err == nil && len(list.Items) == 0:
		return nil, fmt.Errorf("%w in namespace %s; choose another with -n", errNoSync, namespace)
	case err != nil:
		return nil, fmt.Errorf("listing Syncs: %w", err)
	case len(list.Items) > 1:
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		return nil, fmt.Errorf("namespace %s holds several Syncs, name one of them: %s", namespace, strings.Join(names, ", "))
	}
	return &list.Items[0], nil
}

// request has the controller run and follows it to its end.
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
	if !wait.wait {
		return nil
	}
	waiting, cancel := wait.bounded(ctx)
	defer cancel()
	done, err := follow.UntilHandled(waiting, cl, sync, token)
	switch {
	case errors.Is(err, follow.ErrDeleted) && !sync.DeletionTimestamp.IsZero():
		fmt.Fprintf(progress, "Sync %s is deleted\n", sync.Name)
		return nil
	case done == nil && errors.Is(ctx.Err(), context.Canceled):
		return &exit{code: exitInterrupted, err: fmt.Errorf("interrupted: the controller still handles the request; follow it with: kubectl -n %s get syncs.poolwright.dev %s -w", sync.Namespace, sync.Name)}
	case err != nil:
		return err
	case done == nil:
		return fmt.Errorf("Sync %s was not handled within %s; is the controller running? To check, run: kubectl -n %s get pods", sync.Name, wait.timeout, sync.Namespace)
	}
	ready := conditions.Get(done, fluxmeta.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue {
		return &exit{code: exitDifferent, err: fmt.Errorf("Sync %s is not ready: %s%s", sync.Name, readyMessage(ready), beside(done))}
	}
	fmt.Fprintf(progress, "%s%s\n", ready.Message, beside(done))
	return nil
}

func readyMessage(c *metav1.Condition) string {
	if c == nil {
		return "no Ready condition yet"
	}
	return c.Reason + ": " + c.Message
}

// beside are the messages on a confirmation that matches no pending change, and on a rollback, each on a line
// of its own; empty where there is none.
func beside(sync *v1alpha1.Sync) string {
	var out strings.Builder
	for _, kind := range []string{"ConfirmationMismatch", rollback.Condition} {
		if c := conditions.Get(sync, kind); c != nil && c.Status == metav1.ConditionTrue {
			fmt.Fprintf(&out, "\n%s: %s", c.Type, c.Message)
		}
	}
	return out.String()
}
