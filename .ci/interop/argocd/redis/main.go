// Package main is a Redis in memory, at the address that is its only argument, for the Argo CD that make interop runs. It keeps
// nothing and takes no password.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: redis ADDRESS")
	}
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(args[0]); err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	defer server.Close()
	// The library's clock stands still: without this, nothing that Argo CD caches for a time would expire.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			server.FastForward(time.Second)
		}
	}
}
