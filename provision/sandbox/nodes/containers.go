package nodes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/deviceplugin"
	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/pluginlife"
)

// maxTerminationMessage is how much of a container's log a kubelet keeps as its termination
// message.
const maxTerminationMessage = 2048

// withContainer returns a copy of the plugin's pod whose status shows the container,
// nil when the container never ended. It is the pod itself, as far as its status
// goes, where that shows the container already.
func withContainer(pod *corev1.Pod, c pluginlife.Container, now time.Time) *corev1.Pod {
	if c.Last == nil {
		return nil
	}
	names := []string{deviceplugin.PluginContainer(pod)}
	if daemon := deviceplugin.DaemonContainer(pod); daemon != "" && c.Last.Daemon {
		names = append(names, daemon)
	}
	out := pod.DeepCopy()
	for _, list := range [][]corev1.ContainerStatus{out.Status.InitContainerStatuses, out.Status.ContainerStatuses} {
		for i := range list {
			if slices.Contains(names, list[i].Name) {
				writeState(&list[i], pod, c)
			}
		}
	}
	if c.State == pluginlife.Exited && pod.Spec.RestartPolicy == corev1.RestartPolicyNever && len(pod.Spec.Containers) == 1 {
		out.Status.Phase = corev1.PodFailed
	}
	setReady(&out.Status, now)
	return out
}

// writeState writes a container's state, and how it ended the last time.
func writeState(status *corev1.ContainerStatus, pod *corev1.Pod, c pluginlife.Container) {
	running := c.State == pluginlife.Running
	status.Ready, status.Started, status.RestartCount = running, &running, int32(c.Restarts)
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(c.Last.Code), Reason: "Error",
		Message: terminationMessage(pod, status.Name, c.Last.Log), StartedAt: second(c.Last.Started), FinishedAt: second(c.Last.Finished)}}
	switch c.State {
	case pluginlife.Running:
		status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: second(c.Since)}}
	case pluginlife.Exited: // the end before this one, if any, stays where it is
		status.State = ended
		return
	case pluginlife.BackingOff:
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", c.Wait, status.Name, pod.Name, pod.Namespace, pod.UID)}}
	}
	status.LastTerminationState = ended
}

// terminationMessage is the end of a container's log, where the pod requests that of its
// kubelet. The plugin itself writes no message.
func terminationMessage(pod *corev1.Pod, container, log string) string {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == container && c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
			return strings.ToValidUTF8(log[max(len(log)-maxTerminationMessage, 0):], "")
		}
	}
	return ""
}

// setReady derives the pod's readiness from its containers', as a kubelet does.
func setReady(status *corev1.PodStatus, now time.Time) {
	var unready []string
	for _, c := range status.ContainerStatuses {
		if !c.Ready {
			unready = append(unready, c.Name)
		}
	}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		want := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue}
		if len(unready) > 0 {
			want.Status, want.Reason = corev1.ConditionFalse, "ContainersNotReady"
			want.Message = "containers with unready status: [" + strings.Join(unready, " ") + "]"
		}
		setCondition(status, want, now)
	}
}

func setCondition(status *corev1.PodStatus, want corev1.PodCondition, now time.Time) {
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if c.Type != want.Type {
			continue
		}
		if c.Status != want.Status {
			c.LastTransitionTime = second(now)
		}
		c.Status, c.Reason, c.Message = want.Status, want.Reason, want.Message
		return
	}
	want.LastTransitionTime = second(now)
	status.Conditions = append(status.Conditions, want)
}

// second is a time as the API keeps it.
func second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
