package kwokbridge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestCommandsEndAsTheyWouldInAShell(t *testing.T) {
	for command, want := range map[string]string{
		"sleep|30":                          "30s 0",
		"/bin/sleep|1.5m":                   "1m30s 0",
		"sh|-c|sleep 5":                     "5s 0",
		"/bin/sh|-ec|sleep 5 && exit 3":     "5s 3",
		"bash|-c|echo hi; sleep 1\nsleep 2": "3s 0",
		"sh|-c|false && sleep 9":            "0s 1",
		"sh|-c|false; sleep 9":              "9s 0",
		"sh|-c|exit 4; sleep 9":             "0s 4",
		"sh|-c|echo exit 4":                 "0s 0",
		"true":                              "0s 0",
		"false":                             "0s 1",
		"sleep|infinity":                    "unknown after 0s",
		"sleep|-5":                          "unknown after 0s",
		"sleep|99999999999":                 "unknown after 0s",
		"sh|-c|sleep $N":                    "unknown after 0s",
		"sh|-c|sleep 5 && train":            "unknown after 5s",
		"sh|-c|sleep 5 & exit 1":            "unknown after 0s",
		"sh|-c|echo $(train)":               "unknown after 0s",
		"python|train.py":                   "unknown after 0s",
		"":                                  "unknown after 0s",
	} {
		found, known := commandOf(strings.Split(command, "|"))
		got := found.length.String() + " " + string(rune('0'+found.code))
		if !known {
			got = "unknown after " + found.length.String()
		}
		if got != want {
			t.Errorf("%q ends %s, want %s", command, got, want)
		}
	}
}

func TestAProbeSucceedsAtTheFirstOfItsPeriodsAfterTheDelay(t *testing.T) {
	for name, c := range map[string]struct {
		probe *corev1.Probe
		want  time.Duration
	}{
		"none":                       {nil, 0},
		"at once":                    {&corev1.Probe{PeriodSeconds: 10}, 0},
		"a delay of whole periods":   {&corev1.Probe{InitialDelaySeconds: 30, PeriodSeconds: 10}, 30 * time.Second},
		"a delay within a period":    {&corev1.Probe{InitialDelaySeconds: 5, PeriodSeconds: 30}, 30 * time.Second},
		"a period that is defaulted": {&corev1.Probe{InitialDelaySeconds: 1}, 10 * time.Second},
		"several successes":          {&corev1.Probe{PeriodSeconds: 5, SuccessThreshold: 3}, 10 * time.Second},
	} {
		if got := succeeds(c.probe); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestStagesReadThePodsAnnotationsOfTimes(t *testing.T) {
	hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 12}}}
	never := func(command ...string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Spec.RestartPolicy, p.Spec.Containers[0].Command = corev1.RestartPolicyNever, command
		})
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want map[string]string
	}{
		"nothing":                                  {pod(nil), map[string]string{}},
		"a job's command":                          {never("sh", "-c", "sleep 5; exit 2"), map[string]string{RunSeconds: "5", exitCode: "2"}},
		"an unknown command":                       {never("train"), map[string]string{}},
		"a command that is started anew":           {pod(func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sleep", "5"} }), map[string]string{}},
		"a command that fails and is started anew": {change(never("false"), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure }), map[string]string{}},
		"the arguments of an unknown image":        {pod(func(p *corev1.Pod) { p.Spec.RestartPolicy, p.Spec.Containers[0].Args = "Never", []string{"true"} }), map[string]string{}},
		"an annotation before the command":         {change(never("sleep", "5"), func(p *corev1.Pod) { p.Annotations[RunSeconds] = "9" }), map[string]string{RunSeconds: "9"}},
		"one container that does not end":          {change(never("sleep", "5"), func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{}) }), map[string]string{}},
		"a probe":                                  {pod(func(p *corev1.Pod) { probed(p, 30) }), map[string]string{readySeconds: "30"}},
		"a pod that ends is ready until then":      {change(never("sleep", "5"), func(p *corev1.Pod) { probed(p, 30) }), map[string]string{RunSeconds: "5", exitCode: "0"}},
		"a hook before the containers stop": {pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle, p.Annotations[stopSeconds] = hook, "3"
		}), map[string]string{stopSeconds: "15"}},
		"a hook of a pod without annotations": {pod(func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle, p.Annotations = hook, nil }), map[string]string{stopSeconds: "12"}},
	} {
		before := c.pod.DeepCopy()
		if diff := cmp.Diff(c.want, timed(c.pod).Annotations); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(before, c.pod); diff != "" {
			t.Errorf("%s: the pod that was given changed:\n%s", name, diff)
		}
	}
}

func change(p *corev1.Pod, f func(*corev1.Pod)) *corev1.Pod {
	f(p)
	return p
}
