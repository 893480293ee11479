package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// completionTimeout is how long a shell waits for the names of Syncs.
const completionTimeout = 3 * time.Second

// complete completes the name of a Sync, and --context.
func (c *connection) complete(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		return c.syncNames(ctx), cobra.ShellCompDirectiveNoFileComp
	}
	c.completeContexts(cmd)
}

// syncNames are the Syncs of the namespace, or none where they cannot be listed.
func (c *connection) syncNames(ctx context.Context) []string {
	cl, err := c.client()
	if err != nil {
		return nil
	}
	list := &v1alpha1.SyncList{}
	if err := cl.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
		return nil
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (c *connection) completeContexts(cmd *cobra.Command) {
	completeFlag(cmd, "context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return contexts(c.loader()), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeOutput completes -o with the formats of a command.
func completeOutput(cmd *cobra.Command, formats ...string) {
	completeFlag(cmd, "output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlag(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	// An error is only possible for a flag that the command does not have; the tests complete each.
	_ = cmd.RegisterFlagCompletionFunc(flag, by)
}
