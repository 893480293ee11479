package nodes_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision/sandbox/nodes"
)

func TestAgainstARealControlPlane(t *testing.T) {
	w := newFixture(t)
	// One environment for all; each uses machines of its own.
	for _, c := range []struct {
		name string
		run  func(*testing.T, *fixture)
	}{
		{"a terminated machine's node is taken away", terminated},
		{"the system node is a managed node group's", systemNode},
		{"a GPU machine becomes a node without GPUs, and the plugin's pod brings them", gpuNode},
		{"a pod with init containers runs and its deletion ends", podLife},
		{"a job's pod ends after its seconds", jobEnds},
		{"a job's pod ends as its command does", commandEnds},
		{"a pod is ready when its probe has been made", probed},
		{"a pod's hook holds up its end", hooked},
		{"a claim gets an EBS volume, which is attached, detached and deleted", volumeLife},
		{"a kubelet refuses a pod that requests more than is left", admission},
		{"Bottlerocket brings its own device plugin", bottlerocket},
		{"a machine whose user data is for another cluster never joins", wrongCluster},
		{"faults keep nodes away, not ready or without all their GPUs", faults},
		{"a plugin that cannot start crashes again and again, until it can", crashLoop},
		{"a plugin without a driver ends, or waits where it is configured to", noDriver},
		{"a plugin that crashes takes the devices with it for a while", crashes},
		{"a GPU that falls off the bus is missing until the plugin starts anew", gpuFallsOffBus},
		{"a configuration is read when a container starts, and not before", configuration},
		{"another configuration brings another resource, and running pods stay", reconfigured},
		{"MPS needs its daemon, in the plugin's pod or in another", mps},
		{"a node and a pod that the node controller gave up are put right", recovered},
		{"pods wait for the network of a node that registers not ready", slowNetwork},
		{"the pods of the node that was taken away are gone too", orphans},
		{"work goes on after the API server was away", outage},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
}

func systemNode(t *testing.T, w *fixture) {
	node := w.node(t, "system.ec2.internal")
	if node == nil {
		t.Fatal("it does not exist although Start returned")
	}
	if got := node.Labels["eks.amazonaws.com/nodegroup"] + " " + node.Labels["role"]; got != "system system" {
		t.Errorf("labels: %s", got)
	}
	w.eventually(t, func() string {
		lease, err := w.api.CoordinationV1().Leases("kube-node-lease").Get(t.Context(), node.Name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case *lease.Spec.HolderIdentity != node.Name || lease.OwnerReferences[0].UID != node.UID:
			t.Fatalf("the lease is not this kubelet's: %+v", lease)
		case !lease.Spec.RenewTime.After(node.CreationTimestamp.Add(5 * time.Second)):
			return "the lease is not renewed"
		}
		return ""
	})
	pod := w.phase(t, w.create(t, workload("addon", "", 0)), corev1.PodRunning)
	if pod.Spec.NodeName != node.Name {
		t.Errorf("the scheduler put it on %q", pod.Spec.NodeName)
	}
	w.delete(t, pod)
	w.waitDeleted(t, pod)
}

func gpuNode(t *testing.T, w *fixture) {
	m := w.machine("i-gpu", "g4dn.12xlarge", imageNVIDIA, w.nodeConfig("pool=gpu"))
	node := w.joined(t, m)
	if _, ok := node.Status.Capacity["nvidia.com/gpu"]; ok {
		t.Fatal("it registered with GPUs")
	}
	if node.Spec.ProviderID != "aws:///us-east-1a/i-gpu" || node.Labels["pool"] != "gpu" || node.Spec.Taints[0].Key != "nvidia.com/gpu" {
		t.Errorf("provider id %q, labels %v, taints %v", node.Spec.ProviderID, node.Labels, node.Spec.Taints)
	}
	slices := configMap(t, w, "slices", 10)
	waiting := w.create(t, workload("inference", "", 1))
	first := w.create(t, plugin("plugin-1", node.Name, slices))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "40 of 40")
	w.phase(t, waiting, corev1.PodRunning)

	w.delete(t, first)
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "0 of 40")
	refused := w.phase(t, w.create(t, workload("late", node.Name, 1)), corev1.PodFailed)
	if refused.Status.Reason != "UnexpectedAdmissionError" {
		t.Errorf("refused for %q: %s", refused.Status.Reason, refused.Status.Message)
	}
	configMap(t, w, "slices", 5)
	w.create(t, plugin("plugin-2", node.Name, slices))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "20 of 20")
}

// configMap writes a time-slicing configuration and returns its ConfigMap's name.
func configMap(t *testing.T, w *fixture, name string, replicas int) string {
	t.Helper()
	text := fmt.Sprintf("version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}\n", replicas)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"config.yaml": text}}
	client := w.api.CoreV1().ConfigMaps("default")
	if _, err := client.Update(t.Context(), cm, metav1.UpdateOptions{}); err == nil {
		return name
	}
	if _, err := client.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func podLife(t *testing.T, w *fixture) {
	pod := workload("with-init", "system.ec2.internal", 0)
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "x"}, {Name: "sidecar", Image: "y", RestartPolicy: &always}}
	created := w.create(t, pod)
	got := w.phase(t, created, corev1.PodRunning)
	if got.Status.InitContainerStatuses[0].State.Terminated == nil || got.Status.InitContainerStatuses[1].State.Running == nil {
		t.Errorf("init containers: %+v", got.Status.InitContainerStatuses)
	}
	if got.Status.PodIP == "" || got.Status.HostIP != "10.0.1.7" || got.Status.StartTime == nil {
		t.Errorf("pod IP %q, host IP %q, start %v", got.Status.PodIP, got.Status.HostIP, got.Status.StartTime)
	}
	for _, c := range got.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Reason != "" {
			t.Errorf("condition %s is %s (%s)", c.Type, c.Status, c.Reason)
		}
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
	if err := w.api.CoreV1().Pods(pod.Namespace).EvictV1(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
	w.waitDeleted(t, created)

	slow := workload("slow", "system.ec2.internal", 0)
	slow.Annotations = map[string]string{"sandbox.poolwright.dev/stop-seconds": "2"}
	created = w.create(t, slow)
	w.phase(t, created, corev1.PodRunning)
	begin := time.Now()
	w.delete(t, created)
	w.waitDeleted(t, created)
	if took := time.Since(begin); took < 900*time.Millisecond { // times in the API are whole seconds
		t.Errorf("a pod that needs 2 s to stop was gone after %s", took)
	}
}

func jobEnds(t *testing.T, w *fixture) {
	pod := workload("", "system.ec2.internal", 0)
	pod.Annotations = map[string]string{"sandbox.poolwright.dev/run-seconds": "1"}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: batchv1.JobSpec{
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: pod.Annotations}, Spec: pod.Spec}}}
	if _, err := w.api.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, func() string {
		got, err := w.api.BatchV1().Jobs("default").Get(t.Context(), "batch", metav1.GetOptions{})
		if err != nil || got.Status.Succeeded != 1 {
			return fmt.Sprintf("the job has not succeeded: %+v %v", got.Status, err)
		}
		return ""
	})
}

func admission(t *testing.T, w *fixture) {
	m := w.machine("i-small", "g5.xlarge", imageNVIDIA, w.nodeConfig("pool=small"))
	node := w.joined(t, m)
	w.create(t, plugin("plugin-small", node.Name, ""))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu", "1 of 1")
	w.phase(t, w.create(t, workload("one", node.Name, 1)), corev1.PodRunning)
	second := w.phase(t, w.create(t, workload("two", node.Name, 1)), corev1.PodFailed)
	if want := "Requested: 1, Available: 0"; second.Status.Reason != "UnexpectedAdmissionError" || !strings.Contains(second.Status.Message, want) {
		t.Errorf("%s: %s", second.Status.Reason, second.Status.Message)
	}
	big := workload("big", node.Name, 0)
	big.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: node.Status.Capacity[corev1.ResourceCPU]}
	if got := w.phase(t, w.create(t, big), corev1.PodFailed); got.Status.Reason != "OutOfcpu" {
		t.Errorf("%s: %s", got.Status.Reason, got.Status.Message)
	}
}

func bottlerocket(t *testing.T, w *fixture) {
	c := w.cluster()
	data := fmt.Sprintf("[settings.kubernetes]\napi-server = %q\ncluster-name = %q\ncluster-certificate = %q\n"+
		"[settings.kubelet-device-plugins.nvidia]\ndevice-sharing-strategy = \"time-slicing\"\n"+
		"[settings.kubelet-device-plugins.nvidia.time-slicing]\nreplicas = 3\nrename-by-default = true\n", c.Endpoint, c.Name, c.CA)
	node := w.joined(t, w.machine("i-rocket", "g5.xlarge", imageRocket, data))
	w.hasGPUs(t, node.Name, "nvidia.com/gpu.shared", "3 of 3")
}

func wrongCluster(t *testing.T, w *fixture) {
	other := strings.Replace(w.nodeConfig("a=b"), "name: "+clusterName, "name: other", 1)
	w.simulator.Launch(w.machine("i-other", "m5.large", imageAL2023, other))
	if got := w.waitForNotice(t, "i-other", nodes.NeverJoins); !strings.Contains(got, `"other"`) {
		t.Errorf("it says %q", got)
	}
	w.simulator.Launch(w.machine("i-custom", "m5.large", imageAL2023, "#!/bin/sh\necho secret-token\n"))
	if got := w.waitForNotice(t, "i-custom", nodes.NeverJoins); strings.Contains(got, "secret") || !strings.Contains(got, "NodeConfig") {
		t.Errorf("it says %q", got)
	}
}

func faults(t *testing.T, w *fixture) {
	w.fault("i-mute", nodes.Fault{NeverJoins: true})
	w.fault("i-broken", nodes.Fault{NeverReady: true})
	w.fault("i-fewer", nodes.Fault{MissingGPUs: 3})
	w.simulator.Launch(w.machine("i-mute", "m5.large", imageAL2023, w.nodeConfig("a=b")))
	w.waitForNotice(t, "i-mute", nodes.NeverJoins)
	w.simulator.Launch(w.machine("i-broken", "m5.large", imageAL2023, w.nodeConfig("a=b")))
	w.waitForNotice(t, "i-broken", nodes.Joined)
	fewer := w.joined(t, w.machine("i-fewer", "g4dn.12xlarge", imageNVIDIA, w.nodeConfig("a=b")))
	w.create(t, plugin("plugin-fewer", fewer.Name, ""))
	w.hasGPUs(t, fewer.Name, "nvidia.com/gpu", "1 of 1")
	broken := w.node(t, "broken.ec2.internal")
	for _, c := range broken.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionFalse {
			t.Errorf("the broken node is ready: %s", c.Status)
		}
	}
}

func terminated(t *testing.T, w *fixture) {
	m := w.machine("i-doomed", "m5.large", imageAL2023, w.nodeConfig("pool=doomed"))
	node := w.joined(t, m)
	pod := w.create(t, workload("victim", node.Name, 0))
	w.phase(t, pod, corev1.PodRunning)
	w.simulator.Stop(m.ID)
	w.waitForNotice(t, m.ID, nodes.Stopped)
	leases := w.api.CoordinationV1().Leases("kube-node-lease")
	stoppedLease, err := leases.Get(t.Context(), node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	late := w.create(t, workload("late-victim", node.Name, 0))
	w.simulator.Gone(m.ID)
	w.eventually(t, func() string {
		if w.node(t, node.Name) != nil {
			return "the node is still there"
		}
		return ""
	})
	// The garbage collector may be faster than this look at the lease.
	lease, err := leases.Get(t.Context(), node.Name, metav1.GetOptions{})
	if err == nil && lease.Spec.RenewTime.After(stoppedLease.Spec.RenewTime.Time) {
		t.Errorf("the lease was renewed after the machine stopped: %s, then %s", stoppedLease.Spec.RenewTime, lease.Spec.RenewTime)
	}
	for _, p := range []*corev1.Pod{pod, late} {
		if got, err := w.api.CoreV1().Pods("default").Get(t.Context(), p.Name, metav1.GetOptions{}); err == nil && got.DeletionTimestamp != nil {
			t.Errorf("pod %s is deleted before its node was missed", p.Name)
		}
	}
}

// orphans waits for the real pod garbage collector, which lets 40 s pass.
func orphans(t *testing.T, w *fixture) {
	for _, name := range []string{"victim", "late-victim"} {
		w.eventually(t, func() string {
			if _, err := w.api.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("pod %s is still there (%v)", name, err)
			}
			return ""
		})
	}
}

func slowNetwork(t *testing.T, w *fixture) {
	ctx, cancel := context.WithCancel(t.Context())
	simulator, err := nodes.New(nodes.Config{REST: w.plane.REST(), Cluster: w.cluster(),
		Delays: nodes.Delays{Join: -1, Ready: 2 * time.Second, PodStart: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer simulator.Wait()
	defer cancel()
	if err := simulator.Start(ctx); err != nil {
		t.Fatal(err)
	}
	simulator.Launch(w.machine("i-slow", "m5.large", imageAL2023, w.nodeConfig("a=b")))
	host := workload("cni", "slow.ec2.internal", 0)
	host.Spec.HostNetwork = true
	guest := w.create(t, workload("guest", "slow.ec2.internal", 0))
	w.phase(t, w.create(t, host), corev1.PodRunning)
	got, err := w.api.CoreV1().Pods("default").Get(t.Context(), guest.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node := w.node(t, "slow.ec2.internal"); got.Status.Phase == corev1.PodRunning && !isReady(node) {
		t.Error("a pod got an address before the node had a network")
	}
	w.phase(t, guest, corev1.PodRunning)
	if !isReady(w.node(t, "slow.ec2.internal")) {
		t.Error("the pod runs and the node is not ready")
	}
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func recovered(t *testing.T, w *fixture) {
	pod := w.create(t, workload("recovering", "system.ec2.internal", 0))
	w.phase(t, pod, corev1.PodRunning)
	patch := []byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`)
	_, err := w.api.CoreV1().Nodes().Patch(t.Context(), "system.ec2.internal", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	patch = []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	if _, err := w.api.CoreV1().Pods("default").Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, func() string {
		for _, c := range w.node(t, "system.ec2.internal").Status.Conditions {
			if c.Type == corev1.NodeReady && (c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady") {
				return "the node is not ready"
			}
		}
		got, err := w.api.CoreV1().Pods("default").Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
				return "the pod is not ready"
			}
		}
		return ""
	})
}

func outage(t *testing.T, w *fixture) {
	if err := w.plane.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := w.plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := w.create(t, workload("after", "system.ec2.internal", 0))
	w.phase(t, pod, corev1.PodRunning)
	w.delete(t, pod)
	w.waitDeleted(t, pod)
}
