// Command poolwright-sandbox runs a whole EKS-like environment on this machine, for
// trying and testing Poolwright: a real control plane, AWS emulated at the wire,
// kubelets emulated by kwok and a real Gitea, all on loopback. It starts the
// product as a child process, as a user would.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/poolwright/poolwright/cmd/poolwright-sandbox/setups"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// completeSetup completes the names of the flag --setup.
func completeSetup(cmd *cobra.Command) {
	// An error is only possible for a flag that the command does not have; a test completes each.
	_ = cmd.RegisterFlagCompletionFunc("setup", cobra.FixedCompletions(setups.Names(), cobra.ShellCompDirectiveNoFileComp))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "poolwright-sandbox",
		Short:         "An EKS-like environment on this machine, without Docker, cloud account or network",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newUp(), newDemo(), newProve(), newBench())
	return root
}
