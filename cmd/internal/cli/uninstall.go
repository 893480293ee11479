package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/uninstall"
)

func newUninstall(conn *connection, streams Streams) *cobra.Command {
	var req uninstall.Request
	var confirmation yesNo
	var output string
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the controller; pools, nodes and AWS stay as they are",
		Long: `Remove the controller, its Syncs and its CRDs from a cluster. What the Syncs applied stays: NodePools, nodes,
workloads, and resources in AWS. --drain removes the nodes of the pools first. Where the engine was embedded,
Karpenter's finalizers are removed as well, since no controller is left that would.

The steps are listed and have to be confirmed. A run that was interrupted is completed by the next one.

Exit codes: 0 done or nothing to do, 1 not done (--dry-run, or not confirmed), 2 an error.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(objectOutputs.check(output), confirmation.possible(streams)); err != nil {
				return err
			}
			var err error
			if req.REST, err = conn.restConfig(); err != nil {
				return err
			}
			req.Namespace, req.Progress = conn.namespace, progressTo(streams)
			u, err := uninstall.Plan(cmd.Context(), req)
			if err != nil {
				return err
			}
			removal := u.Removal()
			err = remove(cmd.Context(), u, req, confirmation, streams, output == objectOutputs[0])
			removal.Done = err == nil
			if failed(err) {
				return err
			}
			return cmp.Or(removal.Print(streams.Out, output), err)
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&req.Drain, "drain", false, "drain and terminate the pools' nodes first")
	cmd.Flags().BoolVar(&req.ReleaseFinalizers, "release-finalizers", false, "remove Karpenter's finalizers also where no Cluster declares an embedded engine")
	cmd.Flags().DurationVar(&req.Timeout, "timeout", 15*time.Minute, "how long to wait for nodes, and for each deletion")
	confirmation.addFlags(cmd.Flags())
	conn.completeConnection(cmd)
	objectOutputs.addTo(cmd, &output)
	return cmd
}

// remove lists what would be done, on standard output where nothing else is printed there, and carries it out once it is confirmed.
func remove(ctx context.Context, u *uninstall.Uninstall, req uninstall.Request, confirmation yesNo, streams Streams, text bool) error {
	if len(u.Steps()) == 0 {
		fmt.Fprintf(streams.Err, "nothing of Poolwright is installed in namespace %s\n", req.Namespace)
		return nil
	}
	listing := streams.Err
	if text {
		listing = streams.Out
	}
	u.List(listing)
	for _, w := range u.Warnings {
		fmt.Fprintln(streams.Err, "Warning:", w)
	}
	if err := confirmation.prompt(ctx, streams, "Uninstall Poolwright?"); err != nil {
		return err
	}
	if err := u.Run(ctx); err != nil {
		return fmt.Errorf("uninstalling: %w", err)
	}
	fmt.Fprintln(streams.Err, "Poolwright is uninstalled")
	return nil
}
