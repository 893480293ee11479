package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

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
