package api

import (
	"fmt"
	"net/http"
)

// Error is an error as AWS sends it.
type Error struct {
	Status        int // of HTTP
	Code, Message string
}

// Error is the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// NewError is an error with an HTTP status.
func NewError(status int, code, message string) *Error {
	return &Error{Status: status, Code: code, Message: message}
}

// Refuse is an Error of status 400, the usual one.
func Refuse(code, format string, args ...any) error {
	return NewError(http.StatusBadRequest, code, fmt.Sprintf(format, args...))
}

// ErrDryRun is what EC2 returns for a dry run that would have succeeded.
func ErrDryRun() error {
	return NewError(http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
}
