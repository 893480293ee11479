package child

import (
	"context"
	"fmt"

	"github.com/poolwright/poolwright/reconciler/timeout"
)

// The memory of the container in which the controller runs is divided here, and
// nowhere else: a test holds the Deployment against MinContainerMemory.
const (
	// atOnce is how many children run at once, whatever they do and for whom.
	atOnce = 2
	// proposalsAtOnce is how many of them may work on proposals: there is always a
	// slot that no proposal can take.
	proposalsAtOnce = 1
	// memoryDefault is the limit of memory of each, which the kernel enforces on
	// what a process allocates: a child fails by itself before the container's
	// limit is reached.
	memoryDefault = 640 << 20
	// besides is what a child has beside that: the stack of its first thread, page
	// tables, and the kernel's buffers of its pipes.
	besides = 32 << 20
	// headroom is for what no limit of a process counts: the mapped binary, the page
	// page cache of a clone that is being written, sockets, and what the controller's heap
	// overshoots GOMEMLIMIT by, which the Go runtime aims at and does not enforce.
	headroom = 384 << 20
)

// MinContainerMemory is the least memory limit, in bytes, of a container in which a process
// with this GOMEMLIMIT starts children of the default limits. With less, cgroup v2
// ends the whole container, controller and engine included, where a child takes all
// that it may: since Kubernetes 1.28 the kubelet sets memory.oom.group.
func MinContainerMemory(goMemLimit int64) int64 {
	return goMemLimit + atOnce*(memoryDefault+besides) + headroom
}

// Semaphore bounds how many children run at once: each has a slot of it. Those who wait
// are served in the order in which they came, a proposal by whose repository had a slot
// the longest ago, which golang.org/x/sync/semaphore does not do: it serves in order
// only. It is safe for concurrent use.
type Semaphore struct {
	all       chan struct{}
	proposals *fairQueue
}

// NewSemaphore has slots beside those of the process. It is for tests: MinContainerMemory counts
// on one Semaphore in a process.
func NewSemaphore() *Semaphore {
	return &Semaphore{all: make(chan struct{}, atOnce), proposals: &fairQueue{free: proposalsAtOnce}}
}

// ofProcess has the slots of this process.
var ofProcess = NewSemaphore()

// acquire waits for a slot, for a proposal of a repository or, where proposal is false, for
// anything else. free gives it back. The time of that is not work, see [timeout.Pause]. The
// error is for another try: who waits did nothing wrong.
func (s *Semaphore) acquire(ctx context.Context, proposal bool, repository string) (free func(), err error) {
	defer timeout.Pause(ctx)()
	release := func() {}
	if proposal {
		if err := s.proposals.acquire(ctx, repository); err != nil {
			return nil, noSlot(ctx)
		}
		release = s.proposals.release
	}
	select {
	case s.all <- struct{}{}:
		return func() { <-s.all; release() }, nil
	case <-ctx.Done():
		release()
		return nil, noSlot(ctx)
	}
}

func noSlot(ctx context.Context) error {
	return fmt.Errorf("waiting for other children to end: %w", context.Cause(ctx))
}
