package process

import (
	"os/exec"
	"runtime"
)

// forker starts all children of a group from one operating system thread that
// lives as long as the group. Linux sends the parent-death signal when the
// *thread* that forked ends, and Go ends threads when it likes: children forked
// from any goroutine would die at random.
type forker struct {
	jobs chan forkRequest
	quit chan struct{}
}

type forkRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

func newForker() *forker {
	f := &forker{jobs: make(chan forkRequest), quit: make(chan struct{})}
	go f.run()
	return f
}

func (f *forker) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case j := <-f.jobs:
			j.result <- j.cmd.Start()
		case <-f.quit:
			return
		}
	}
}

func (f *forker) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	f.jobs <- forkRequest{cmd: cmd, result: result}
	return <-result
}

func (f *forker) stop() { close(f.quit) }
