package pluginlife

import "time"

// State is what a container does.
type State int

// The states of a container.
const (
	// Running, whether it serves or not.
	Running State = iota
	// Exited and about to be started again, or never.
	Exited
	// BackingOff: it exited and is kept from starting for a while.
	BackingOff
)

// Container is the plugin's container as its kubelet has it.
type Container struct {
	State State
	// Since is when the container started last.
	Since time.Time
	// Restarts counts the starts after the first.
	Restarts int
	// Wait is how long it is kept from starting, while BackingOff.
	Wait time.Duration
	// Last is how it ended the last time, nil when it never did.
	Last *Exit
}

// Exit is a container's end.
type Exit struct {
	Code              int
	Log               string // the end of its log
	Started, Finished time.Time
	// Daemon is true when the MPS daemon in the same pod ended for the same reason.
	Daemon bool
}

// A kubelet's back-off grows to maxBackOff times the first wait, and begins anew
// after a container ran for twice the longest wait.
const maxBackOff = 30

// end lets the container end.
func (l *Life) end(now time.Time, f Failure) {
	l.offer = Advertised{}
	longest := l.timing.BackOff * maxBackOff
	if now.Sub(l.container.Since) >= 2*longest {
		l.backOff = 0
	}
	l.container.Last = &Exit{Code: f.Code, Log: f.Log, Started: l.container.Since, Finished: now, Daemon: f.Daemon}
	l.container.State, l.container.Wait = Exited, 0
	l.phase, l.complaint, l.next = down, f.Why, now.Add(l.timing.Restart)
	if l.timing.Never {
		l.phase = over
		return
	}
	if l.backOff > 0 { // the first restart does not wait
		l.container.State, l.container.Wait = BackingOff, l.backOff
		l.next = now.Add(l.backOff)
	}
	l.backOff = min(max(2*l.backOff, l.timing.BackOff), longest)
}

// restart starts the container again. It lists devices a little later.
func (l *Life) restart(now time.Time) {
	l.container.State, l.container.Wait = Running, 0
	l.container.Since = now
	l.container.Restarts++
	l.phase, l.next = starting, now.Add(l.timing.Start)
}
