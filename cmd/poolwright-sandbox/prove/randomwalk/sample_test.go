package randomwalk

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestASampleMeasuresAProcessAndItsFolder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# TYPE go_goroutines gauge\ngo_goroutines 11\n# TYPE go_memstats_heap_alloc_bytes gauge\ngo_memstats_heap_alloc_bytes 1e+06\n",
			"# TYPE go_memstats_next_gc_bytes gauge\ngo_memstats_next_gc_bytes 2e+06\n# TYPE process_open_fds gauge\nprocess_open_fds 7\n",
			"# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n")
	}))
	defer server.Close()
	folder := t.TempDir()
	for name, size := range map[string]int{"a": 100, "below/b": 23} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := sampler{metrics: strings.TrimPrefix(server.URL, "http://"), folder: folder}.sample(t.Context(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got.Resident < 1<<20 || got.Peak < got.Resident/2 {
		t.Errorf("%d bytes are resident, %d at most", got.Resident, got.Peak)
	}
	got.Resident, got.Peak = 0, 0
	if want := (Sample{PID: os.Getpid(), Heap: 1e6, HeapGoal: 2e6, Goroutines: 11, Descriptors: 7, CPU: 1.5, Disk: 123}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := (sampler{metrics: "127.0.0.1:1", folder: folder}).sample(t.Context(), os.Getpid()); err == nil {
		t.Error("without metrics there is a sample")
	}
}

func TestATrendIsTheSlopeAfterTheWarmUp(t *testing.T) {
	var samples []Sample
	for i := range 61 {
		s := Sample{At: time.Duration(i) * time.Minute, Goroutines: int64(100 + i + i%2), Resident: 50 << 20}
		if i < 10 {
			s.Goroutines = 1000
		}
		samples = append(samples, s)
	}
	found := 0
	for _, trend := range Trends(samples, 10*time.Minute) {
		switch trend.Name {
		case "goroutines":
			found++
			if math.Abs(trend.PerHour-60) > 2*trend.Error || trend.Error <= 0 || trend.Error > 1 {
				t.Errorf("the slope is %.2f ± %.2f an hour", trend.PerHour, trend.Error)
			}
			if trend.First > 120 || trend.Last < 150 || trend.Most != 160 {
				t.Errorf("from %.0f to %.0f, at most %.0f", trend.First, trend.Last, trend.Most)
			}
		case "resident memory":
			found++
			if trend.PerHour != 0 || trend.Error != 0 || trend.Most != 50<<20 {
				t.Errorf("what stays has the trend %+v", trend)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d trends were found", found)
	}
	if got := Trends(samples[:2], 0); got != nil {
		t.Errorf("two samples have the trends %v", got)
	}
}
