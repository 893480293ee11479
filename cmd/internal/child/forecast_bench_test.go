package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/poolwright/poolwright/provision"
)

// BenchmarkForecastOfALargeCluster replaces all nodes, or those of one of 20 pools, of clusters
// whose nodes and pods are as large as those of a real one. It reports what goes to the child,
// the most memory that the child has resident, and what the whole takes at best: the processor
// time is that of parent and child, whatever else the machine does. The child gets the 512 MiB
// that are promised, and fails with less than it needs.
func BenchmarkForecastOfALargeCluster(b *testing.B) {
	for _, nodes := range []int{20, 500, 5000} {
		for name, classes := range map[string]int{"all of": 20, "a pool of": 1} {
			b.Run(fmt.Sprintf("%s %d nodes and %d pods", name, nodes, 10*nodes), func(b *testing.B) { benchmarkForecast(b, nodes, classes) })
		}
	}
}

func benchmarkForecast(b *testing.B, nodes, classes int) {
	s := step{before: sized(b, nodes), settings: settings()}
	s.after = retagged(s.before, classes)
	for _, p := range s.before.Pods {
		dress(p)
	}
	for _, n := range s.before.Nodes {
		dressNode(n)
	}
	r := &Runner{Limits: Limits{Memory: 512 << 20}}
	var sent bytes.Buffer
	if err := send(&writer{to: &sent, remaining: 1 << 40}, s.settings, s.before, s.after); err != nil {
		b.Fatal(err)
	}
	least, wall, peak := time.Hour, time.Hour, watchChildren()
	for b.Loop() {
		begin, cpu := time.Now(), worked(b)
		got, err := r.Forecast(b.Context(), s.settings, s.before, s.after)
		if err != nil {
			b.Fatal(err)
		}
		wall, least = min(wall, time.Since(begin)), min(least, worked(b)-cpu)
		if len(got.Replaced) != nodes*classes/20 || got.Rollout.Pods != nodes*classes/2 {
			b.Fatalf("%d nodes and %d pods", len(got.Replaced), got.Rollout.Pods)
		}
	}
	b.ReportMetric(float64(sent.Len())/(1<<20), "MiB-sent")
	b.ReportMetric(float64(peak())/(1<<20), "MiB-resident")
	b.ReportMetric(wall.Seconds(), "s-at-best")
	b.ReportMetric(least.Seconds(), "cpu-s-at-best")
}

// worked is the processor time of this process and of its children that have ended.
func worked(b *testing.B) (total time.Duration) {
	b.Helper()
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			b.Fatal(err)
		}
		total += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return total
}

// retagged is the snapshot with other tags in so many classes, so that all nodes of theirs drift.
func retagged(before provision.ClusterSnapshot, classes int) provision.ClusterSnapshot {
	after := before
	after.NodeClasses = slices.Clone(before.NodeClasses)
	for i := range classes {
		after.NodeClasses[i] = after.NodeClasses[i].DeepCopy()
		after.NodeClasses[i].Spec.Tags = map[string]string{"cost": "1"}
	}
	return after
}

// dress gives a pod what real ones have beside what a scheduler reads.
func dress(p *corev1.Pod) {
	c := &p.Spec.Containers[0]
	for i := range 20 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SERVICE_SETTING_%02d", i), Value: fmt.Sprintf("https://service-%02d.example.svc.cluster.local:8443", i)})
	}
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 10, FailureThreshold: 3}
	c.LivenessProbe, c.ReadinessProbe = probe, probe
	c.Command, c.Args = []string{"/usr/local/bin/server"}, []string{"--config=/etc/server/config.yaml", "--log-format=json", "--metrics-addr=:9090"}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: "TCP"}}
	c.TerminationMessagePath, c.ImagePullPolicy = "/dev/termination-log", corev1.PullIfNotPresent
	for _, name := range []string{"config", "scratch", "tls"} {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/etc/server/" + name, ReadOnly: true})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: p.Name + name}}}})
	}
	p.Labels["pod-template-hash"], p.Labels["app.kubernetes.io/part-of"] = "5d9c7b8f6d", "platform"
	p.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-11-01T10:00:00Z", "checksum/config": strings.Repeat("0a", 32)}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: metav1.NewFieldsV1(`{"f:status":{` + strings.Repeat(`"f:conditions":{},`, 60) + `}}`)}}
	for _, name := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		if p.Spec.NodeName != "" {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: name, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Unix(1.7e9, 0))})
		}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: c.Name, Image: c.Image, ImageID: c.Image + strings.Repeat("0a", 32), ContainerID: "containerd://" + strings.Repeat("0a", 32), Ready: true,
		AllocatedResources: c.Resources.Requests, Resources: &c.Resources,
	}}
	p.Status.HostIP, p.Status.PodIP = "10.0.0.1", "10.0.1.1"
}

// dressNode does the same for a Node: the images on it are most of it.
func dressNode(n *corev1.Node) {
	for i := range 50 {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{SizeBytes: 1 << 20, Names: []string{
			fmt.Sprintf("registry.example.com/team/image-%02d@sha256:%s", i, strings.Repeat("0a", 32)), fmt.Sprintf("registry.example.com/team/image-%02d:v1.2.3", i),
		}})
	}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KernelVersion: "6.1.0", OSImage: "Amazon Linux 2023", KubeletVersion: "v1.35.0"}
	n.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
	n.Status.Allocatable["ephemeral-storage"] = resource.MustParse("20Gi")
}

// watchChildren returns how to stop measuring, with the most memory in bytes that any child of
// this process had resident meanwhile; 0 where there is no procfs.
func watchChildren() func() int64 {
	var peak atomic.Int64
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				peak.Store(max(peak.Load(), residentChildren()))
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-over
		return peak.Load()
	}
}

// residentChildren is the largest peak of the children that there are now.
func residentChildren() (most int64) {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		ids, _ := os.ReadFile(task) // A thread that is gone has none.
		for id := range strings.FieldsSeq(string(ids)) {
			text, _ := os.ReadFile("/proc/" + id + "/status")
			_, after, _ := strings.Cut(string(text), "VmHWM:")
			if kib, err := strconv.ParseInt(strings.Fields(after + " 0")[0], 10, 64); err == nil {
				most = max(most, kib<<10)
			}
		}
	}
	return most
}
