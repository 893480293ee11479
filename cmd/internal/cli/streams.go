package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/poolwright/poolwright/cmd/internal/document"
)

// Streams are where a command reads and writes: results go to Out, progress
// and errors to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// The exit codes, as kubectl diff has them.
const (
	exitSame      = 0
	exitDifferent = 1
	exitError     = 2
	// exitInterrupted is what a shell reports of a command that SIGINT ended, such as
	// kubectl wait or flux: 128 and the signal's number.
	exitInterrupted = 130
)

// exit is an error that carries an exit code. Without a message nothing is
// printed: the output is on Out.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// failed reports whether a command has no result because of an error: one that found a difference has.
func failed(err error) bool {
	e, is := errors.AsType[*exit](err)
	return err != nil && (!is || e.code != exitDifferent)
}

// outputs are the formats of -o of a command, the default first.
type outputs []string

// documents are the formats of the commands that print one text or document.
var documents = append(outputs{"text"}, document.Formats()...)

// objectOutputs are the formats of the commands that change objects, or wait for one.
var objectOutputs = outputs(document.ObjectFormats())

// addTo adds the flag, whose values are completed.
func (o outputs) addTo(cmd *cobra.Command, value *string) {
	cmd.Flags().StringVarP(value, "output", "o", o[0], strings.Join(o[:len(o)-1], ", ")+" or "+o[len(o)-1])
	completeOutput(cmd, o...)
}

// check refuses any other.
func (o outputs) check(value string) error {
	return document.CheckFormat(value, o)
}

// yesNo is a person's yes or no to what was shown.
type yesNo struct{ yes, dryRun bool }

func (a *yesNo) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&a.yes, "yes", false, "skip the confirmation")
	flags.BoolVar(&a.dryRun, "dry-run", false, "show what would be done, and do nothing")
}

// errNobody reports that there is nobody to confirm.
var errNobody = errors.New("there is no terminal to confirm at: pass --yes to skip it, or --dry-run to show what would be done")

// errNo is a no. What was shown remains to be done.
var errNo = &exit{code: exitDifferent, err: errors.New("nothing was changed")}

// possible refuses at once what would have to prompt and cannot.
func (a *yesNo) possible(streams Streams) error {
	if a.yes || a.dryRun || canPrompt(streams.In) {
		return nil
	}
	return errNobody
}

// prompt returns nil for a yes.
func (a *yesNo) prompt(ctx context.Context, streams Streams, prompt string) error {
	switch {
	case a.dryRun:
		return &exit{code: exitDifferent}
	case a.yes:
		return nil
	}
	fmt.Fprint(streams.Err, prompt, " [y/N] ")
	typed := make(chan string, 1)
	go func() {
		// An end of the input is a no.
		line, _ := bufio.NewReader(streams.In).ReadString('\n')
		typed <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(streams.Err)
		return errNo
	case line := <-typed:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return errNo
	}
}

// canPrompt reports whether a person types into in. Whoever hands over a reader
// that is no file, as tests do, confirms by it.
func canPrompt(in any) bool {
	f, ok := in.(*os.File)
	if !ok {
		return in != nil
	}
	return term.IsTerminal(int(f.Fd()))
}
