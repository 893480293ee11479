package pluginlife

import "time"

// Timing is how long a plugin's steps take.
type Timing struct {
	Start   time.Duration // its container runs → it registers, or ends
	Retry   time.Duration // a plugin without its MPS daemon tries again
	BackOff time.Duration // the kubelet's wait before the second restart, doubled each time
	Restart time.Duration // its container ended → it runs again, without back-off
	Never   bool          // the pod's containers are never started again
}

// Advertised is what a plugin lists at its kubelet. The zero value is nothing.
type Advertised struct {
	GPUs          int            // found when it registered
	PerGPU        map[string]int // devices of each GPU, by their resource's name
	OnePerRequest bool
}

// Failure is why a plugin does not serve.
type Failure struct {
	// Why is one line for the sandbox's user.
	Why string
	// Then is what the plugin does about it.
	Then Then
	// Code and Log are the container's exit code and the end of its log, for Ends.
	Code int
	Log  string
	// Daemon is true when the MPS daemon of the same pod ends as well.
	Daemon bool
}

// Then is what a plugin does that cannot serve.
type Then int

// What a plugin can do.
const (
	// Ends with an error.
	Ends Then = iota
	// Idles for ever.
	Idles
	// Retries after Timing.Retry.
	Retries
	// Unknown: it could not be found out, and is checked again soon.
	Unknown
)

// Facts are what a plugin finds at a step.
type Facts struct {
	// Missing is how many of the machine's GPUs the driver does not find now.
	Missing int
	// Crashes is how often the container crashes after it registered; negative is
	// always. While it is 0 the count begins anew.
	Crashes int
	// Start lists the devices, as the plugin does when it starts. It returns a Failure
	// when there are none to serve.
	Start func() (Advertised, *Failure)
}

type phase int

const (
	starting phase = iota // requests devices at next
	serving
	idling
	down // restarts at next
	over // never again
)

// soon is when what could not be found out is checked again.
const soon = 250 * time.Millisecond

// Life is one plugin. Use Begin.
type Life struct {
	timing Timing
	phase  phase
	next   time.Time

	offer      Advertised
	registered time.Time
	missing    int // GPUs, when it registered
	lost       int // GPUs that went missing since
	crashes    int

	container Container
	backOff   time.Duration // the wait before the next restart
	complaint string
}

// Begin is a plugin whose container starts to run at a time.
func Begin(timing Timing, now time.Time) *Life {
	return &Life{timing: timing, next: now.Add(timing.Start), container: Container{Since: now}}
}

// Container is the plugin's container now.
func (l *Life) Container() Container { return l.container }

// Complaint is why it does not serve, "" where it does or has not tried yet.
func (l *Life) Complaint() string { return l.complaint }

// Offer returns what it advertises, and of how many GPUs the devices are healthy. ok is false when it serves nothing.
func (l *Life) Offer() (offer Advertised, healthy int, ok bool) {
	return l.offer, max(l.offer.GPUs-l.lost, 0), l.phase == serving
}

// Reload makes a running plugin read its configuration again, as the config manager
// does with a signal.
func (l *Life) Reload(now time.Time) {
	if l.phase == starting || l.phase == serving || l.phase == idling {
		l.phase, l.next, l.offer = starting, now.Add(l.timing.Start), Advertised{}
	}
}

// Step does what is due and returns when it must be stepped again at the latest;
// ok is false when only new facts change anything.
func (l *Life) Step(now time.Time, facts Facts) (next time.Time, ok bool) {
	if facts.Crashes == 0 {
		l.crashes = 0
	}
	switch l.phase {
	case starting:
		if !now.Before(l.next) {
			l.start(now, facts)
		}
	case serving:
		l.serve(now, facts)
	case down:
		if !now.Before(l.next) {
			l.restart(now)
		}
	case idling, over:
	}
	return l.next, l.phase == starting || l.phase == down || l.phase == serving && l.crashing(facts)
}

func (l *Life) start(now time.Time, facts Facts) {
	offer, failure := facts.Start()
	if failure == nil {
		l.offer, l.complaint = offer, ""
		l.phase, l.registered, l.next = serving, now, now.Add(l.timing.Start)
		l.missing, l.lost = facts.Missing, 0
		return
	}
	switch failure.Then {
	case Ends:
		l.end(now, *failure)
	case Idles:
		l.phase, l.complaint = idling, failure.Why
	case Retries:
		l.next, l.complaint = now.Add(l.timing.Retry), failure.Why
	case Unknown:
		l.next = now.Add(soon)
	}
}

// serve detects GPUs that went missing, and crashes where it must.
func (l *Life) serve(now time.Time, facts Facts) {
	l.lost = max(l.lost, facts.Missing-l.missing)
	if l.crashing(facts) && !now.Before(l.registered.Add(l.timing.Start)) {
		l.crashes++
		l.end(now, Failure{Why: "the device plugin's container crashed", Code: 2, Log: crashLog})
	}
}

func (l *Life) crashing(facts Facts) bool {
	return facts.Crashes < 0 || l.crashes < facts.Crashes
}

// crashLog are of a Go program that crashed: nothing of its log is left.
const crashLog = "panic: runtime error: invalid memory address or nil pointer dereference\n" +
	"[signal SIGSEGV: segmentation violation code=0x1 addr=0x18]\n\ngoroutine 54 [running]:"
