package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/poolwright/poolwright/provision/sandbox/nodes/internal/pluginlife"
)

// noClient stands for a client that a test never calls.
type noClient struct{ kubernetes.Interface }

// pluginPod is a pod as our DaemonSet makes it: the plugin, with the MPS daemon
// before it, and a sidecar that has nothing to do with either.
func pluginPod() *corev1.Pod {
	const image = "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"
	started := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "kube-system", UID: "u"}}
	for _, c := range []corev1.Container{
		{Name: "daemon", Image: image, Command: []string{"mps-control-daemon"}},
		{Name: "plugin", Image: image, Command: []string{"nvidia-device-plugin"}, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
		{Name: "other", Image: "example.com/other:1"},
	} {
		pod.Spec.Containers = append(pod.Spec.Containers, c)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
	return pod
}

// containerStates is one line for each container, and the pod's readiness.
func containerStates(pod *corev1.Pod) string {
	var out []string
	for _, c := range pod.Status.ContainerStatuses {
		line := c.Name
		switch {
		case c.State.Running != nil:
			line += " runs"
		case c.State.Waiting != nil:
			line += " waits " + c.State.Waiting.Reason
		case c.State.Terminated != nil:
			line += fmt.Sprintf(" ended %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Message)
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			line += fmt.Sprintf(" after %s %d %s", last.Reason, last.ExitCode, last.Message)
		}
		out = append(out, fmt.Sprintf("%s x%d %t", line, c.RestartCount, c.Ready))
	}
	for _, c := range pod.Status.Conditions {
		out = append(out, string(c.Type)+" "+string(c.Status)+" "+c.Reason)
	}
	return strings.Join(append(out, string(pod.Status.Phase)), "\n")
}

func TestAContainersLifeIsShownAsAKubeletShowsIt(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 123456789, time.UTC)
	const ready = "Initialized True \nReady True \nContainersReady True \nRunning"
	const unready = "Initialized True \nReady False ContainersNotReady\nContainersReady False ContainersNotReady\nRunning"
	exit := &pluginlife.Exit{Code: 1, Log: "no driver", Started: now.Add(-time.Second), Finished: now}
	both := &pluginlife.Exit{Code: 1, Log: "no driver", Started: now.Add(-time.Second), Finished: now, Daemon: true}
	for _, c := range []struct {
		name  string
		state pluginlife.Container
		want  string
	}{
		{"it ended the first time", pluginlife.Container{State: pluginlife.Exited, Last: exit},
			"daemon runs x0 true\nplugin ended 1 no driver x0 false\nother runs x0 true\n" + unready},
		{"it is kept from starting", pluginlife.Container{State: pluginlife.BackingOff, Restarts: 3, Wait: 40 * time.Second, Last: exit},
			"daemon runs x0 true\nplugin waits CrashLoopBackOff after Error 1 no driver x3 false\nother runs x0 true\n" + unready},
		{"it runs again", pluginlife.Container{Restarts: 4, Since: now, Last: exit},
			"daemon runs x0 true\nplugin runs after Error 1 no driver x4 true\nother runs x0 true\n" + ready},
		{"the daemon cannot start either, and writes nothing", pluginlife.Container{State: pluginlife.BackingOff, Restarts: 1, Last: both},
			"daemon waits CrashLoopBackOff after Error 1  x1 false\nplugin waits CrashLoopBackOff after Error 1 no driver x1 false\nother runs x0 true\n" + unready},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := pluginPod()
			before := pod.DeepCopy()
			got := withContainer(pod, c.state, now)
			if containerStates(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", containerStates(got), c.want)
			}
			if !apiequality.Semantic.DeepEqual(before, pod) {
				t.Error("the cached pod was changed")
			}
			again := withContainer(got, c.state, now.Add(time.Hour))
			if !apiequality.Semantic.DeepEqual(again.Status, got.Status) {
				t.Errorf("what is shown already is shown again:\n%+v\n%+v", again.Status, got.Status)
			}
		})
	}
	if withContainer(pluginPod(), pluginlife.Container{Since: now}, now) != nil {
		t.Error("a container that never ended is taken from kwok")
	}
}

func TestATerminationMessageIsTheEndOfALongLog(t *testing.T) {
	got := terminationMessage(pluginPod(), "plugin", strings.Repeat("é", 3000)+"the end")
	if len(got) > maxTerminationMessage || !strings.HasSuffix(got, "éthe end") || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes, ending %q", len(got), got[max(len(got)-20, 0):])
	}
}

func TestAPodThatIsNeverRestartedFails(t *testing.T) {
	pod := pluginPod()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers, pod.Status.ContainerStatuses = pod.Spec.Containers[1:2], pod.Status.ContainerStatuses[1:2]
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	got := withContainer(pod, pluginlife.Container{State: pluginlife.Exited, Last: &pluginlife.Exit{Code: 1, Finished: now}}, now)
	if got.Status.Phase != corev1.PodFailed {
		t.Errorf("it is %s", got.Status.Phase)
	}
}
