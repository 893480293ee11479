package leaderelection

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is CLOCK_BOOTTIME of clock_gettime(2). Every Linux that Go runs on has it.
func bootClock() time.Duration {
	var at unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &at) != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
