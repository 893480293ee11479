package devicemanager_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/devicemanager"
)

const (
	gpu    = corev1.ResourceName("nvidia.com/gpu")
	shared = corev1.ResourceName("nvidia.com/gpu.shared")
)

func text(t devicemanager.Table) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		out = append(out, fmt.Sprintf("%s %d/%d", strings.TrimPrefix(string(name), "nvidia.com/"), t[name].Healthy, t[name].Capacity))
	}
	return strings.Join(out, ", ")
}

func TestAKubeletKeepsTheDevicesOfAPluginThatIsGone(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	table := devicemanager.Table{}
	forty := devicemanager.Table{gpu: {Capacity: 40, Healthy: 40}}
	twenty := devicemanager.Table{shared: {Capacity: 20, Healthy: 20}}
	for _, step := range []struct {
		after  time.Duration
		served devicemanager.Table
		want   string
		why    string
	}{
		{0, nil, "", "before any plugin there is nothing"},
		{time.Second, forty, "gpu 40/40", "a plugin registers"},
		{2 * time.Second, devicemanager.Table{gpu: {Capacity: 40, Healthy: 30}}, "gpu 30/40", "a GPU fell off the bus"},
		{3 * time.Second, nil, "gpu 0/40", "the plugin stopped"},
		{4 * time.Minute, nil, "gpu 0/40", "it is recorded"},
		{4*time.Minute + time.Second, forty, "gpu 40/40", "it came back"},
		{5 * time.Minute, twenty, "gpu 0/40, gpu.shared 20/20", "another resource takes its place"},
		{10*time.Minute - time.Second, twenty, "gpu 0/40, gpu.shared 20/20", "the five minutes began anew"},
		{10 * time.Minute, twenty, "gpu 0/0, gpu.shared 20/20", "it is dropped, and stays in the status as 0"},
		{11 * time.Minute, forty, "gpu 40/40, gpu.shared 0/20", "what was dropped can come back"},
	} {
		table.Sync(start.Add(step.after), step.served)
		if got := text(table); got != step.want {
			t.Errorf("%s after %s: got %q, want %q", step.why, step.after, got, step.want)
		}
	}
}

func TestOnlyWhatChangedIsReportedAgain(t *testing.T) {
	old := devicemanager.Table{gpu: {Capacity: 4, Healthy: 4}, shared: {Capacity: 8}}
	now := devicemanager.Table{gpu: {Capacity: 4, Healthy: 3}, shared: {Capacity: 8, OnePerRequest: true}, "nvidia.com/new": {}}
	if got, want := text(now.Changed(old)), "gpu 3/4, new 0/0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := text(now.Changed(now)); got != "" {
		t.Errorf("nothing changed and %q is told", got)
	}
}
