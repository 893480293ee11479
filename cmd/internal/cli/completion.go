package cli

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// completionTimeout is how long a shell waits for the names of Syncs.
const completionTimeout = 3 * time.Second

// complete completes the name of a Sync, and the flags of the connection.
func (c *connection) complete(cmd *cobra.Command) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		return c.syncNames(ctx), cobra.ShellCompDirectiveNoFileComp
	}
	c.completeConnection(cmd)
}

// syncNames are the Syncs of the namespace, or none where they cannot be listed.
func (c *connection) syncNames(ctx context.Context) []string {
	return c.names(ctx, &v1alpha1.SyncList{}, client.InNamespace(c.namespace))
}

// names are the names of the objects of a list, or none where they cannot be listed.
func (c *connection) names(ctx context.Context, list client.ObjectList, options ...client.ListOption) (names []string) {
	cl, err := c.client()
	if err != nil {
		return nil
	}
	if err := cl.List(ctx, list, options...); err != nil {
		return nil
	}
	// An error is one of what is no object.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err == nil {
			names = append(names, object.GetName())
		}
		return err
	})
	return names
}

// completeConnection completes what the kubeconfig has, and namespaces.
func (c *connection) completeConnection(cmd *cobra.Command) {
	for flag, known := range map[string]func(clientcmdapi.Config) []string{
		clientcmd.FlagContext:      func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Contexts)) },
		clientcmd.FlagClusterName:  func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Clusters)) },
		clientcmd.FlagAuthInfoName: func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.AuthInfos)) },
	} {
		completeFlag(cmd, flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			config, err := c.loader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return known(config), cobra.ShellCompDirectiveNoFileComp
		})
	}
	completeFlag(cmd, "namespace", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		return c.names(ctx, &corev1.NamespaceList{}), cobra.ShellCompDirectiveNoFileComp
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
