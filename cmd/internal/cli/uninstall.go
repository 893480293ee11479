package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/internal/uninstall"
)

func newUninstall(conn *connection, streams Streams) *cobra.Command {
	var req uninstall.Request
	var confirmation yesNo
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
			if err := confirmation.possible(streams); err != nil {
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
			if len(u.Steps()) == 0 {
				fmt.Fprintf(streams.Err, "nothing of Poolwright is installed in namespace %s\n", req.Namespace)
				return nil
			}
			printRemoval(streams.Out, u, req)
			for _, w := range u.Warnings {
				fmt.Fprintln(streams.Err, "Warning:", w)
			}
			if err := confirmation.prompt(cmd.Context(), streams, "Uninstall Poolwright?"); err != nil {
				return err
			}
			if err := u.Run(cmd.Context()); err != nil {
				return fmt.Errorf("uninstalling: %w", err)
			}
			fmt.Fprintln(streams.Err, "Poolwright is uninstalled")
			return nil
		},
	}
	conn.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&req.Drain, "drain", false, "drain and terminate the pools' nodes first")
	cmd.Flags().BoolVar(&req.ReleaseFinalizers, "release-finalizers", false, "remove Karpenter's finalizers also where no Cluster declares an embedded engine")
	cmd.Flags().DurationVar(&req.Timeout, "timeout", 15*time.Minute, "how long to wait for nodes, and for each deletion")
	confirmation.addFlags(cmd.Flags())
	conn.completeConnection(cmd)
	return cmd
}

// printRemoval lists what would be done and what stays.
func printRemoval(out io.Writer, u *uninstall.Uninstall, req uninstall.Request) {
	fmt.Fprintf(out, "Uninstalling Poolwright from %s, namespace %s:\n", req.REST.Host, req.Namespace)
	for i, text := range u.Steps() {
		fmt.Fprintf(out, "%3d. %s\n", i+1, text)
	}
	fmt.Fprintln(out, "\nWhat stays:")
	for _, text := range u.Remaining {
		fmt.Fprintf(out, "  - %s\n", text)
	}
}
