package gpu_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/gpu"
)

// What an earlier release wrote on pods and nodes is read under its former name, and deleted with the new one.
func TestAnnotationsOfAnEarlierReleaseAreRead(t *testing.T) {
	record := gpu.PluginUpdate{Hash: "h", Pod: "p", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for name, c := range map[string]struct {
		annotations map[string]string
		hash        string
		record      gpu.PluginUpdate
	}{
		"none":                   {nil, "", gpu.PluginUpdate{}},
		"the former names":       {map[string]string{"poolwright.dev/gpu-revision": "h", "poolwright.dev/gpu-rollout": record.String()}, "h", record},
		"the names":              {map[string]string{gpu.PluginHashAnnotation: "h", gpu.PluginUpdateAnnotation: record.String()}, "h", record},
		"both: the names decide": {map[string]string{gpu.PluginHashAnnotation: "h", "poolwright.dev/gpu-revision": "old", gpu.PluginUpdateAnnotation: record.String(), "poolwright.dev/gpu-rollout": "old"}, "h", record},
	} {
		t.Run(name, func(t *testing.T) {
			if got := gpu.PluginHash(c.annotations); got != c.hash {
				t.Errorf("the hash is %q, want %q", got, c.hash)
			}
			if diff := cmp.Diff(c.record, gpu.ReadPluginUpdate(c.annotations)); diff != "" {
				t.Error(diff)
			}
			gpu.DeletePluginUpdate(c.annotations)
			if diff := cmp.Diff(gpu.PluginUpdate{}, gpu.ReadPluginUpdate(c.annotations)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheSharingOfAnEarlierReleaseIsRead(t *testing.T) {
	const allocatable = ":nvidia.com/gpu=1,nvidia.com/gpu.shared=0"
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"none":                                 {nil, ""},
		"the name":                             {map[string]string{gpu.SharingAnnotation: "mps" + allocatable}, "mps" + allocatable},
		"the former name of no sharing":        {map[string]string{"poolwright.dev/gpu-shares": "whole" + allocatable}, "none" + allocatable},
		"the former name of MPS":               {map[string]string{"poolwright.dev/gpu-shares": "MPS" + allocatable}, "mps" + allocatable},
		"the former name of time slicing":      {map[string]string{"poolwright.dev/gpu-shares": "time-slicing" + allocatable}, "time-slicing" + allocatable},
		"both: the name of today decides":      {map[string]string{gpu.SharingAnnotation: "mps" + allocatable, "poolwright.dev/gpu-shares": "whole" + allocatable}, "mps" + allocatable},
		"a former value that has no advertise": {map[string]string{"poolwright.dev/gpu-shares": "whole"}, "none:"},
		"a former value of another version":    {map[string]string{"poolwright.dev/gpu-shares": "x"}, "x"},
	} {
		if got := gpu.ReadSharing(c.annotations); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
