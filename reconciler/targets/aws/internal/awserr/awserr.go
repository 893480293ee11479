// Package awserr classifies the errors of requests to AWS, by their codes, and describes them
// with what a person can do. It has no text of AWS's repeated that holds an encoded
// authorization message, a key or the ARN of a session, and takes no refusal for a proof that
// something does not exist. Start reading at Fail and at IsNotFound.
package awserr

import (
	"errors"
	"fmt"
)

// ErrNotPropagated marks a refusal that AWS takes back by itself within seconds.
var ErrNotPropagated = errors.New("AWS has not caught up with an earlier change yet")

// NotPropagated marks the error of a request that AWS refuses because an earlier one, such as
// the creation of the role that it names, has not taken effect everywhere yet. The write
// is tried again. It returns nil for nil.
func NotPropagated(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotPropagated, err)
}

// ErrCredentials marks the failure to find credentials at all.
var ErrCredentials = errors.New("no AWS credentials were found")

// ErrConfig marks a configuration of the SDK that leads nowhere.
var ErrConfig = errors.New("AWS cannot be reached as configured")

// ErrNoResponse marks a request that was not sent, or not waited for to its end,
// because its service does not respond.
var ErrNoResponse = errors.New("no response in time")

// CallError is the error of a call, with where it went.
type CallError struct {
	Service, Region string
	Cause           error
}

// Error names the service.
func (e *CallError) Error() string {
	return fmt.Sprintf("%s in %s: %s", e.Service, e.Region, e.Cause)
}

// Unwrap returns the error that AWS or the network returned.
func (e *CallError) Unwrap() error { return e.Cause }

// ErrWritesDisabled marks a write that was not sent because this process may not
// write any more.
var ErrWritesDisabled = errors.New("nothing may be written at this moment")

// AccountError reports that the credentials belong to another account.
type AccountError struct{ Have, Expected string }

// Error names both accounts.
func (e *AccountError) Error() string {
	return fmt.Sprintf("the AWS credentials are of account %s, and the Cluster is in account %s: use credentials of %s, or correct spec.account", e.Have, e.Expected, e.Expected)
}
