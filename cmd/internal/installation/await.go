package installation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// PollInterval is how often something is read while it is waited for.
const PollInterval = time.Second

// Await calls check again and again until it is done or the time is up. Each new
// sentence of check is passed once to report; the last one ends the error.
func Await(ctx context.Context, timeout time.Duration, report func(string), check func(context.Context) (done bool, sentence string, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeUp)
	defer cancel()
	tick := time.NewTicker(PollInterval)
	defer tick.Stop()
	last := ""
	for {
		done, sentence, err := check(ctx)
		if err != nil && ctx.Err() == nil && !passing(err) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			sentence = err.Error()
		}
		if sentence != "" && sentence != last {
			report(sentence)
			last = sentence
		}
		if err == nil && done {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errTimeUp) {
				return Timeout{After: timeout, Last: last}
			}
			return context.Cause(ctx)
		}
	}
}

// Timeout is the error of Await where the time is up.
type Timeout struct {
	After time.Duration
	// Last is the last sentence of the check.
	Last string
}

// Error implements error.
func (t Timeout) Error() string { return fmt.Sprintf("after %s still: %s", t.After, t.Last) }

var errTimeUp = errors.New("the time is up")

// passing reports whether an error is only that the API server is busy or
// away for a moment.
func passing(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
	}
	_, unreachable := errors.AsType[net.Error](err)
	return unreachable
}
