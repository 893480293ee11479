// Command worker executes the jobs of the example's queues, one at a time. When its pod is terminated, it saves how far it has come, gives
// its job back to its queue and exits, so that another worker goes on from there.
//
// Its environment is that of the example's Deployments: CELERY_BROKER is the URL of Redis, CELERY_QUEUES the queues, separated by commas, the
// first of which is served first. HOSTNAME, which a pod has, is its name. STEP is how long a step of a job takes, 1s if empty: the work itself
// is left out. Start reading at worker.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, os.Getenv); err != nil {
		slog.Error("the worker failed", "error", err)
		stop()
		os.Exit(1)
	}
}

// run executes jobs until ctx ends.
func run(ctx context.Context, env func(string) string) error {
	w, err := fromEnvironment(env)
	if err != nil {
		return err
	}
	err = w.run(ctx)
	return errors.Join(err, w.redis.Close())
}

// fromEnvironment makes the worker that the environment of its pod describes.
func fromEnvironment(env func(string) string) (*worker, error) {
	options, err := redis.ParseURL(env("CELERY_BROKER"))
	if err != nil {
		return nil, fmt.Errorf("reading CELERY_BROKER: %w", err)
	}
	queues := strings.FieldsFunc(env("CELERY_QUEUES"), func(r rune) bool { return r == ',' })
	if len(queues) == 0 || env("HOSTNAME") == "" {
		return nil, errors.New("CELERY_QUEUES and HOSTNAME are required")
	}
	step := time.Second
	if text := env("STEP"); text != "" {
		if step, err = time.ParseDuration(text); err != nil {
			return nil, fmt.Errorf("reading STEP: %w", err)
		}
	}
	return &worker{redis: redis.NewClient(options), name: env("HOSTNAME"), queues: queues, lease: max(defaultLease, 3*step), wait: wait, step: step}, nil
}

// wait returns when d is over, or ctx.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
