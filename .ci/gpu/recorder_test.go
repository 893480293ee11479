package gpu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// machine is a machine whose programs are the test binary, and whose GPU is as a script lists it.
func machine(t *testing.T, smi string) *Recorder {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"nvidia-device-plugin", "gpu-feature-discovery", "gpu-kubelet-plugin"} {
		if err := os.Symlink(self, filepath.Join(folder, program)); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(folder, "nvidia-smi")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"+smi+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "k") // The path of a socket is short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	return &Recorder{Plugin: filepath.Join(folder, "nvidia-device-plugin"), Discovery: filepath.Join(folder, "gpu-feature-discovery"), SMI: script, Version: "v1.2.3",
		Folder: sockets, Environment: []string{"PLUGIN_FOLDER=" + sockets}, Timeout: time.Minute, Date: time.Date(2026, 11, 28, 1, 2, 3, 0, time.UTC)}
}

// one is a machine with one GPU.
const one = `echo "NVIDIA H100, 81559, 580.1, 9.0, Disabled, Default, Enabled"`

func testCase(name, config, daemon string) Case {
	return Case{Name: name, Command: []string{"nvidia-device-plugin", "--config-file=/etc/c.yaml"}, ConfigPath: "/etc/c.yaml", Config: config, Daemon: daemon}
}

func share(number string) string { return "GPU-00000000-0000-4000-8000-000000000001::" + number }

func TestWhatThePluginReturnsIsRecorded(t *testing.T) {
	got, err := machine(t, one).Record(t.Context(), []Case{
		testCase("two", "a\nb\n", ""), testCase("refused", "refused\n", ""), testCase("waits", "mps\n", ""), testCase("stands in", "mps\n", "stand-in"),
	})
	if err != nil {
		t.Fatal(err)
	}
	two := Resource{
		Name: "nvidia.com/gpu", Version: "v1beta1", Endpoint: "fake.sock", PreferredAllocation: true, SameOptions: true, RegistersAgain: true,
		Devices:   []Device{{ID: share("0"), Health: "Healthy", NUMANodes: []int64{1}}, {ID: share("1"), Health: "Healthy", NUMANodes: []int64{1}}},
		Preferred: []string{share("0")},
		Allocations: []Allocation{
			{Devices: []string{share("0")}, Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": share("0")}, Mounts: map[string]string{"/in": "/out"},
				DeviceNodes: []string{"/dev/nvidia0"}, CDIDevices: []string{"nvidia.com/gpu=0"}},
			{Devices: []string{"GPU-of-nobody"}, Refused: "Unknown: refused: 1"},
			{Devices: []string{share("0"), share("1")}, Refused: "Unknown: refused: 2"},
		},
	}
	first := two
	first.Devices, first.Allocations = two.Devices[:1], two.Allocations[:2]
	ended := 1
	labels := map[string]string{"nvidia.com/gpu.count": "1"}
	want := Recording{
		Date: "2026-11-28", Plugin: "v1.2.3",
		GPUs: []GPU{{Name: "NVIDIA H100", MemoryMiB: 81559, Driver: "580.1", ComputeCapability: "9.0", MIGMode: "Disabled", ComputeMode: "Default", PersistenceMode: "Enabled"}},
		Runs: []Run{
			{Case: testCase("two", "a\nb\n", ""), Resources: []Resource{two}, Labels: labels},
			{Case: testCase("refused", "refused\n", ""), ExitCode: &ended, Log: []string{"Loading configuration.", "unable to load config"}, Labels: map[string]string{"error": "no labels"}},
			{Case: testCase("waits", "mps\n", ""), Log: []string{"Loading configuration.", "Failed to start one or more plugins. Retrying in 30s..."}, Labels: labels},
			{Case: testCase("stands in", "mps\n", "stand-in"), Resources: []Resource{first}, Labels: labels},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAMachineWithAKubeletIsLeftAlone(t *testing.T) {
	r := machine(t, one)
	if err := os.WriteFile(filepath.Join(r.Folder, "kubelet.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Record(t.Context(), []Case{testCase("whole", "a\n", "")}); err == nil || !strings.Contains(err.Error(), "a kubelet runs") {
		t.Errorf("it is recorded: %v", err)
	}
}

func TestARecordingFails(t *testing.T) {
	for name, smi := range map[string]string{
		"where a GPU has other settings afterwards": `test -e "$0.second" && mode=Exclusive_Process; touch "$0.second"; echo "NVIDIA H100, 81559, 580.1, 9.0, Disabled, ${mode:-Default}, Enabled"`,
		"where no driver is loaded":                 "exit 9",
		"without a GPU":                             ":",
		"where nvidia-smi prints less":              `echo "NVIDIA H100, 81559"`,
		"where the memory is no number":             `echo "NVIDIA H100, much, 580.1, 9.0, Disabled, Default, Enabled"`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := machine(t, smi).Record(t.Context(), nil); err == nil {
				t.Error("there is no error")
			}
			if _, err := machine(t, smi).RecordDRA(t.Context(), driverOf(t, machine(t, smi)), "/"); err == nil {
				t.Error("of the DRA driver there is no error")
			}
		})
	}
}

func driverOf(t *testing.T, r *Recorder) string {
	t.Helper()
	return filepath.Join(filepath.Dir(r.Plugin), "gpu-kubelet-plugin")
}

func TestWhatTheDRADriverPublishesIsRecorded(t *testing.T) {
	r := machine(t, one)
	got, err := r.RecordDRA(t.Context(), driverOf(t, r), "/")
	if err != nil {
		t.Fatal(err)
	}
	uid := "00000000-0000-4000-8000-000000000001"
	want := DRARecording{
		Date: "2026-11-28", Driver: "v1.2.3",
		GPUs:       []GPU{{Name: "NVIDIA H100", MemoryMiB: 81559, Driver: "580.1", ComputeCapability: "9.0", MIGMode: "Disabled", ComputeMode: "Default", PersistenceMode: "Enabled"}},
		Registered: []string{draDriver, "DRAPlugin", "v1.DRAPlugin"},
		Slices:     []any{map[string]any{"driver": draDriver, "devices": []any{map[string]any{"name": "gpu-0"}}, "pool": map[string]any{"name": "", "generation": 0.0, "resourceSliceCount": 0.0}}},
		Prepared: []PreparedClaim{
			{Device: "gpu-0", CDIDevices: []string{"claim=" + uid}, CDI: []any{map[string]any{"kind": "claim"}}, Unprepared: true},
			{Device: "gpu-of-nobody", Refused: "no device gpu-of-nobody", Unprepared: true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	r.Environment = append(r.Environment, "FAKE=ends")
	if _, err := r.RecordDRA(t.Context(), driverOf(t, r), "/"); err == nil || !strings.Contains(err.Error(), "no driver") {
		t.Errorf("a driver that ends is recorded: %v", err)
	}
}

func TestTheCasesOfAFile(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		cases int
		fails bool
	}{
		"are read":                    {`[{"name": "a", "command": ["b"], "configPath": "/c"}]`, 1, false},
		"need a command":              {`[{"name": "a", "configPath": "/c"}]`, 0, true},
		"are JSON":                    {`a`, 0, true},
		"need a path of their config": {`[{"name": "a", "command": ["b"]}]`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "cases.json")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadCases(file); len(got) != c.cases || (err != nil) != c.fails {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if _, err := ReadCases(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
	if own, err := ReadCases("../../reconciler/deviceplugin/recording/testdata/cases.json"); err != nil || len(own) == 0 {
		t.Errorf("those of the repository are %v (%v)", own, err)
	}
}
