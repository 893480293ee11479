package nodes_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

// container waits until the first container of a pod is as want says: what it does,
// whether it and its pod are ready, and at least how often it was restarted.
func (w *fixture) container(t *testing.T, pod *corev1.Pod, want string, restarts int32) corev1.ContainerStatus {
	t.Helper()
	var status corev1.ContainerStatus
	w.eventually(t, func() string {
		got, err := w.api.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || len(got.Status.ContainerStatuses) == 0 {
			return fmt.Sprintf("pod %s has no containers yet (%v)", pod.Name, err)
		}
		status = got.Status.ContainerStatuses[0]
		does := "runs"
		if status.State.Waiting != nil {
			does = status.State.Waiting.Reason
		} else if status.State.Terminated != nil {
			does = "ended"
		}
		if does = fmt.Sprintf("%s, ready %t, pod ready %t", does, status.Ready, podReady(got)); does != want || status.RestartCount < restarts {
			return fmt.Sprintf("pod %s: %s after %d restarts, want %s after %d", pod.Name, does, status.RestartCount, want, restarts)
		}
		return ""
	})
	return status
}

const (
	isUp      = "runs, ready true, pod ready true"
	isWaiting = "CrashLoopBackOff, ready false, pod ready false"
)

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// agreeing follows a pod until stopped, and returns each state in which the pod and
// its containers disagreed on being ready.
func (w *fixture) agreeing(t *testing.T, pod *corev1.Pod) (stop func() []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := w.api.CoreV1().Pods(pod.Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
	if err != nil {
		t.Fatal(err)
	}
	var wrong []string
	var done sync.WaitGroup
	done.Go(func() {
		for event := range watch.ResultChan() {
			observed, ok := event.Object.(*corev1.Pod)
			if !ok || observed.Status.Phase != corev1.PodRunning {
				continue
			}
			all := true
			for _, c := range observed.Status.ContainerStatuses {
				all = all && c.Ready
			}
			if all != podReady(observed) {
				wrong = append(wrong, fmt.Sprintf("version %s: containers %t, pod %t", observed.ResourceVersion, all, podReady(observed)))
			}
		}
	})
	return func() []string {
		watch.Stop()
		cancel()
		done.Wait()
		return wrong
	}
}

func crashLoop(t *testing.T, w *fixture) {
	w.fault("i-noplugin", nodes.Fault{NoPlugin: true})
	node := w.joined(t, w.machine("i-noplugin", "g5.xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	pod := w.create(t, plugin("plugin-none", node.Name, ""))
	stop := w.agreeing(t, pod)
	got := w.container(t, pod, isWaiting, 2)
	last := got.LastTerminationState.Terminated
	if last == nil || last.ExitCode != 1 || last.Reason != "Error" || !strings.Contains(last.Message, "too many open files") {
		t.Errorf("its last end: %+v", last)
	}
	w.waitForNotice(t, "i-noplugin", nodes.NoDevices)
	if n := w.node(t, node.Name); !n.Status.Capacity.Name("nvidia.com/gpu", "").IsZero() {
		t.Errorf("it offers devices: %v", n.Status.Capacity)
	}
	w.fault("i-noplugin", nodes.Fault{})
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "1 of 1")
	w.container(t, pod, isUp, 2)
	if wrong := stop(); len(wrong) > 0 {
		t.Errorf("kwok and the player disagree: %s", strings.Join(wrong, "; "))
	}
	w.delete(t, pod)
	w.waitDeleted(t, pod)
}

func noDriver(t *testing.T, w *fixture) {
	node := w.joined(t, w.machine("i-plain", "g5.xlarge", imageAL2023, w.nodeConfig("a=b")))
	pod := w.create(t, plugin("plugin-plain", node.Name, ""))
	if got := w.waitForNotice(t, "i-plain", nodes.NoDevices); !strings.Contains(got, "driver") {
		t.Errorf("it says %q", got)
	}
	if got := w.container(t, pod, isWaiting, 1).LastTerminationState.Terminated; !strings.Contains(got.Message, "ERROR_LIBRARY_NOT_FOUND") {
		t.Errorf("termination message %q", got.Message)
	}
	w.delete(t, pod)
	w.waitDeleted(t, pod)
	patient := plugin("plugin-patient", node.Name, "")
	patient.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "FAIL_ON_INIT_ERROR", Value: "false"}}
	if got := w.container(t, w.create(t, patient), isUp, 0); got.RestartCount != 0 {
		t.Errorf("a patient plugin was restarted %d times", got.RestartCount)
	}
}

func crashes(t *testing.T, w *fixture) {
	node := w.joined(t, w.machine("i-crash", "g4dn.12xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	pod := w.create(t, plugin("plugin-crash", node.Name, configMap(t, w, "crash", 10)))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "40 of 40")
	runs := w.phase(t, w.create(t, workload("holder", node.Name, 40)), corev1.PodRunning)
	w.fault("i-crash", nodes.Fault{PluginCrashes: -1})
	if last := w.container(t, pod, isWaiting, 3).LastTerminationState.Terminated; last.ExitCode != 2 || !strings.HasPrefix(last.Message, "panic") {
		t.Errorf("its last end: %+v", last)
	}
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "0 of 40")
	refused := w.phase(t, w.create(t, workload("too-early", node.Name, 1)), corev1.PodFailed)
	if refused.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("refused for %q: %s", refused.Status.Reason, refused.Status.Message)
	}
	w.fault("i-crash", nodes.Fault{})
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "40 of 40")
	refused = w.phase(t, w.create(t, workload("too-many", node.Name, 1)), corev1.PodFailed)
	if !strings.Contains(refused.Status.Message, "Available: 0") {
		t.Errorf("what ran before the crash is not counted: %s", refused.Status.Message)
	}
	if got := w.phase(t, runs, corev1.PodRunning); got.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the pod that held devices was restarted")
	}
}

func gpuFallsOffBus(t *testing.T, w *fixture) {
	node := w.joined(t, w.machine("i-bus", "g4dn.12xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	pod := w.create(t, plugin("plugin-bus", node.Name, configMap(t, w, "bus", 10)))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "40 of 40")
	w.fault("i-bus", nodes.Fault{MissingGPUs: 1})
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "30 of 40")
	w.delete(t, pod)
	w.waitDeleted(t, pod)
	w.create(t, plugin("plugin-bus-2", node.Name, "bus"))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "30 of 30")
}

func configuration(t *testing.T, w *fixture) {
	node := w.joined(t, w.machine("i-config", "g5.xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	pod := w.create(t, plugin("plugin-config", node.Name, "config"))
	w.container(t, pod, "ContainerCreating, ready false, pod ready false", 0)
	configMap(t, w, "config", 1)
	if last := w.container(t, pod, isWaiting, 1).LastTerminationState.Terminated; !strings.Contains(last.Message, "unable to load config") {
		t.Errorf("termination message of a plugin with one replica: %q", last.Message)
	}
	configMap(t, w, "config", 7)
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "7 of 7")
	configMap(t, w, "config", 9) // that nobody reads it before a restart is held by another test
	w.fault("i-config", nodes.Fault{PluginCrashes: 1})
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "9 of 9")
	if err := w.api.CoreV1().ConfigMaps("default").Delete(t.Context(), "config", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	before := w.container(t, pod, isUp, 2).RestartCount
	w.fault("i-config", nodes.Fault{})
	w.fault("i-config", nodes.Fault{PluginCrashes: -1})
	w.container(t, pod, isWaiting, before+1)
	w.fault("i-config", nodes.Fault{})
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "9 of 9")
}

func reconfigured(t *testing.T, w *fixture) {
	node := w.joined(t, w.machine("i-again", "g4dn.12xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	replace := func(old *corev1.Pod, name, config string) *corev1.Pod {
		if old != nil {
			w.delete(t, old)
			w.waitDeleted(t, old)
		}
		return w.create(t, plugin(name, node.Name, config))
	}
	pod := replace(nil, "plugin-again", configMap(t, w, "again-10", 10))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "40 of 40")
	var holders []*corev1.Pod
	for i := range 3 {
		holders = append(holders, w.phase(t, w.create(t, workload(fmt.Sprintf("ten-%d", i), node.Name, 10)), corev1.PodRunning))
	}
	pod = replace(pod, "plugin-again-2", configMap(t, w, "again-5", 5))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "20 of 20")
	if got := w.phase(t, w.create(t, workload("eleventh", node.Name, 1)), corev1.PodFailed); got.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("refused for %q: %s", got.Status.Reason, got.Status.Message)
	}
	for _, h := range holders {
		w.phase(t, h, corev1.PodRunning)
	}
	for _, h := range holders[:2] {
		w.delete(t, h)
		w.waitDeleted(t, h)
	}
	w.phase(t, w.create(t, workload("fits-again", node.Name, 10)), corev1.PodRunning)

	renamed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again-renamed"}, Data: map[string]string{
		"config.yaml": "sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 10}]}}"}}
	if _, err := w.api.CoreV1().ConfigMaps("default").Create(t.Context(), renamed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	replace(pod, "plugin-again-3", renamed.Name)
	w.hasGPUs(t, node.Name, "nvidia.com/gpu.shared", "40 of 40")
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "0 of 20")
}

func mps(t *testing.T, w *fixture) {
	text := "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mps"}, Data: map[string]string{"config.yaml": text}}
	if _, err := w.api.CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	daemon := corev1.Container{Name: "mps-control-daemon", Image: pluginImage, Command: []string{"mps-control-daemon"}}
	mounts := corev1.Container{Name: "mounts", Image: pluginImage, Command: []string{"mps-control-daemon", "mount-shm"}}
	with := func(name, node string, inside bool) *corev1.Pod {
		pod := plugin(name, node, "mps")
		pod.Spec.InitContainers = []corev1.Container{mounts}
		pod.Spec.Containers[0].Args = []string{"--mps-root=/run/nvidia/mps"}
		if inside {
			pod.Spec.Containers = append([]corev1.Container{daemon}, pod.Spec.Containers...)
		}
		return pod
	}
	first := w.joined(t, w.machine("i-mps", "g5.xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	w.create(t, with("plugin-mps", first.Name, true))
	w.hasGPUs(t, first.Name, "nvidia.com/gpu", "4 of 4")

	second := w.joined(t, w.machine("i-mps-apart", "g5.xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	alone := w.create(t, with("plugin-apart", second.Name, false))
	if got := w.waitForNotice(t, "i-mps-apart", nodes.NoDevices); !strings.Contains(got, "MPS control daemon") {
		t.Errorf("it says %q", got)
	}
	if got := w.container(t, alone, isUp, 0); got.RestartCount != 0 {
		t.Errorf("a plugin that waits for the daemon was restarted %d times", got.RestartCount)
	}
	other := workload("daemon-apart", second.Name, 0)
	other.Spec.Containers[0] = daemon
	w.create(t, other)
	w.hasGPUs(t, second.Name, "nvidia.com/gpu", "4 of 4")
}
