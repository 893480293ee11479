package confine

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// nice is how far the process steps back behind others.
const nice = 10

// Executable is the program of this process.
func Executable() (string, error) { return os.Executable() }

// Prepare has a command start without an environment, in the root folder and in a
// process group of its own. That its parent is gone it has to find out by the end
// of its input.
func Prepare(cmd *exec.Cmd) error {
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// Kill ends a command that Prepare prepared and that was started and not waited
// for yet, with all of its group. That it is gone already is no matter.
func Kill(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

func confine(_ int64, cpu time.Duration) error {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, nice)
	seconds := uint64(cpu / time.Second)
	for _, l := range []struct {
		name  string
		what  int
		limit syscall.Rlimit
	}{
		{"core dumps", syscall.RLIMIT_CORE, syscall.Rlimit{}},
		{"files written", syscall.RLIMIT_FSIZE, syscall.Rlimit{}},
		{"processor time", syscall.RLIMIT_CPU, syscall.Rlimit{Cur: seconds, Max: seconds}},
		{"open files", syscall.RLIMIT_NOFILE, syscall.Rlimit{}},
	} {
		if err := syscall.Setrlimit(l.what, &l.limit); err != nil {
			return fmt.Errorf("limiting %s: %w", l.name, err)
		}
	}
	return nil
}

// MaxRSS is the most memory, in bytes, that an ended process had resident; 0 where
// the system does not report it.
func MaxRSS(ended *os.ProcessState) int64 {
	usage, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int64(usage.Maxrss)
}
