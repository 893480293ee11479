package controller

import (
	"github.com/poolwright/poolwright/internal/truncate"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// The bounds in bytes of what a pending change repeats of a repository or of a
// response: a name in Git may be a megabyte long, and etcd takes 1.5 for the whole
// Sync.
const (
	nameLimit   = 1024
	reasonLimit = 8192
)

// limited is text that others may have written as a status shows it: sanitized, and of at
// most so many bytes.
func limited(text string, most int) string { return truncate.Bytes(sanitize.Text(text), most) }

// listedName is the name of an object or a file as a status lists it: one that resembles a token is
// what a person has to read.
func listedName(name string) string { return truncate.Bytes(sanitize.Escape(name), nameLimit) }

// requiredConfirmation is what a person has to confirm of a Sync.
type requiredConfirmation struct {
	// tokens are those of all that the run found to wait, and retained is what waited before and the run could
	// not compute.
	tokens   []hold.Token
	retained pending.Retained
	// quote is the one confirmation of both.
	quote string
}
