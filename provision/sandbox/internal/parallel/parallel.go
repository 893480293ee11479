// Package parallel runs a few start-up steps side by side. It is for steps that
// need each other to succeed and refuses to let one outlive the rest: the first
// failure ends the others' context, and Run waits for all.
package parallel

import (
	"context"
	"errors"
)

// Run calls every step and returns when all have returned. Its error joins the
// first failure and those that are not merely its echo.
func Run(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(steps))
	for _, step := range steps {
		go func() { results <- step(ctx) }()
	}
	var errs []error
	for range steps {
		err := <-results
		if err == nil || (len(errs) > 0 && errors.Is(err, context.Canceled)) {
			continue
		}
		errs = append(errs, err)
		cancel() // the others wait for nothing
	}
	return errors.Join(errs...)
}
