package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/devicemanager"
)

// deviceBench is a machine whose device worker is stepped by hand, with an API that holds
// one ConfigMap, the Node's devices and a pod's last status.
type deviceBench struct {
	t       *testing.T
	k       *kubelet
	clock   *testingclock.FakeClock
	run     pluginRun
	fault   Fault
	config  map[string]string // the ConfigMap's data; nil is none
	down    bool              // the API server does not answer for ConfigMaps
	node    map[string]map[string]string
	pod     *corev1.Pod
	notices []string
}

type fakeAPI struct {
	kubernetes.Interface
	r *deviceBench
}

func (a fakeAPI) CoreV1() typed.CoreV1Interface { return fakeCore{r: a.r} }

type fakeCore struct {
	typed.CoreV1Interface
	r *deviceBench
}

func (c fakeCore) Nodes() typed.NodeInterface                 { return fakeNodes{r: c.r} }
func (c fakeCore) Pods(string) typed.PodInterface             { return fakePods{r: c.r} }
func (c fakeCore) ConfigMaps(string) typed.ConfigMapInterface { return fakeConfigMaps{r: c.r} }

type fakeNodes struct {
	typed.NodeInterface
	r *deviceBench
}

func (n fakeNodes) Patch(_ context.Context, _ string, _ types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Node, error) {
	var read struct {
		Status map[string]map[string]string `json:"status"`
	}
	err := json.Unmarshal(patch, &read)
	for list, numbers := range read.Status {
		maps.Copy(n.r.node[list], numbers)
	}
	return nil, err
}

type fakePods struct {
	typed.PodInterface
	r *deviceBench
}

func (p fakePods) UpdateStatus(_ context.Context, pod *corev1.Pod, _ metav1.UpdateOptions) (*corev1.Pod, error) {
	p.r.pod = pod
	if record := p.r.k.pods[pod.UID]; record != nil {
		record.pod = pod
	}
	return pod, nil
}

type fakeConfigMaps struct {
	typed.ConfigMapInterface
	r *deviceBench
}

func (m fakeConfigMaps) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	switch {
	case m.r.down:
		return nil, errors.New("connection refused")
	case m.r.config == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: maps.Clone(m.r.config)}, nil
}

// enter makes a room of a g4dn.12xlarge, with Delays that are all real but those of
// steps that take no time here.
func enter(t *testing.T, image string, delays Delays) *deviceBench {
	t.Helper()
	r := &deviceBench{t: t, clock: testingclock.NewFakeClock(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)), run: pluginRun{posted: devicemanager.Table{}},
		node: map[string]map[string]string{"capacity": {}, "allocatable": {}}}
	config, err := Config{Client: fakeAPI{r: r}, Cluster: Cluster{Name: testCluster, Endpoint: "https://e", Region: "r", Version: "1.36"}, Delays: delays,
		Clock: r.clock, Fault: func(Machine) Fault { return r.fault }, Notify: func(n Notice) { r.notices = append(r.notices, n.Message) }}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	nodes := cache.NewSharedIndexInformer(&cache.ListWatch{}, &corev1.Node{}, 0, nil)
	r.k = newKubelet(&Simulator{config: config, ctx: t.Context(), nodes: nodes}, Machine{ID: "i-1", Type: "g4dn.12xlarge", Image: image, DNSName: "n", Hardware: Hardware{GPUs: 4}})
	r.k.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if r.k.image, err = readImage(image); err != nil {
		t.Fatal(err)
	}
	return r
}

// runs puts a plugin's pod on the machine that reads the ConfigMap.
func (r *deviceBench) runs(uid string) *corev1.Pod {
	pod := pluginPod()
	pod.UID, pod.Name = types.UID(uid), uid
	plugin := &pod.Spec.Containers[1]
	plugin.Args = []string{"--config-file=/config/config.yaml", "--mps-root=/run/nvidia/mps"}
	plugin.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}}
	r.k.pods[pod.UID] = &podRecord{pod: pod, mounted: map[string]*corev1.ConfigMap{}}
	return pod
}

// pass lets time go by, with steps as the worker makes them.
func (r *deviceBench) pass(d time.Duration) {
	r.t.Helper()
	end := r.clock.Now().Add(d)
	for range 100_000 {
		wait := r.k.stepDevices(&r.run, r.clock.Now())
		if r.clock.Now().Add(wait).After(end) {
			r.clock.SetTime(end)
			r.k.stepDevices(&r.run, end)
			return
		}
		r.clock.Step(wait)
	}
	r.t.Fatal("the worker never rests")
}

// offers compares the Node's devices.
func (r *deviceBench) offers(why, want string) {
	r.t.Helper()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(r.node["capacity"])) {
		got = append(got, fmt.Sprintf("%s %s/%s", strings.TrimPrefix(name, "nvidia.com/"), r.node["allocatable"][name], r.node["capacity"][name]))
	}
	if text := strings.Join(got, ", "); text != want {
		r.t.Errorf("%s: the node advertises %q, want %q", why, text, want)
	}
}

const (
	nvidia2023 = "amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261110"
	plain2023  = "amazon-eks-node-al2023-x86_64-standard-1.36-v20261110"
)

func sharing(kind string, replicas int, renamed bool) map[string]string {
	return map[string]string{"config.yaml": fmt.Sprintf("sharing: {%s: {renameByDefault: %t, resources: [{name: nvidia.com/gpu, replicas: %d}]}}", kind, renamed, replicas)}
}

func TestARenamedResourceIsDroppedAfterFiveMinutes(t *testing.T) {
	r := enter(t, nvidia2023, Delays{})
	r.config = sharing("timeSlicing", 10, false)
	r.runs("old")
	r.pass(time.Second)
	r.offers("the plugin registers", "gpu 40/40")
	delete(r.k.pods, "old")
	r.pass(time.Second)
	r.offers("its pod goes", "gpu 0/40")
	r.config = sharing("timeSlicing", 5, true)
	r.runs("new")
	r.pass(4 * time.Minute)
	r.offers("another takes its place", "gpu 0/40, gpu.shared 20/20")
	r.pass(time.Minute)
	r.offers("five minutes later", "gpu 0/0, gpu.shared 20/20")
}

func TestAConfigMapThatIsEditedOrPrunedUnderARunningPluginChangesNothing(t *testing.T) {
	r := enter(t, nvidia2023, Delays{})
	r.config = sharing("timeSlicing", 10, false)
	r.runs("p")
	r.pass(time.Minute)
	r.config = sharing("timeSlicing", 5, false)
	r.pass(time.Hour)
	r.offers("edited", "gpu 40/40")
	r.fault = Fault{PluginCrashes: 1}
	r.pass(time.Minute)
	r.offers("the container started again", "gpu 20/20")
	r.config, r.fault = nil, Fault{}
	r.pass(time.Minute)
	r.fault = Fault{PluginCrashes: 1}
	r.pass(time.Minute)
	r.offers("its ConfigMap is gone, and the kubelet keeps the files", "gpu 20/20")
	r.down, r.fault = true, Fault{}
	r.pass(time.Minute)
	r.fault = Fault{PluginCrashes: 1}
	r.pass(time.Minute)
	r.offers("so it does when the API server is away", "gpu 20/20")
	if got := r.pod.Status.ContainerStatuses[1].RestartCount; got != 3 {
		t.Errorf("%d restarts", got)
	}
}

func TestAPluginThatCannotReadItsConfigMapYetDoesNotFail(t *testing.T) {
	r := enter(t, nvidia2023, Delays{})
	r.down = true
	r.runs("p")
	r.pass(time.Minute)
	if r.pod != nil || len(r.notices) > 0 {
		t.Errorf("the API server is away, and the plugin fails: %q", r.notices)
	}
	r.down, r.config = false, map[string]string{"config.yaml": ""}
	r.pass(time.Second)
	r.offers("it is back", "gpu 4/4")
}

func TestAPodWaitsForItsConfigMap(t *testing.T) {
	r := enter(t, nvidia2023, Delays{})
	pod := r.runs("p")
	record := r.k.pods["p"]
	record.mounted = nil
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	r.pass(time.Minute)
	if r.k.startable(pod) {
		t.Error("it starts without its volume")
	}
	if r.pod == nil || !strings.Contains(containerStates(r.pod), "plugin waits ContainerCreating") || r.pod.Status.Phase != corev1.PodPending {
		t.Fatalf("its status: %+v", r.pod)
	}
	if got := strings.Join(r.notices, "; "); strings.Count(got, "there is no ConfigMap kube-system/c") != 1 {
		t.Errorf("told: %s", got)
	}
}

func TestTheNodesStatusMayFollowItsDevicesLate(t *testing.T) {
	r := enter(t, nvidia2023, Delays{NodeStatus: 10 * time.Second})
	r.config = sharing("timeSlicing", 10, false)
	r.runs("p")
	r.pass(10 * time.Second)
	r.offers("not posted yet", "")
	r.pass(time.Second)
	r.offers("posted", "gpu 40/40")
	r.fault = Fault{PluginCrashes: 1}
	r.pass(time.Millisecond)
	if got := r.k.admissionDevices()["nvidia.com/gpu"].Healthy; got != 0 {
		t.Errorf("the kubelet itself still gives out %d", got)
	}
	r.offers("a plugin that restarts", "gpu 40/40")
	r.pass(time.Minute)
	r.offers("is not seen to be gone", "gpu 40/40")
	if slices.ContainsFunc(r.notices, func(s string) bool { return strings.Contains(s, "0 of 40") && !strings.Contains(s, "40 of 40") }) {
		t.Errorf("told: %q", r.notices)
	}
}

func TestWhatAPluginDoesWithoutDriverGPUsOrDaemon(t *testing.T) {
	patient := func(data map[string]string) map[string]string {
		return map[string]string{"config.yaml": data["config.yaml"] + "\nflags: {failOnInitError: false}"}
	}
	for name, c := range map[string]struct {
		image  string
		config map[string]string
		fault  Fault
		gpus   int
		daemon bool
		want   string // the plugin's container after ten seconds
		why    string // of the notice
		texts  string // among the container's last
	}{
		"it ends where the image has no driver": {plain2023, sharing("timeSlicing", 2, false), Fault{}, 4, true, "CrashLoopBackOff", "no NVIDIA driver", "initialize NVML: ERROR_LIBRARY_NOT_FOUND"},
		"or waits, where it is configured to":   {plain2023, patient(sharing("timeSlicing", 2, false)), Fault{}, 4, true, "runs", "no NVIDIA driver", ""},
		"it ends where the type has no GPU":     {nvidia2023, sharing("timeSlicing", 2, false), Fault{}, 0, true, "CrashLoopBackOff", "no NVIDIA GPU", "initialize NVML: Driver Not Loaded"},
		"it reads its configuration first":      {plain2023, sharing("timeSlicing", 1, false), Fault{}, 4, true, "CrashLoopBackOff", "replicas must be 2", "unable to load config"},
		"the waiting is for drivers":            {nvidia2023, patient(sharing("timeSlicing", 1, false)), Fault{}, 4, true, "CrashLoopBackOff", "replicas must be 2", "unable to load config"},
		"it waits where all GPUs are missing":   {nvidia2023, sharing("timeSlicing", 2, false), Fault{MissingGPUs: 4}, 4, true, "runs", "finds no GPU", ""},
		"it waits for the MPS daemon":           {nvidia2023, sharing("mps", 2, false), Fault{}, 4, false, "runs", "MPS control daemon", ""},
		"it is content with one beside it":      {nvidia2023, sharing("mps", 2, false), Fault{}, 4, true, "runs", "", ""},
		"a fault ends it before all else":       {plain2023, sharing("timeSlicing", 1, false), Fault{NoPlugin: true}, 4, true, "CrashLoopBackOff", "a fault", "too many open files"},
	} {
		t.Run(name, func(t *testing.T) {
			r := enter(t, c.image, Delays{})
			r.config, r.fault, r.k.machine.Hardware.GPUs = c.config, c.fault, c.gpus
			pod := r.runs("p")
			if !c.daemon {
				pod.Spec.Containers, pod.Status.ContainerStatuses = pod.Spec.Containers[1:], pod.Status.ContainerStatuses[1:]
			}
			r.pass(10 * time.Second)
			got := containerStates(r.k.pods["p"].pod)
			if !strings.Contains(got, "plugin "+c.want) && !strings.Contains(got, "plugin waits "+c.want) {
				t.Errorf("want a plugin that is %s:\n%s", c.want, got)
			}
			if got := strings.Join(r.notices, "; "); c.why != "" && !strings.Contains(got, c.why) {
				t.Errorf("told %q, want %q", got, c.why)
			}
			if c.texts != "" && !strings.Contains(got, c.texts) {
				t.Errorf("want the termination message %q:\n%s", c.texts, got)
			}
			want := ""
			if c.why == "" {
				want = "gpu 8/8"
			}
			r.offers("then", want)
		})
	}
}

func TestWhatBecomesOfPartitionsIsUpToTheGPUs(t *testing.T) {
	privileged := true
	for model, c := range map[string]struct{ want, why string }{
		"H100": {"mig-1g.10gb 28/28", ""},
		"T4":   {"gpu 4/4", ""},
		"A100": {"", "can not reset the GPUs"},
	} {
		t.Run(model, func(t *testing.T) {
			r := enter(t, nvidia2023, Delays{})
			r.k.machine.Hardware.GPUModel = model
			r.config = map[string]string{"config.yaml": "flags: {migStrategy: mixed}",
				"mig-parted.yaml": "version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 7}}]}"}
			pod := r.runs("p")
			of := corev1.VolumeMount{Name: "dev", MountPath: "/dev"}
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: of.Name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev"}}})
			pod.Spec.Containers[1].SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
			pod.Spec.InitContainers = []corev1.Container{{Name: "mig-parted", Image: "nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.15.0",
				Command:         []string{"nvidia-mig-parted", "apply", "--config-file=/config/mig-parted.yaml", "--selected-config=a"},
				SecurityContext: &corev1.SecurityContext{Privileged: &privileged}, VolumeMounts: append(slices.Clone(pod.Spec.Containers[1].VolumeMounts), of)}}
			r.pass(10 * time.Second)
			if got := strings.Join(r.notices, "; "); !strings.Contains(got, c.why) {
				t.Errorf("the notices are %q, want %q", got, c.why)
			}
			r.offers("then", c.want)
		})
	}
}
