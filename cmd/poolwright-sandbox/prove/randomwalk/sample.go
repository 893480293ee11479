package randomwalk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Sample is what the controller's process uses while nothing is to be done.
type Sample struct {
	// At is the time since the walk began; PID distinguishes processes.
	At  time.Duration `json:"at"`
	PID int           `json:"pid"`
	// Resident is the memory now, and Peak the most since the last sample, in bytes.
	Resident int64 `json:"resident"`
	Peak     int64 `json:"peak"`
	// Heap is what is allocated, and HeapGoal the size at which it is collected again, which
	// follows from what the last collection left.
	Heap     int64 `json:"heap"`
	HeapGoal int64 `json:"heapGoal"`
	// Goroutines and Descriptors are counts, CPU is in seconds, and Disk what the cache folder
	// takes, in bytes.
	Goroutines  int64   `json:"goroutines"`
	Descriptors int64   `json:"descriptors"`
	CPU         float64 `json:"cpu"`
	Disk        int64   `json:"disk"`
}

// sampler measures the controller.
type sampler struct {
	// metrics is the address of its metrics, folder that of its cache.
	metrics, folder string
}

// sample measures a process, and begins a new peak.
func (m sampler) sample(ctx context.Context, pid int) (Sample, error) {
	out := Sample{PID: pid}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return out, fmt.Errorf("measuring the controller: %w", err)
	}
	out.Resident, out.Peak = kibibytes(status, "VmRSS:"), kibibytes(status, "VmHWM:")
	// 5 sets the peak back to what is resident now.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return out, fmt.Errorf("measuring the controller: %w", err)
	}
	if err := m.scrape(ctx, &out); err != nil {
		return out, err
	}
	out.Disk, err = diskUsage(m.folder)
	return out, err
}

// kibibytes is a line of /proc/PID/status, in bytes.
func kibibytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			number, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
			kib, _ := strconv.ParseInt(number, 10, 64)
			return kib << 10
		}
	}
	return 0
}

// scrape reads the process' own metrics.
func (m sampler) scrape(ctx context.Context, out *Sample) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.metrics+"/metrics", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("reading the controller's metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return fmt.Errorf("reading the controller's metrics: %w", err)
	}
	out.Heap = int64(first(families["go_memstats_heap_alloc_bytes"]))
	out.HeapGoal = int64(first(families["go_memstats_next_gc_bytes"]))
	out.Goroutines = int64(first(families["go_goroutines"]))
	out.Descriptors = int64(first(families["process_open_fds"]))
	out.CPU = first(families["process_cpu_seconds_total"])
	return nil
}

// first is the value of a metric without labels.
func first(family *dto.MetricFamily) float64 {
	for _, m := range family.GetMetric() {
		return m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return 0
}

// diskUsage is what the files of a folder take. Files may go meanwhile.
func diskUsage(folder string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				total += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return total, err
}
