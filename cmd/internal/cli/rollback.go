package cli

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
)

func newRollback(conn *connection, streams Streams) *cobra.Command {
	c := &syncCommand{conn: conn, streams: streams}
	var wait waitFlags
	var to, reason string
	cmd := &cobra.Command{
		Use:   "rollback [SYNC] --to REVISION",
		Short: "Apply an earlier commit, and stay there until the rollback is ended",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := wait.bounded(cmd.Context())
			defer cancel()
			return c.on(ctx, args, func(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync) error {
				change, err := rollback.To(sync, to, reason)
				if err != nil {
					return err
				}
				wait.wait = wait.wait && !sync.Spec.Suspend
				return request(ctx, cl, sync, wait, streams.Err, change)
			})
		},
	}
	wait.add(cmd)
	cmd.Flags().StringVar(&to, "to", "", "the commit to apply, of 40 digits, also as main@sha1:COMMIT (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others to read: in an annotation of the Sync until the rollback is ended")
	return c.addTo(cmd)
}
