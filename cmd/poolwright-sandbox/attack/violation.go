package attack

import (
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
)

// Budgets are what must hold of every trial. A zero field is not checked.
type Budgets struct {
	// ChildMemory is the most that a child has resident, and ChildCPU what all children of a
	// trial work for.
	ChildMemory int64
	ChildCPU    time.Duration
	// Decoded is how many bytes of memory a result takes, Parent how many bytes the
	// controller takes beside what it had, and ParentCPU how long it works for it.
	Decoded, Parent int64
	ParentCPU       time.Duration
}

// Default are the budgets of the product: a child has its limit, the stack, page tables and pipes
// beside that, and the mapped program; four children at most run for one trial. The parent has
// what the container has beside all limits.
func Default(c Trial) Budgets {
	out := Budgets{ChildMemory: (640 + 32 + 96) << 20, ChildCPU: 4 * time.Minute, Decoded: 96 << 20, Parent: 384 << 20, ParentCPU: 20 * time.Second}
	if c.Followed {
		out.Decoded = followedDecoded
	}
	return out
}

// Violation is the code of a promise that a trial breaks.
type Violation string

// The promises.
const (
	// ChildMemory: a child takes more memory than its limit.
	ChildMemory Violation = "ChildMemoryExceeded"
	// ChildTime: a child works for longer than its limit.
	ChildTime Violation = "ChildTimeExceeded"
	// ParentHeap: what a child returned takes more memory than its limit.
	ParentHeap Violation = "ResultMemoryExceeded"
	// ParentPeak: the controller takes more memory for one result than is left for it.
	ParentPeak Violation = "ControllerMemoryExceeded"
	// ParentTime: the controller works too long for one result.
	ParentTime Violation = "ControllerTimeExceeded"
	// NeighborFailed: another repository is not rendered meanwhile.
	NeighborFailed Violation = "NeighborFailed"
	// Unexplained: a child ends without a result and without a limit that its author can meet.
	Unexplained Violation = "ReasonMissing"
	// Crash: the controller ends.
	Crash Violation = "ControllerCrashed"
)

// reasons are those that name to an author what to mend.
var reasons = []string{"LimitExceeded", "RenderTimeout", "NoManifests", "TooLarge"}

// starved reports that a child reached its deadline without the processor, which is for another
// try: the machine is busy.
func (m Measure) starved() bool {
	return m.FailureClass == state.Retry.String() && m.Child.Wall > 90*time.Second && m.Child.CPU < 30*time.Second
}

// Violations are the promises that a measure breaks.
func (m Measure) Violations(b Budgets) []Violation {
	var out []Violation
	for _, v := range []struct {
		what   Violation
		broken bool
	}{
		{Crash, m.FailureClass == crashed},
		{Unexplained, m.FailureClass != "" && m.FailureClass != crashed && !m.starved() && !slices.Contains(reasons, m.Reason)},
		{ChildMemory, b.ChildMemory > 0 && m.Child.Memory > b.ChildMemory},
		{ChildTime, b.ChildCPU > 0 && m.Child.CPU > b.ChildCPU},
		{ParentHeap, b.Decoded > 0 && m.Decoded > b.Decoded},
		{ParentPeak, b.Parent > 0 && m.Parent.Memory > b.Parent},
		{ParentTime, b.ParentCPU > 0 && m.Parent.CPU > b.ParentCPU},
		{NeighborFailed, m.Neighbor != ""},
	} {
		if v.broken {
			out = append(out, v.what)
		}
	}
	return out
}
