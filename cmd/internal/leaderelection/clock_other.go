//go:build !linux

package leaderelection

import "time"

// bootClock is zero: the wall clock alone counts a suspension here.
func bootClock() time.Duration { return 0 }
