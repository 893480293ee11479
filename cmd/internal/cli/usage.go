package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// completionTimeout is how long a shell waits for the names of Syncs.
const completionTimeout = 3 * time.Second

// flagError is what is printed for a flag that a command does not have, or that has another
// form: with the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if meant := manifest.Meant(unknown.GetSpecifiedName(), known); meant != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, meant)
		}
	}
	return usageError(cmd, err)
}

// usageError is the error with the command that prints the usage, as kubectl has it.
func usageError(cmd *cobra.Command, err error) error {
	return fmt.Errorf("%w\nFor the usage, run: %s --help", err, cmd.CommandPath())
}

// oneArgument accepts one argument, and what it is in the error for another number. Where it
// may be left out, so it may.
func oneArgument(what string, optional bool) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return usageError(cmd, fmt.Errorf("%s takes one argument, %s, and got %d: %s", cmd.Name(), what, len(args), strings.Join(args, " ")))
		case len(args) == 0 && !optional:
			return usageError(cmd, fmt.Errorf("%s needs an argument: %s", cmd.Name(), what))
		}
		return nil
	}
}

// noArguments accepts none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError(cmd, fmt.Errorf("%s takes no argument, and got: %s", cmd.Name(), strings.Join(args, " ")))
	}
	return nil
}

// folderOf is the folder that an optional argument names: the current one by default.
func folderOf(args []string) string {
	if len(args) == 0 {
		return "."
	}
	return args[0]
}

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
