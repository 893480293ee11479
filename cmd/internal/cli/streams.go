package cli

import (
	"fmt"
	"io"
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

// counted writes a number of things.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
