package nodes_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/provision/sandbox/internal/build"
	"github.com/poolwright/poolwright/provision/sandbox/internal/kube"
	"github.com/poolwright/poolwright/provision/sandbox/nodes"
	"github.com/poolwright/poolwright/provision/sandbox/process"
)

const (
	clusterName   = "test"
	region        = "us-east-1"
	imageAL2023   = "amazon-eks-node-al2023-x86_64-standard-1.36-v20261110"
	imageNVIDIA   = "amazon-eks-node-al2023-x86_64-nvidia-1.36-v20261110"
	imageRocket   = "bottlerocket-aws-k8s-1.36-nvidia-x86_64-v1.50.0-12345678"
	pluginImage   = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
	waitForever   = 2 * time.Minute
	buildDeadline = 20 * time.Minute
)

// environment is a real control plane with a simulator.
type fixture struct {
	t         *testing.T
	plane     *kube.ControlPlane
	api       kubernetes.Interface
	simulator *nodes.Simulator
	ctx       context.Context

	mu      sync.Mutex
	faults  map[string]nodes.Fault // by machine id
	notices []nodes.Notice
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short: it starts a control plane")
	}
	w := &fixture{t: t, faults: map[string]nodes.Fault{}}
	w.startPlane()
	var err error
	if w.api, err = kubernetes.NewForConfig(w.plane.REST()); err != nil {
		t.Fatal(err)
	}
	system := w.machine("i-system", "m5.large", imageAL2023, "")
	system.Group = &nodes.Group{Name: "system", Labels: map[string]string{"role": "system"},
		Taints: []corev1.Taint{{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}}}
	w.simulator, err = nodes.New(nodes.Config{REST: w.plane.REST(), Cluster: w.cluster(), System: []nodes.Machine{system},
		Delays: nodes.Delays{Join: 50 * time.Millisecond, Plugin: 100 * time.Millisecond, NodeGone: 100 * time.Millisecond,
			PluginRetry: 300 * time.Millisecond, CrashBackOff: 200 * time.Millisecond},
		Fault: func(m nodes.Machine) nodes.Fault {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.faults[m.ID]
		},
		Notify: func(n nodes.Notice) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notices = append(w.notices, n)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	t.Cleanup(func() {
		cancel()
		w.simulator.Wait()
	})
	if err := w.simulator.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) startPlane() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), buildDeadline)
	defer cancel()
	builder, err := build.New(".", io.Discard)
	if err != nil {
		w.t.Fatal(err)
	}
	reaper, err := builder.Ensure(ctx, build.Reaper())
	if err != nil {
		w.t.Fatal(err)
	}
	binaries, err := builder.Ensure(ctx, build.ControlPlane())
	if err != nil {
		w.t.Fatal(err)
	}
	folder, err := os.MkdirTemp(w.t.TempDir(), "kube-")
	if err != nil {
		w.t.Fatal(err)
	}
	group, err := process.NewGroup(reaper.Path, folder)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := group.Stop(context.Background()); err != nil {
			w.t.Errorf("stopping the control plane: %v", err)
		}
	})
	if w.plane, err = kube.Start(ctx, kube.Config{Binaries: binaries, Group: group, Dir: folder}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) cluster() nodes.Cluster {
	return nodes.Cluster{Name: clusterName, Endpoint: w.plane.Endpoint(), Region: region, Version: "1.36",
		CA: base64.StdEncoding.EncodeToString(w.plane.CA())}
}

// machine is one with the figures of a few real types.
func (w *fixture) machine(id, kind, image, userData string) nodes.Machine {
	hardware := map[string]nodes.Hardware{
		"m5.large":      {VCPU: 2, MemoryMiB: 8192, Interfaces: 3, AddressesPerInterface: 10},
		"g5.xlarge":     {VCPU: 4, MemoryMiB: 16384, GPUs: 1, Interfaces: 4, AddressesPerInterface: 15, StoreGiB: 250},
		"g4dn.12xlarge": {VCPU: 48, MemoryMiB: 196608, GPUs: 4, Interfaces: 8, AddressesPerInterface: 30, StoreGiB: 838},
	}[kind]
	return nodes.Machine{ID: id, Type: kind, Zone: "us-east-1a", ZoneID: "use1-az1", Image: image,
		Address: "10.0.1.7", DNSName: strings.TrimPrefix(id, "i-") + ".ec2.internal", UserData: userData, Hardware: hardware}
}

// nodeConfig is user data for AL2023 with labels "k=v,k=v".
func (w *fixture) nodeConfig(labels string) string {
	c := w.cluster()
	return fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: %s, apiServerEndpoint: %s, certificateAuthority: %s, cidr: 10.100.0.0/16}
  kubelet:
    config:
      registerWithTaints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
    flags: ['--node-labels="%s"']
--//--
`, c.Name, c.Endpoint, c.CA, labels)
}

// eventually polls until check returns "", which is otherwise what is missing.
func (w *fixture) eventually(t *testing.T, check func() string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitForever)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	missing := check()
	for missing != "" {
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %s\nnotices: %s", waitForever, missing, w.noticesText())
		case <-tick.C:
			missing = check()
		}
	}
}

func (w *fixture) noticesText() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for _, n := range w.notices {
		fmt.Fprintf(&b, "\n  %s %s: %s", n.Event, n.Machine, n.Message)
	}
	return b.String()
}

// waitForNotice waits for a notice about a machine and returns its message.
func (w *fixture) waitForNotice(t *testing.T, id string, event nodes.Event) string {
	t.Helper()
	message := ""
	w.eventually(t, func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.notices {
			if n.Machine == id && n.Event == event {
				message = n.Message
				return ""
			}
		}
		return fmt.Sprintf("no %s notice about %s", event, id)
	})
	return message
}

func (w *fixture) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := w.api.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return node
}

// joined launches a machine and waits until it is a node that takes pods.
func (w *fixture) joined(t *testing.T, m nodes.Machine) *corev1.Node {
	t.Helper()
	w.simulator.Launch(m)
	var node *corev1.Node
	w.eventually(t, func() string {
		if node = w.node(t, m.DNSName); node == nil {
			return "the node does not exist"
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeNotReady {
				return "node-lifecycle leaves the not-ready taint"
			}
		}
		return ""
	})
	return node
}

// hasGPUs waits for a node to offer devices: allocatable of capacity.
func (w *fixture) hasGPUs(t *testing.T, node, resourceName, want string) {
	t.Helper()
	w.eventually(t, func() string {
		n := w.node(t, node)
		if n == nil {
			return "the node is gone"
		}
		a, c := n.Status.Allocatable[corev1.ResourceName(resourceName)], n.Status.Capacity[corev1.ResourceName(resourceName)]
		if got := a.String() + " of " + c.String(); got != want {
			return fmt.Sprintf("%s: got %s, want %s", resourceName, got, want)
		}
		return ""
	})
}

func (w *fixture) create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	var created *corev1.Pod
	w.eventually(t, func() (missing string) { // the namespace's service account may still be on its way
		var err error
		if created, err = w.api.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	return created
}

// phase waits until a pod has a phase.
func (w *fixture) phase(t *testing.T, pod *corev1.Pod, want corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var got *corev1.Pod
	w.eventually(t, func() string {
		var err error
		if got, err = w.api.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		if got.Status.Phase != want {
			return fmt.Sprintf("pod %s is %s (%s), want %s", pod.Name, got.Status.Phase, got.Status.Reason, want)
		}
		return ""
	})
	return got
}

// waitDeleted waits until a pod is gone.
func (w *fixture) waitDeleted(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	w.eventually(t, func() string {
		got, err := w.api.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && got.UID == pod.UID {
			return fmt.Sprintf("pod %s is still there: %s", pod.Name, got.Status.Phase)
		}
		return ""
	})
}

// workload is a pod that tolerates every taint; on is a node's name or "".
func workload(name, on string, gpus int64) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{NodeName: on, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1"}}},
	}
	if gpus > 0 {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	}
	return pod
}

// plugin is a device plugin pod on a node that reads a ConfigMap, if one is named.
func plugin(name, on, configMap string) *corev1.Pod {
	pod := workload(name, on, 0)
	c := &pod.Spec.Containers[0]
	c.Image, c.TerminationMessagePolicy = pluginImage, corev1.TerminationMessageFallbackToLogsOnError
	if configMap == "" {
		return pod
	}
	c.Env = []corev1.EnvVar{{Name: "CONFIG_FILE", Value: "/config/config.yaml"}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: configMap}}}}}
	return pod
}

// fault sets what goes wrong on a machine from now on.
func (w *fixture) fault(id string, f nodes.Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[id] = f
}

func (w *fixture) delete(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := w.api.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}
