package confine

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// nice is how far the process steps back behind others.
const nice = 10

// Executable is the program of this process, also when its file was replaced.
func Executable() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// Prepare has a command start without an environment, in the root folder, in a
// process group of its own, and end when the thread that starts it does. From then on
// no process of the same user can trace this one or read its memory and environment.
func Prepare(cmd *exec.Cmd) error {
	if err := setUndumpable(); err != nil {
		return err
	}
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return nil
}

// Kill ends a command that Prepare prepared and that was started and not waited
// for yet, with all of its group. That it is gone already is no matter.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func confine(memory int64, cpu time.Duration) error {
	if err := limit(memory, cpu); err != nil {
		return err
	}
	if err := setUndumpable(); err != nil {
		return err
	}
	return filter()
}

// setUndumpable keeps other processes of the same user out of this one's memory, by
// PR_SET_DUMPABLE in prctl(2). It holds until the process executes a program.
func setUndumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keeping other processes out of this one's memory: %w", err)
	}
	return nil
}

func limit(memory int64, cpu time.Duration) error {
	// These only help others, and not every machine has them.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	everyThread(syscall.SYS_SETPRIORITY, syscall.PRIO_PROCESS, 0, nice)
	for _, l := range []struct {
		name string
		what int
		most uint64
	}{
		{"core dumps", syscall.RLIMIT_CORE, 0},
		{"files written", syscall.RLIMIT_FSIZE, 0},
		{"memory", syscall.RLIMIT_DATA, uint64(memory)},
		{"processor time", syscall.RLIMIT_CPU, uint64(cpu / time.Second)},
		// What is open stays open. Nothing is opened below zero.
		{"open files", syscall.RLIMIT_NOFILE, 0},
	} {
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limiting %s: %w", l.name, err)
		}
	}
	return nil
}

// everyThread makes a system call that counts for one thread only in each. In a
// program with C code it cannot, and does nothing.
func everyThread(call, a, b, c uintptr) { _, _, _ = syscall.AllThreadsSyscall(call, a, b, c) }

// MaxRSS is the most memory, in bytes, that an ended process had resident; 0 where
// the system does not report it. Linux has a process begin with the peak that the memory
// of the one that started it has had: up to that nothing is known of the other. What
// getrusage reports of this process would be more, since that has the peak of what it
// was executed by, too.
func MaxRSS(ended *os.ProcessState) int64 {
	usage, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	own, err := self.NewStatus()
	if peak := int64(usage.Maxrss) << 10; err == nil && peak > int64(own.VmHWM) { //nolint:unconvert,gosec // in KiB, and an int32 on systems of 32 bits; a peak is no 8 EiB
		return peak
	}
	return 0
}
