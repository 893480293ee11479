package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Color is the value of the flag --color: auto, which the zero value is, always or never.
type Color string

// The values of Color.
const (
	ColorAuto   Color = "auto"
	ColorAlways Color = "always"
	ColorNever  Color = "never"
)

var colors = []string{string(ColorAuto), string(ColorAlways), string(ColorNever)}

// AddTo adds the flag to a command, whose values are completed.
func (c *Color) AddTo(cmd *cobra.Command) {
	cmd.Flags().Var(c, "color", "auto, always or never; auto is for a terminal where NO_COLOR is not set")
	// An error is only possible for a flag that the command does not have.
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp))
}

// On reports whether text for out has colours.
func (c Color) On(out io.Writer) bool {
	switch c {
	case ColorAlways:
		return true
	case ColorNever:
		return false
	case ColorAuto:
	}
	f, is := out.(*os.File)
	return is && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(f.Fd()))
}

// String implements pflag.Value.
func (c *Color) String() string {
	if *c == "" {
		return string(ColorAuto)
	}
	return string(*c)
}

// Set implements pflag.Value.
func (c *Color) Set(value string) error {
	if !slices.Contains(colors, value) {
		return fmt.Errorf("%q is not one of %s", value, strings.Join(colors, ", "))
	}
	*c = Color(value)
	return nil
}

// Type implements pflag.Value.
func (c *Color) Type() string { return "string" }
