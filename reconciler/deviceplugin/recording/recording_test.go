package recording_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/cost"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/deviceplugin"
	"github.com/poolwright/poolwright/reconciler/deviceplugin/recording"
	"github.com/poolwright/poolwright/reconciler/state"
)

func load(t testing.TB) recording.Recording {
	t.Helper()
	out, err := recording.Load()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// configs are those of the DevicePlugin, as the engine's side reads them.
func configs(t testing.TB) map[string]gpu.PluginConfig {
	t.Helper()
	plugin := &v1alpha1.DevicePlugin{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(declared(t).Items()[0].Object, plugin, true); err != nil {
		t.Fatal(err)
	}
	out := map[string]gpu.PluginConfig{}
	for _, p := range deviceplugin.Sharing(plugin).Configs {
		out[p.Name] = p
	}
	return out
}

// served are the runs of configs under which the plugin could serve, by config.
func served(t testing.TB) map[string]recording.Run {
	t.Helper()
	out := map[string]recording.Run{}
	ours := configs(t)
	for _, run := range load(t).Runs {
		if _, ok := ours[run.Name]; ok {
			out[run.Name] = run
		}
	}
	if len(out) != len(ours) {
		t.Fatalf("the recording has the configs %d of %d", len(out), len(ours))
	}
	return out
}

func TestTheRecordingIsOfTheConfigurationsOfToday(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want []recording.Case
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	var got []recording.Case
	for _, run := range load(t).Runs {
		got = append(got, run.Case)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record it anew with make gpu-recording on a machine with a GPU (-today +recorded):\n%s", diff)
	}
}

func TestThePluginAdvertisesWhatAProfileAllocates(t *testing.T) {
	recorded := load(t)
	for name, run := range served(t) {
		config := configs(t)[name]
		t.Run(name, func(t *testing.T) {
			got := gpu.Resources{gpu.Resource: 0, gpu.SharedResource: 0}
			for _, r := range run.Resources {
				got[corev1.ResourceName(r.Name)] += int64(len(r.Devices))
			}
			if diff := cmp.Diff(config.Allocatable(len(recorded.GPUs)), got); diff != "" {
				t.Errorf("what a node advertises (-computed +recorded):\n%s", diff)
			}
			if refusal, ok := run.Resources[0].Refused(2); ok && (refusal != "") != config.OnePerRequest {
				t.Errorf("a request for two returns %q, and one per request is %t", refusal, config.OnePerRequest)
			}
			if refusal, ok := run.Resources[0].Refused(1); !ok || refusal != "" {
				t.Errorf("a request for one returns %q", refusal)
			}
			if !run.Resources[0].RegistersAgain {
				t.Error("it does not register with a kubelet that starts anew")
			}
		})
	}
}

func TestKarpenterIsGivenTheNumbersThatThePluginAdvertises(t *testing.T) {
	set := expanded(t)
	gpus := strconv.Itoa(len(load(t).GPUs))
	for name, run := range served(t) {
		item, ok := set.Get(state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodeOverlay", Name: "poolwright-gpu-" + gpus + "-" + name})
		if !ok {
			t.Fatalf("the pool %s has no NodeOverlay for %s GPUs", name, gpus)
		}
		spec, _ := item.Object["spec"].(map[string]any)
		got := map[string]any{string(gpu.Resource): "0", string(gpu.SharedResource): "0"}
		got[run.Resources[0].Name] = strconv.Itoa(len(run.Resources[0].Devices))
		if diff := cmp.Diff(spec["capacity"], any(got)); diff != "" {
			t.Errorf("%s: the capacity of its NodeOverlay (-computed +recorded):\n%s", item.Key, diff)
		}
	}
}

// device is the form of the plugin's names of GPUs and of their shares.
var device = regexp.MustCompile(`^GPU-[0-9a-f-]{36}(::\d+)?$`)

func TestADeviceIsAGPUOrANumberedShareOfOne(t *testing.T) {
	for name, run := range served(t) {
		shared := configs(t)[name].Replicas > 1
		for _, d := range run.Resources[0].Devices {
			if match := device.FindStringSubmatch(d.ID); match == nil || (match[1] != "") != shared || d.Health != "Healthy" {
				t.Errorf("%s lists %+v", name, d)
			}
		}
	}
}

func TestTwoSharesAreNoMoreThanOneGPU(t *testing.T) {
	run := served(t)["sliced"]
	for _, a := range run.Resources[0].Allocations {
		if len(a.Devices) < 2 {
			continue
		}
		if id, _, _ := strings.Cut(a.Devices[0], "::"); a.Env["NVIDIA_VISIBLE_DEVICES"] != id {
			t.Errorf("the shares %v are the devices %q", a.Devices, a.Env["NVIDIA_VISIBLE_DEVICES"])
		}
		return
	}
	t.Error("no request for two was recorded")
}

func TestWithoutADaemonOfMPSThePluginWaits(t *testing.T) {
	waiting := 0
	for _, run := range load(t).Runs {
		if !strings.HasSuffix(run.Name, "-without-daemon") {
			continue
		}
		waiting++
		if len(run.Resources) > 0 || run.ExitCode != nil || !slices.Contains(run.Log, "Failed to start one or more plugins. Retrying in 30s...") {
			t.Errorf("%s: %+v", run.Name, run)
		}
	}
	if waiting != 2 {
		t.Errorf("%d such runs were recorded", waiting)
	}
}

func TestThePodMountsWhatThePluginMountsIntoOthers(t *testing.T) {
	for _, item := range expanded(t).Items() {
		if item.Key.Kind != "DaemonSet" || !strings.Contains(item.Key.Name, "mps") {
			continue
		}
		daemonSet := object[appsv1.DaemonSet](t, item)
		run := served(t)[daemonSet.Labels[gpu.ConfigLabel]]
		granted := run.Resources[0].Allocations[0]
		spec := daemonSet.Spec.Template.Spec
		for inside, outside := range granted.Mounts {
			if !mounted(spec, inside, outside) {
				t.Errorf("%s: the plugin mounts the host's %s at %s, which its own pod has not there", item.Key, outside, inside)
			}
		}
		if pipe := granted.Env["CUDA_MPS_PIPE_DIRECTORY"]; granted.Mounts[pipe] == "" || len(granted.Mounts) != 2 {
			t.Errorf("%s: it mounts %v, and the pipe is at %q", item.Key, granted.Mounts, pipe)
		}
	}
}

// mounted reports whether a path of the host is at a path in the pod's plugin.
func mounted(spec corev1.PodSpec, inside, outside string) bool {
	for _, m := range spec.Containers[0].VolumeMounts {
		rest, below := strings.CutPrefix(inside, m.MountPath)
		if !below {
			continue
		}
		for _, v := range spec.Volumes {
			if v.Name == m.Name && v.HostPath != nil && v.HostPath.Path+rest == outside {
				return true
			}
		}
	}
	return false
}

func TestTheLabelsOfFeatureDiscoveryAreTheProfiles(t *testing.T) {
	recorded := load(t)
	for name, run := range served(t) {
		config := configs(t)[name]
		product := strings.ReplaceAll(recorded.GPUs[0].Name, " ", "-")
		if config.Strategy != gpu.SharingStrategyNone && !config.Renamed {
			product += "-SHARED"
		}
		want := map[string]string{
			"nvidia.com/gpu.count": strconv.Itoa(len(recorded.GPUs)), "nvidia.com/gpu.replicas": strconv.Itoa(config.Replicas), "nvidia.com/gpu.sharing-strategy": string(config.Strategy),
			"nvidia.com/gpu.memory": strconv.FormatInt(recorded.GPUs[0].MemoryMiB, 10), "nvidia.com/gpu.product": product,
		}
		some := cmpopts.IgnoreMapEntries(func(label, _ string) bool { return want[label] == "" })
		if diff := cmp.Diff(want, run.Labels, some); diff != "" {
			t.Errorf("%s (-computed +recorded):\n%s", name, diff)
		}
	}
}

// What EC2 describes is the memory that is built in: the driver keeps a part of it from programs.
func TestTheCatalogHasTheMemoryOfTheRecordedGPU(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	recorded := load(t).GPUs[0]
	found := 0
	for _, it := range types.Types() {
		if it.GPU.Name == "" || !strings.Contains(recorded.Name, it.GPU.Manufacturer+" "+it.GPU.Name+" ") {
			continue
		}
		found++
		if missing := 1 - float64(recorded.MemoryMiB)/float64(it.GPU.MemoryMiB); missing < 0 || missing > 0.01 {
			t.Errorf("%s has GPUs of %d MiB, and the driver %d", it.Name, it.GPU.MemoryMiB, recorded.MemoryMiB)
		}
		if labels := it.Labels(); labels["karpenter.k8s.aws/instance-gpu-count"] != strconv.Itoa(it.GPU.Count) || labels["karpenter.k8s.aws/instance-gpu-memory"] != strconv.Itoa(it.GPU.MemoryMiB) {
			t.Errorf("%s: Karpenter's labels are %v", it.Name, labels)
		}
	}
	if found == 0 {
		t.Errorf("no type has the GPU %q", recorded.Name)
	}
}

// draRecording is what of the DRA driver's recording is compared.
type draRecording struct {
	Date   string          `json:"date"`
	Driver string          `json:"driver"`
	GPUs   []recording.GPU `json:"gpus"`
	Slices []struct {
		Driver  string `json:"driver"`
		Devices []struct {
			Name       string                       `json:"name"`
			Attributes map[string]map[string]string `json:"attributes"`
			Capacity   map[string]map[string]string `json:"capacity"`
		} `json:"devices"`
	} `json:"slices"`
	Prepared []struct {
		Device     string   `json:"device"`
		Refused    string   `json:"refused"`
		CDIDevices []string `json:"cdiDevices"`
		Unprepared bool     `json:"unprepared"`
	} `json:"prepared"`
}

func loadDRA(t testing.TB) draRecording {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "dra.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out draRecording
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheDRADriverHasTheGPUsOfThePlugin(t *testing.T) {
	dra := loadDRA(t)
	recorded := load(t)
	if diff := cmp.Diff(recorded.GPUs, dra.GPUs); diff != "" {
		t.Fatalf("another machine (-plugin +DRA):\n%s", diff)
	}
	if len(dra.Slices) != 1 || len(dra.Slices[0].Devices) != len(recorded.GPUs) {
		t.Fatalf("its ResourceSlices are %+v", dra.Slices)
	}
	for i, d := range dra.Slices[0].Devices {
		if d.Name != fmt.Sprintf("gpu-%d", i) || d.Attributes["productName"]["string"] != recorded.GPUs[i].Name || d.Capacity["memory"]["value"] != fmt.Sprintf("%dMi", recorded.GPUs[i].MemoryMiB) {
			t.Errorf("device %d is %+v", i, d)
		}
	}
	granted, refused := dra.Prepared[0], dra.Prepared[1]
	if granted.Refused != "" || len(granted.CDIDevices) != 1 || !granted.Unprepared || refused.Refused == "" || len(refused.CDIDevices) != 0 {
		t.Errorf("its claims are %+v", dra.Prepared)
	}
}

func TestARecordingIdentifiesNoMachine(t *testing.T) {
	uuid := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	for _, file := range []string{"recording.json", "dra.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range uuid.FindAllString(string(text), math.MaxInt32) {
			if !strings.HasPrefix(id, "00000000-0000-4000-8000-") {
				t.Errorf("%s has the UUID %s", file, id)
			}
		}
	}
}

func TestTheCostOfAShareIsOfWhatThePluginAdvertises(t *testing.T) {
	types, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	// The H100's type with as many GPUs as were recorded.
	one := []catalog.Requirement{{Key: "node.kubernetes.io/instance-type", Operator: "In", Values: []string{"p5.4xlarge"}}}
	for name, run := range served(t) {
		table := cost.NewTable(cost.Query{Region: "us-east-1", HoursPerDay: 8, Pools: []cost.Pool{{Name: name, Requirements: one, PluginConfig: configs(t)[name]}}}, types)
		if len(table.Pools) != 1 || table.Pools[0].Cheapest == nil {
			t.Fatalf("%s: %+v", name, table)
		}
		node := table.Pools[0].Cheapest
		if node.GPUs != len(load(t).GPUs) || node.Shares != len(run.Resources[0].Devices) || node.Sharing != run.Labels["nvidia.com/gpu.sharing-strategy"] {
			t.Errorf("%s: a node of %+v, and the plugin lists %d devices", name, node, len(run.Resources[0].Devices))
		}
	}
}
