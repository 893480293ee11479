package leaderelection

import "time"

// clockReading is what the clocks of this machine show at one moment, each counted from
// some point of its own.
type clockReading struct {
	// monotonic is Go's: it stands still while the machine is suspended.
	monotonic time.Duration
	// boot goes on during a suspension. It is zero where the system has no such clock.
	boot time.Duration
	// wall is set to the right time by others, also after a pause of a virtual machine,
	// in which the other two may stand still.
	wall time.Duration
}

// since is how long ago something was, by the clock that counts most.
func (r clockReading) since(o clockReading) time.Duration {
	return max(r.monotonic-o.monotonic, r.boot-o.boot, r.wall-o.wall)
}

// systemClocks reads the clocks of this machine.
func systemClocks(start time.Time) func() clockReading {
	return func() clockReading {
		now := time.Now()
		return clockReading{monotonic: now.Sub(start), boot: bootClock(), wall: now.Round(0).Sub(start.Round(0))}
	}
}
