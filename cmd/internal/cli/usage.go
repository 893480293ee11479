package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/terminal"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
)

// flagError is what is printed for a flag that a command does not have, or that has another
// form: with the flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			known = append(known, f.Name)
		})
		if meant := manifest.ClosestName(unknown.GetSpecifiedName(), known); meant != "" {
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

// fitHelp breaks what help prints at the width of the terminal.
func fitHelp(root *cobra.Command, streams Streams) {
	width := terminal.HelpWidthOf(streams.Out)
	cobra.AddTemplateFunc("reflow", func(text string) string { return terminal.Reflow(text, width) })
	cobra.AddTemplateFunc("flagUsages", func(flags *pflag.FlagSet) string {
		return strings.TrimRight(flags.FlagUsagesWrapped(width), " \n")
	})
	root.SetUsageTemplate(strings.NewReplacer(
		".LocalFlags.FlagUsages | trimTrailingWhitespaces", "flagUsages .LocalFlags",
		".InheritedFlags.FlagUsages | trimTrailingWhitespaces", "flagUsages .InheritedFlags",
	).Replace(root.UsageTemplate()))
	root.SetHelpTemplate(strings.Replace(root.HelpTemplate(), ". | trimTrailingWhitespaces", "reflow .", 1))
}

// prepare has libraries act as a person at a laptop expects it of a command: none writes to the standard error, and
// none requests credentials from the metadata of an EC2 instance, which takes seconds where there is none. On an
// instance, AWS's own variable allows that. The controller and its children decide for themselves.
func prepare(command string) {
	if command == "run" || command == "child" {
		return
	}
	installation.DiscardLogs()
	const variable = "AWS_EC2_METADATA_DISABLED"
	if _, decided := os.LookupEnv(variable); !decided {
		// An error is possible only for a name with a "=" or a NUL.
		_ = os.Setenv(variable, "true")
	}
}
