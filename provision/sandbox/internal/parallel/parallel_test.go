package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/internal/parallel"
)

func TestRun(t *testing.T) {
	broken, alsoBroken := errors.New("broken"), errors.New("also broken")
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("waiting: %w", ctx.Err())
	}
	succeeds := func(context.Context) error { return nil }
	fails := func(context.Context) error { return broken }
	for name, test := range map[string]struct {
		steps []func(context.Context) error
		want  []error
		never error
	}{
		"no step is no error":                          {},
		"all succeed":                                  {steps: []func(context.Context) error{succeeds, succeeds}},
		"one failure ends those that wait":             {steps: []func(context.Context) error{waits, fails, waits}, want: []error{broken}, never: context.Canceled},
		"a second failure that is no echo is reported": {steps: []func(context.Context) error{fails, func(ctx context.Context) error { <-ctx.Done(); return alsoBroken }}, want: []error{broken, alsoBroken}},
	} {
		t.Run(name, func(t *testing.T) {
			err := parallel.Run(t.Context(), test.steps...)
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("got %v", err)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, which lacks %v", err, want)
				}
			}
			if test.never != nil && errors.Is(err, test.never) {
				t.Errorf("got %v, which reports the echo", err)
			}
		})
	}
}

func TestRunEndsWhenTheCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := parallel.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
