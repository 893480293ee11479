package readiness_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// pluginAt is a plugin's pod that came at a time, and is not ready.
func pluginAt(name, revision string, at time.Time) *corev1.Pod {
	pod := plugin(name, revision, false)
	pod.CreationTimestamp = metav1.NewTime(at)
	return pod
}

func TestACorrectedPluginGetsItsWholeTime(t *testing.T) {
	node, claim, _, set := starting()
	b := newBench(t, node, claim, plugin("plugin-1", "r1", false), set)
	b.step()
	b.clock.SetTime(epoch.Add(9*time.Minute + 55*time.Second))
	b.put(revised("r2"))
	if wait := b.step(); wait != 10*time.Minute {
		t.Errorf("until the old pod goes it has %s", wait)
	}
	b.drop(plugin("plugin-1", "", false))
	b.put(pluginAt("plugin-2", "r2", epoch.Add(10*time.Minute)))
	b.clock.SetTime(epoch.Add(11 * time.Minute))
	if wait := b.step(); wait != 9*time.Minute {
		t.Errorf("with the new pod it has %s left", wait)
	}
	b.restart()
	if wait := b.step(); wait != 9*time.Minute {
		t.Errorf("in another process it has %s left", wait)
	}
	b.clock.SetTime(epoch.Add(20*time.Minute - time.Second))
	if b.step(); b.claim() == nil {
		t.Fatal("it is replaced before its time")
	}
	b.clock.Step(time.Second)
	if b.step(); b.claim() != nil {
		t.Error("it is there for ever")
	}
}

func TestAPodOfAnotherRevisionGetsNoTime(t *testing.T) {
	node, claim, _, set := starting()
	b := newBench(t, node, claim, pluginAt("plugin-2", "r0", epoch.Add(5*time.Second)), set)
	if wait := b.step(); wait != 10*time.Minute-7*time.Second {
		t.Errorf("it has %s left", wait)
	}
}

func TestAPluginThatIsMadeAnewAllTheTimeEndsAtThriceTheTimeout(t *testing.T) {
	node, claim, _, set := starting()
	b := newBench(t, node, claim, set)
	for at := time.Duration(0); at < 30*time.Minute; at += time.Minute {
		b.put(pluginAt("plugin-1", "r1", epoch.Add(at)))
		b.clock.SetTime(epoch.Add(at + 7*time.Second))
		if b.step(); b.claim() == nil {
			t.Fatalf("replaced after %s", at)
		}
	}
	b.clock.SetTime(epoch.Add(30 * time.Minute))
	if b.step(); b.claim() != nil {
		t.Error("it is there for ever")
	}
}

func TestANodeThatCouldNotStartInAnOutageGetsItsWholeTime(t *testing.T) {
	node, claim, _, set := starting()
	b := newBench(t, node, claim, set)
	b.clock.SetTime(epoch.Add(2 * time.Hour)) // The API server is back, and so are we.
	if wait := b.step(); wait != grace {
		t.Errorf("without a pod it has %s", wait)
	}
	b.put(pluginAt("plugin-1", "r1", epoch.Add(2*time.Hour+20*time.Second)))
	b.clock.Step(30 * time.Second)
	if wait := b.step(); wait != 10*time.Minute-30*time.Second {
		t.Errorf("with a pod that came after the outage it has %s left", wait)
	}
	// Whoever comes later finds the pod there.
	for range 3 {
		b.clock.Step(time.Minute)
		b.restart()
		if wait := b.step(); wait != grace {
			t.Errorf("another process gives it %s", wait)
		}
	}
	b.clock.Step(grace)
	if b.step(); b.claim() != nil {
		t.Error("restarts keep it for ever")
	}
}

func TestWhatWasNotAppliedBeginsWhenItIs(t *testing.T) {
	node, claim, pod, set := starting()
	set.Annotations = map[string]string{gpu.SharingAnnotation: "mps:nvidia.com/gpu=4,nvidia.com/gpu.shared=0"}
	b := newBench(t, node, claim, pod, set)
	b.step()
	b.clock.SetTime(epoch.Add(5 * time.Hour))
	if b.step(); b.claim() == nil || b.pools()[0].Unhealthy[0].Reason != "NotApplied" {
		t.Fatalf("claim %v, %+v", b.claim(), b.pools())
	}
	b.put(daemonSet())
	if wait := b.step(); wait != 10*time.Minute {
		t.Errorf("once it is applied it has %s", wait)
	}
	b.clock.Step(10 * time.Minute)
	if b.step(); b.claim() != nil {
		t.Error("it is there for ever")
	}
}

func TestOurRecordStandsWhileTheRolloutWorks(t *testing.T) {
	const began = "r2 plugin-1 2026-11-20T14:00:00Z"
	for name, c := range map[string]struct {
		mark string
		// stands is from the epoch until when the word stands.
		stands time.Duration
	}{
		"for its whole time":                 {began, 10 * time.Minute},
		"not after it gave up":               {began + " stopped", grace + 7*time.Second},
		"not for an old mark":                {"r2 plugin-1 2026-11-20T13:00:00Z", grace + 7*time.Second},
		"not for a mark that nobody reads":   {"r2 plugin-1 noon", grace + 7*time.Second},
		"not for a mark of too few parts":    {"r2 2026-11-20T14:00:00Z", grace + 7*time.Second},
		"at least as long as without a mark": {"r2 plugin-1 2026-11-20T13:51:00Z", grace + 7*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			node, claim, _, _ := running()
			node.Annotations[gpu.PluginUpdateAnnotation] = c.mark
			advertising(0)(node)
			b := newBench(t, node, claim, plugin("plugin-2", "r2", false), revised("r2"))
			wait := b.step()
			if got := b.clock.Now().Add(wait).Sub(epoch); got != c.stands {
				t.Errorf("it stands for %s, want %s", got, c.stands)
			}
			b.clock.SetTime(epoch.Add(c.stands - time.Second))
			if b.step(); b.allocatable() != advertised40 || b.pools()[0].Unhealthy != nil || len(b.takeEvents()) != 0 {
				t.Errorf("before: allocatable %q, %+v", b.allocatable(), b.pools())
			}
			b.clock.Step(time.Second)
			if b.step(); b.allocatable() != "" || len(b.pools()[0].Unhealthy) != 1 {
				t.Errorf("after: allocatable %q, %+v", b.allocatable(), b.pools())
			}
		})
	}
}
