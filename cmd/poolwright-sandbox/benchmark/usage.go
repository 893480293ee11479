package benchmark

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"

	"github.com/poolwright/poolwright/provision/sandbox/process"
)

// Usage is what a system took from the start of an operation to its end.
type Usage struct {
	// Wall is how long it took, CPU the processor time of its processes and of children that have ended.
	Wall, CPU time.Duration
	// Requests is how many requests it sent to the API server.
	Requests int
	// Peak is the most memory that its processes had resident, without their children. Private is the most
	// of it that is no page of a file, with all their children, by a sample every 20 ms: pages of a
	// binary are the same for parent and child, and the kernel takes them back. Both in bytes. Private is 0
	// where it was not sampled.
	Peak, Private int64
}

// Measure runs an operation on a controller and returns what that took. Private memory is only sampled where
// that is required: while /proc is read of a child that ends, its parent spins, which is processor time of
// the controller.
func Measure(ctx context.Context, s Processes, sampled bool, operation func(context.Context) error) (Usage, error) {
	var u Usage
	requests, err := s.Requests(ctx)
	if err != nil {
		return u, err
	}
	if err := resetPeaks(s.Running()); err != nil {
		return u, err
	}
	cpu, err := processorTime(s.Running())
	if err != nil {
		return u, err
	}
	stop := func() int64 { return 0 }
	if sampled {
		stop = samplePrivate(s.Running())
	}
	started := time.Now()
	err = operation(ctx)
	u.Wall, u.Private = time.Since(started), stop()
	if err != nil {
		return u, err
	}
	if u.CPU, err = processorTime(s.Running()); err != nil {
		return u, err
	}
	u.CPU -= cpu
	if u.Peak, err = peak(s.Running()); err != nil {
		return u, err
	}
	u.Requests, err = s.Requests(ctx)
	u.Requests -= requests
	return u, err
}

// tick is the unit of processor times in /proc.
const tick = 10 * time.Millisecond

func processorTime(all []*process.Process) (time.Duration, error) {
	total := 0
	for _, p := range all {
		stat, err := stat(p.PID())
		if err != nil {
			return 0, err
		}
		total += int(stat.UTime) + int(stat.STime) + stat.CUTime + stat.CSTime
	}
	return time.Duration(total) * tick, nil
}

func stat(pid int) (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	read, err := proc.Stat()
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("reading process %d: %w", pid, err)
	}
	return read, nil
}

// resetPeaks has the kernel count the peaks of resident memory anew.
func resetPeaks(all []*process.Process) error {
	for _, p := range all {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0o600); err != nil {
			return fmt.Errorf("resetting the peak of process %d: %w", p.PID(), err)
		}
	}
	return nil
}

// peak is the sum of the processes' peaks.
func peak(all []*process.Process) (total int64, err error) {
	for _, p := range all {
		proc, err := procfs.NewProc(p.PID())
		if err != nil {
			return 0, fmt.Errorf("reading process %d: %w", p.PID(), err)
		}
		status, err := proc.NewStatus()
		if err != nil {
			return 0, fmt.Errorf("reading process %d: %w", p.PID(), err)
		}
		total += int64(status.VmHWM) //nolint:gosec // Less than 2^63 bytes.
	}
	return total, nil
}

// samplePrivate samples the private memory of processes and their children until the returned function is
// called, which returns the most.
func samplePrivate(all []*process.Process) (stop func() int64) {
	done := make(chan struct{})
	var most int64
	var sampling sync.WaitGroup
	sampling.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			var now int64
			for _, p := range all {
				now += private(p.PID())
			}
			most = max(most, now)
			select {
			case <-ticker.C:
			case <-done:
				return
			}
		}
	})
	return func() int64 {
		close(done)
		sampling.Wait()
		return most
	}
}

// private is the private memory of a process and its children in bytes; 0 of one that has ended.
func private(pid int) int64 {
	var total int64
	if proc, err := procfs.NewProc(pid); err == nil {
		if status, err := proc.NewStatus(); err == nil {
			total = int64(status.RssAnon) //nolint:gosec // Less than 2^63 bytes.
		}
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return total
	}
	for _, task := range tasks {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		if err != nil {
			continue
		}
		for child := range strings.FieldsSeq(string(children)) {
			if id, err := strconv.Atoi(child); err == nil {
				total += private(id)
			}
		}
	}
	return total
}

// sentRequests is the sum of client-go's counter of requests, which controller-runtime serves.
func sentRequests(ctx context.Context, address string) (int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	// Karpenter's operator registers another counter in the place of controller-runtime's.
	return sumOf(response.Body, "rest_client_requests_total", "client_go_request_total")
}

// sumOf adds the values of counters in Prometheus' text format.
func sumOf(text io.Reader, names ...string) (int, error) {
	total, lines := 0.0, bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		name, rest, _ := strings.Cut(line, "{")
		if !slices.Contains(names, name) {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", name, err)
		}
		total += value
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("reading metrics: %w", err)
	}
	return int(total), nil
}

// freeAddress is a loopback address at which nobody listens.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}
