package apply

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/poolwright/poolwright/reconciler/state"
)

// PanicError is a panic, as of a target, turned into the error of what was being
// done.
type PanicError struct {
	// Value is what it panicked with. It may hold anything, secrets
	// included: do not print it.
	Value any
	// Stack is where it panicked, for a log.
	Stack []byte
}

// Error shows the panic's text when the Go runtime wrote it, otherwise only
// the type of the value.
func (e *PanicError) Error() string {
	if err, ok := e.Value.(runtime.Error); ok {
		return "panic: " + err.Error()
	}
	return fmt.Sprintf("panic with a %T", e.Value)
}

// Recover calls f and turns its panic into a PanicError with the class Retry and the reason
// Panic, so that one Sync's input does not end the process.
func Recover(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = state.Fail(state.Retry, "Panic", &PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	return f()
}
