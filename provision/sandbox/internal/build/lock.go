package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockPoll is how often a waiting process checks whether the lock is free. The lock is
// held for minutes or not at all, so this costs nobody anything.
const lockPoll = 100 * time.Millisecond

// lock takes the program's file lock, or waits for it until ctx ends. The
// kernel drops the lock when its holder dies, so a killed build blocks nobody.
func (b *Builder) lock(ctx context.Context, name string) (func(), error) {
	path := filepath.Join(b.cache, name+".lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the build lock of %s: %w", name, err)
	}
	// Closing is what unlocks; nothing was written that could be lost.
	unlock := func() { _ = file.Close() }
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for logged := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return unlock, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			unlock()
			return nil, fmt.Errorf("locking the build of %s: %w", name, err)
		case !logged:
			logged = true
			fmt.Fprintf(b.log, "waiting for another process that is building %s\n", name)
		}
		select {
		case <-ctx.Done():
			unlock()
			return nil, fmt.Errorf("waiting for another process that is building %s: %w", name, ctx.Err())
		case <-tick.C:
		}
	}
}
