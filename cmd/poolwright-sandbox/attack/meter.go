package attack

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// meter measures what this process and its ended children use.
type meter struct {
	clock         clock.PassiveClock
	begin         time.Time
	cpu, childCPU time.Duration
	resident      int64
}

func startMeter() meter {
	out := meter{clock: clock.RealClock{}, resident: status("VmRSS:")}
	out.begin = out.clock.Now()
	out.cpu, _ = used(syscall.RUSAGE_SELF)
	out.childCPU, _ = used(syscall.RUSAGE_CHILDREN)
	return out
}

// used is the processor time of a process or of its ended children, and the most memory that
// it, or one of them, had resident. A child begins with the peak of its parent.
func used(who int) (time.Duration, int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Maxrss) << 10 //nolint:unconvert // an int32 on systems of 32 bits
}

// status is a size of this process as Linux has it.
func status(name string) int64 {
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(raw) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			number, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
			kib, _ := strconv.ParseInt(string(number), 10, 64)
			return kib << 10
		}
	}
	return 0
}

func (m meter) children() Usage {
	cpu, memory := used(syscall.RUSAGE_CHILDREN)
	return Usage{Memory: memory, CPU: cpu - m.childCPU, Wall: m.clock.Since(m.begin)}
}

func (m meter) parent() Usage {
	cpu, _ := used(syscall.RUSAGE_SELF)
	return Usage{Memory: status("VmHWM:") - m.resident, CPU: cpu - m.cpu, Wall: m.clock.Since(m.begin)}
}
