package nodes_test

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probed holds the times that the API shows: they are whole seconds.
func probed(t *testing.T, w *fixture) {
	pod := workload("probed", "system.ec2.internal", 0)
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 2, PeriodSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "beside", Image: "example.com/beside:1"})
	created := w.create(t, pod)
	running := w.phase(t, created, corev1.PodRunning)
	if status := running.Status; status.ContainerStatuses[0].Ready || !status.ContainerStatuses[1].Ready || readiness(running).Status != corev1.ConditionFalse {
		t.Errorf("when it began to run: %+v", status)
	}
	w.eventually(t, func() string {
		got, err := w.api.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil || readiness(got).Status != corev1.ConditionTrue {
			return fmt.Sprintf("the pod is not ready: %v", err)
		}
		after := readiness(got).LastTransitionTime.Sub(got.Status.ContainerStatuses[0].State.Running.StartedAt.Time)
		if !got.Status.ContainerStatuses[0].Ready || after < 2*time.Second {
			t.Errorf("ready after %s: %+v", after, got.Status.ContainerStatuses)
		}
		return ""
	})
	w.delete(t, created)
	w.waitDeleted(t, created)
}

func readiness(pod *corev1.Pod) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c
		}
	}
	return corev1.PodCondition{}
}

func hooked(t *testing.T, w *fixture) {
	pod := workload("hooked", "system.ec2.internal", 0)
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 2}}}
	created := w.create(t, pod)
	w.phase(t, created, corev1.PodRunning)
	begin := time.Now()
	w.delete(t, created)
	w.waitDeleted(t, created)
	if took := time.Since(begin); took < 900*time.Millisecond {
		t.Errorf("a pod whose hook takes 2 s was gone after %s", took)
	}
}

func commandEnds(t *testing.T, w *fixture) {
	for name, c := range map[string]struct {
		script string
		want   batchv1.JobStatus
	}{
		"done":   {"sleep 1", batchv1.JobStatus{Succeeded: 1}},
		"failed": {"sleep 1; exit 3", batchv1.JobStatus{Failed: 1}},
	} {
		pod := workload("", "system.ec2.internal", 0)
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		pod.Spec.Containers[0].Command = []string{"sh", "-c", c.script}
		once := int32(0)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{BackoffLimit: &once, Template: corev1.PodTemplateSpec{Spec: pod.Spec}}}
		if _, err := w.api.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually(t, func() string {
			got, err := w.api.BatchV1().Jobs("default").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || got.Status.Succeeded != c.want.Succeeded || got.Status.Failed != c.want.Failed {
				return fmt.Sprintf("the job %q stands at %+v (%v), want %+v", c.script, got.Status, err, c.want)
			}
			return ""
		})
	}
}
