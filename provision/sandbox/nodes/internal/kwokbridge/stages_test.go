package kwokbridge

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
	"sigs.k8s.io/kwok/pkg/utils/lifecycle"

	"github.com/poolwright/poolwright/internal/golden"
)

var started = metav1.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "u", Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: "n", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(p)
	}
	return p
}

func running(change func(*corev1.Pod)) *corev1.Pod {
	return pod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		change(p)
	})
}

// probed gives the pod a readiness probe.
func probed(p *corev1.Pod, initial int32) {
	p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: initial, PeriodSeconds: 10}
}

// unready is a running pod whose probe succeeds so long after its start.
func unready(after time.Duration, change ...func(*corev1.Pod)) *corev1.Pod {
	return running(func(p *corev1.Pod) {
		probed(p, int32(after.Seconds()))
		p.Status.Conditions[0].Status = corev1.ConditionFalse
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
		for _, f := range change {
			f(p)
		}
	})
}

func deleted(p *corev1.Pod, grace int64) {
	p.DeletionTimestamp = &metav1.Time{Time: started.Add(time.Minute + time.Duration(grace)*time.Second)}
	p.DeletionGracePeriodSeconds = &grace
}

func TestEachStateOfAPodHasAtMostOneStage(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	inits := []corev1.Container{{Name: "prepare", Image: "x"}, {Name: "sidecar", Image: "y", RestartPolicy: &always}}
	deadline := int64(30)
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		stage string
		delay time.Duration // from a minute after the start
	}{
		"a new pod starts":                         {pod(nil), "pod-start", 50 * time.Millisecond},
		"a new pod with init containers runs them": {pod(func(p *corev1.Pod) { p.Spec.InitContainers = inits }), "pod-initialize", 0},
		"a pod whose init containers ran starts": {pod(func(p *corev1.Pod) {
			p.Spec.InitContainers = inits
			p.Status.InitContainerStatuses = make([]corev1.ContainerStatus, 2)
		}), "pod-start", 50 * time.Millisecond},
		"a running pod is left alone": {running(func(*corev1.Pod) {}), "", 0},
		"a pod that is restarted always does not end": {running(func(p *corev1.Pod) {
			p.Annotations[RunSeconds] = "5"
		}), "", 0},
		"a pod ends its seconds after its start": {running(func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations[RunSeconds] = "65"
		}), "pod-complete", 5 * time.Second},
		"a malformed duration is no duration": {running(func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Annotations[RunSeconds] = "soon"
		}), "", 0},
		"the deadline comes before the end": {running(func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.ActiveDeadlineSeconds = &deadline
			p.Annotations[RunSeconds] = "65"
		}), "pod-deadline", -30 * time.Second},
		"the end comes before the deadline": {running(func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyNever
			p.Spec.ActiveDeadlineSeconds = &deadline
			p.Annotations[RunSeconds] = "20"
		}), "pod-complete", -40 * time.Second},
		"a pod without a duration has a deadline": {running(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &deadline }),
			"pod-deadline", -30 * time.Second},
		"a pod ends as its command does": {running(func(p *corev1.Pod) {
			p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
			p.Spec.Containers[0].Command = []string{"sleep", "65"}
		}), "pod-complete", 5 * time.Second},
		"a pod with a probe becomes ready when that was made":                    {unready(3 * time.Minute), "pod-ready", 2 * time.Minute},
		"a pod that is ready before its container is known to run is left alone": {running(func(p *corev1.Pod) { probed(p, 30) }), "", 0},
		"a container that was started anew is the player's":                      {unready(3*time.Minute, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = 1 }), "", 0},
		"a container that does not run becomes not ready":                        {unready(3*time.Minute, func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }), "", 0},
		"a deleted pod's hook takes its time": {running(func(p *corev1.Pod) {
			deleted(p, 30)
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 12}}}
		}), "pod-stop", 12 * time.Second},
		"a hook is cut short by the grace period": {running(func(p *corev1.Pod) {
			deleted(p, 30)
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 45"}}}}
		}), "pod-stop", 30 * time.Second},
		"a deleted pod stops at once": {running(func(p *corev1.Pod) { deleted(p, 30) }), "pod-stop", 0},
		"a deleted pod takes its time to stop": {running(func(p *corev1.Pod) {
			deleted(p, 30)
			p.Annotations["sandbox.poolwright.dev/stop-seconds"] = "10"
		}), "pod-stop", 10 * time.Second},
		"no longer than the grace period": {running(func(p *corev1.Pod) {
			deleted(p, 30)
			p.Annotations["sandbox.poolwright.dev/stop-seconds"] = "100"
		}), "pod-stop", 30 * time.Second},
		"a stopped pod is removed":            {running(func(p *corev1.Pod) { deleted(p, 30); p.Status.Phase = corev1.PodFailed }), "pod-remove", 0},
		"a removed pod waits for finalizers":  {running(func(p *corev1.Pod) { deleted(p, 0); p.Status.Phase = corev1.PodFailed }), "", 0},
		"a pending pod that is deleted stops": {pod(func(p *corev1.Pod) { deleted(p, 30) }), "pod-stop", 0},
		"a pod marked not ready is put right": {running(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }), "pod-recover", 0},
		"a pod with a container that is not ready stays not ready": {running(func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "sidecar", Ready: true}, {Name: "main"}}
		}), "", 0},
		"a pod marked not ready whose containers are ready is put right": {running(func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: true}}
		}), "pod-recover", 0},
		"a finished pod is left alone": {running(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			stages, err := loadStages("Pod", map[string]time.Duration{"pod-start": 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			fed := timed(c.pod)
			event := &lifecycle.Event{Labels: fed.Labels, Annotations: fed.Annotations, Data: fed}
			found, err := stages.ListAllPossible(t.Context(), event)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, s := range found {
				names = append(names, s.Name())
			}
			want := []string{c.stage}
			if c.stage == "" {
				want = nil
			}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Fatalf("stages (-want +got):\n%s", diff)
			}
			if c.stage == "" {
				return
			}
			delay, _, err := found[0].Delay(t.Context(), event, started.Add(time.Minute))
			if err != nil || delay != c.delay {
				t.Errorf("delay %s (%v), want %s", delay, err, c.delay)
			}
		})
	}
}

func TestANodeIsKeptReady(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]string{
		corev1.ConditionTrue: "node-heartbeat", corev1.ConditionFalse: "node-ready", corev1.ConditionUnknown: "node-recover",
	} {
		stages, err := loadStages("Node", nil)
		if err != nil {
			t.Fatal(err)
		}
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
		found, err := stages.ListAllPossible(context.Background(), &lifecycle.Event{Data: node})
		if err != nil || len(found) != 1 || found[0].Name() != want {
			t.Errorf("Ready %s: got %d stages (%v), want %s", status, len(found), err, want)
		}
	}
}

var nowPattern = regexp.MustCompile(`"20\d\d-[^"]*"`)

// TestPatches holds what each stage writes against a golden.
func TestPatchesAreAsAKubeletWritesThem(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	full := pod(func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "prepare", Image: "x"}, {Name: "sidecar", Image: "y", RestartPolicy: &always}}
		p.Annotations["sandbox.poolwright.dev/exit-code"] = "3"
		p.Status.StartTime = &started
		p.Status.ContainerStatuses = unready(0).Status.ContainerStatuses
	})
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	renderer := gotpl.NewRenderer(gotpl.FuncMap{
		"NodeIPsWith": func(string) []string { return []string{"10.0.0.1"} },
		"PodIPsWith":  func(string, bool, string, string, string) []string { return []string{"10.64.0.1"} },
	})
	got := map[string]any{}
	for kind, object := range map[string]any{"Pod": full, "Node": node} {
		stages, err := loadStages(kind, nil)
		if err != nil {
			t.Fatal(err)
		}
		// Matching is what makes kwok compile a stage.
		if _, err := stages.ListAllPossible(t.Context(), &lifecycle.Event{Data: object}); err != nil {
			t.Fatal(err)
		}
		for _, s := range stages {
			_, err := s.DoSteps(0, nil, object, renderer, nil, func() error { got[s.Name()] = "delete"; return nil },
				func(p *lifecycle.Patch) error {
					var patch any
					err := json.Unmarshal(nowPattern.ReplaceAll(p.Data, []byte(`"<time>"`)), &patch)
					got[s.Name()] = map[string]any{"type": p.Type, "subresource": p.Subresource, "patch": patch}
					return err
				}, nil)
			if err != nil {
				t.Errorf("stage %s: %v", s.Name(), err)
			}
		}
	}
	if len(got) != 11 {
		t.Errorf("%d stages, want 11", len(got))
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/patches.json", append(text, '\n'))
}
