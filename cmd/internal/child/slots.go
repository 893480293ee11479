package child

import (
	"context"
	"fmt"
)

// The memory of the container in which the controller runs is divided here, and
// nowhere else: a test holds the Deployment against Container.
const (
	// atOnce is how many children run at once, whatever they do and whoever asks.
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
	// cache of mirrors that is being written, sockets, and what the controller's heap
	// overshoots GOMEMLIMIT by, which the Go runtime aims at and does not enforce.
	headroom = 384 << 20
)

// Container is the least memory limit, in bytes, of a container in which a process
// with this GOMEMLIMIT starts children of the default limits. With less, cgroup v2
// ends the whole container, controller and engine included, where a child takes all
// that it may: since Kubernetes 1.28 the kubelet sets memory.oom.group.
func Container(goMemLimit int64) int64 {
	return goMemLimit + atOnce*(memoryDefault+besides) + headroom
}

// Slots bound how many children run at once. Those who wait are served in the order
// in which they came, a proposal after the proposals before it. They are safe for
// concurrent use.
type Slots struct{ all, proposals chan struct{} }

// NewSlots are slots that nothing shares with those of the process. They are for tests:
// Container counts on one set of slots in a process.
func NewSlots() *Slots {
	return &Slots{all: make(chan struct{}, atOnce), proposals: make(chan struct{}, proposalsAtOnce)}
}

// ofProcess are the slots of this process.
var ofProcess = NewSlots()

// take waits for a slot. What free returns gives it back.
func (s *Slots) take(ctx context.Context, proposal bool) (free func(), err error) {
	free = func() { <-s.all }
	if proposal {
		if err := enter(ctx, s.proposals); err != nil {
			return nil, err
		}
		free = func() { <-s.all; <-s.proposals }
	}
	if err := enter(ctx, s.all); err != nil {
		if proposal {
			<-s.proposals
		}
		return nil, err
	}
	return free, nil
}

// enter takes one of the places of a channel. The error is for another try: who waits
// did nothing wrong.
func enter(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for other children to end: %w", context.Cause(ctx))
	}
}
