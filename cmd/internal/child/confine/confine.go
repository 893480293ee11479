// Package confine takes from a process what it needs no more: memory and
// processor time beyond a limit, its place before others, and all system calls but
// those by which a Go program goes on and uses what is open.
//
// A child calls Self before it reads a byte of what it was given; the parent
// prepares it with Prepare, so that it begins with nothing of the parent's and
// does not outlive it. On Linux the kernel keeps all of it, and a process that it cannot
// be kept for does nothing; macOS limits no memory and filters no system calls; elsewhere
// both refuse. There are no namespaces of its own: pods may make none, and what they
// would hide cannot be requested. It imports nothing of ours. Start reading at Self.
package confine

import (
	"fmt"
	"runtime/debug"
	"time"
)

// grace is the part of the memory in which the garbage collector works harder
// before the kernel refuses more: one in so many.
const grace = 4

// Self limits this very process for the rest of its life: to so many bytes of
// memory of its own and so much processor time, which the kernel ends it for. It
// can open no file and no socket any more, nor write a file; on Linux, neither start a
// program or process, nor signal, trace or read another, nor be traced itself. It is the first
// to go when the machine is short of memory or time. An error means that some of
// this does not hold: the process should do nothing.
func Self(memory int64, cpu time.Duration) error {
	if memory <= 0 || cpu < time.Second {
		return fmt.Errorf("limiting this process to %d bytes of memory and %s of processor time: give more than no memory, and a second or more", memory, cpu)
	}
	// It lives for a second or two: collecting often would be wasted, and by the limit it
	// collects where it must.
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(memory - memory/grace)
	// Of a crash its first line is reported, and what goes with it is a lot.
	debug.SetTraceback("none")
	// The runtime's timers need files of their own, which it opens with the first.
	time.NewTimer(time.Hour).Stop()
	return confine(memory, cpu)
}
