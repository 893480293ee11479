package deviceplugin_test

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
)

func TestAConfigurationDecidesNameAndNumberOfDevices(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // for 4 GPUs
		one  bool
	}{
		"none":          {"", "nvidia.com/gpu 4", false},
		"only flags":    {"version: v1\nflags: {migStrategy: none}", "nvidia.com/gpu 4", false},
		"time slicing":  {"version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}", "nvidia.com/gpu 40", false},
		"a short name":  {"sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}", "nvidia.com/gpu 8", false},
		"renamed":       {"sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 3}]}}", "nvidia.com/gpu.shared 12", false},
		"one at a time": {"sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 3}]}}", "nvidia.com/gpu 12", true},
		"another name is ignored, as the plugin does": {"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, rename: nvidia.com/slice, devices: [0], replicas: 3}]}}",
			"nvidia.com/gpu 12", false},
		"MIG slices only refuse nothing":         {"sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}]}}", "nvidia.com/gpu 4", false},
		"MIG slices only leave whole GPUs whole": {"sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}]}}", "nvidia.com/gpu 4", false},
		"MPS refuses requests for two":           {"sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 6}]}}", "nvidia.com/gpu 24", true},
		"whatever is configured":                 {"sharing: {mps: {failRequestsGreaterThanOne: false, resources: [{name: nvidia.com/gpu, replicas: 6}]}}", "nvidia.com/gpu 24", true},
		"MPS holds where both are given": {"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}, mps: {resources: [{name: nvidia.com/gpu, replicas: 6}]}}",
			"nvidia.com/gpu 24", true},
		"JSON": {`{"version":"v1","sharing":{"timeSlicing":{"resources":[{"name":"nvidia.com/gpu","replicas":2}]}}}`, "nvidia.com/gpu 8", false},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := deviceplugin.ParseConfig([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := offer(config); got != c.want || config.OnePerRequest != c.one {
				t.Errorf("got %s, one per request %t; want %s, %t", got, config.OnePerRequest, c.want, c.one)
			}
		})
	}
}

func TestAConfigurationThatThePluginRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, reason string }{
		"another version":   {"version: v2", `"v2"`},
		"no YAML":           {"a: [", "not YAML"},
		"one replica":       {"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}", "resources[0]: replicas must be 2 or more"},
		"no replicas":       {"sharing: {mps: {resources: [{name: nvidia.com/gpu}]}}", "sharing.mps.resources[0]"},
		"no resources":      {"sharing: {timeSlicing: {renameByDefault: true}}", "names no resources"},
		"no name":           {"sharing: {timeSlicing: {resources: [{replicas: 2}]}}", "no name"},
		"a malformed name":  {"sharing: {timeSlicing: {resources: [{name: 'nvidia.com/G P U', replicas: 2}]}}", "malformed"},
		"replicas as text":  {"sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: ten}]}}", "not YAML of the expected shape"},
		"MIG mixed and MPS": {"flags: {migStrategy: mixed}\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}", "mixed"},
		"an unknown MIG":    {"flags: {migStrategy: some}", `"some"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := deviceplugin.ParseConfig([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %v, want an error with %q", err, c.reason)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}")
	f.Add("sharing: {mps: {renameByDefault: true, resources: [{name: gpu, replicas: 2}]}}\nflags: {migStrategy: single, mpsRoot: /run/nvidia/mps}")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		config, err := deviceplugin.ParseConfig([]byte(text))
		if err != nil {
			return
		}
		for name, each := range config.AdvertisedPerGPU() {
			if each < 1 || (name != deviceplugin.GPU && name != deviceplugin.SharedGPU) {
				t.Errorf("a GPU became %d %q", each, name)
			}
			if config.Strategy == deviceplugin.SharingStrategyNone && each != 1 {
				t.Errorf("a whole GPU became %d", each)
			}
		}
	})
}
