package leaderelection

import "time"

// reading is what the clocks of this machine show at one moment, each counted from
// some point of its own.
type reading struct {
	// monotonic is Go's: it stands still while the machine is suspended.
	monotonic time.Duration
	// boot goes on during a suspension. It is zero where the system has no such clock.
	boot time.Duration
	// wall is set to the right time by others, also after a pause of a virtual machine,
	// in which the other two may stand still.
	wall time.Duration
}

// since is how long ago something was, by the clock that counts most.
func (r reading) since(o reading) time.Duration {
	return max(r.monotonic-o.monotonic, r.boot-o.boot, r.wall-o.wall)
}

// systemClocks reads the clocks of this machine.
func systemClocks(start time.Time) func() reading {
	return func() reading {
		now := time.Now()
		return reading{monotonic: now.Sub(start), boot: bootClock(), wall: now.Round(0).Sub(start.Round(0))}
	}
}
