package pluginupdate

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

// opened is a node that pods may come to, though Karpenter does not call it
// initialized yet.
func opened(n *corev1.Node) { delete(n.Labels, "karpenter.sh/initialized") }

// unregistered is a node that Karpenter has not taken in.
func unregistered(n *corev1.Node) {
	opened(n)
	delete(n.Labels, registeredLabel)
}

// using is a pod that computes on a node's GPUs.
func using(on string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = on, corev1.PodRunning, &metav1.Time{Time: noon}
	}
}

func TestANodeThatIsOpenToPodsTakesItsTurnThoughItIsNotInitialized(t *testing.T) {
	two := []client.Object{set("ten", "new"), node("a1", opened), plugin("a1", "old", 2*hour), node("a2", opened), plugin("a2", "old", hour)}
	s := newStage(t, two...)
	s.step()
	s.goes("one at a time", "a1")
	if got := s.recordedCapacity("a1"); got != "nvidia.com/gpu=40,nvidia.com/gpu.shared=0" {
		t.Errorf("vouched for %s", got)
	}
	s.put(plugin("a1", "new", 0))
	s.step()
	s.goes("it has to settle, as any other")
	s.clock.Step(minReady)
	s.step()
	s.goes("settled", "a2")

	s = newStage(t, append(two, requesting("p", 1, gpu.Resource))...)
	s.step()
	s.goes("a pod waits")
	s.is("a", "0 of 2 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC")

	s = newStage(t, set("ten", "new"), node("a1", unregistered), plugin("a1", "old", 2*hour), node("a2", unregistered), plugin("a2", "old", hour), requesting("p", 1, gpu.Resource))
	s.step()
	s.goes("nodes that are not registered yet", "a1", "a2")
}

func TestAnMPSDaemonIsLeftToItsUsersWhateverKarpenterCallsTheNode(t *testing.T) {
	for name, with := range map[string]func(*corev1.Node){
		"open, and not initialized":                    opened,
		"starting, with a pod that tolerates anything": starting,
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{set("five", "new"), node("b1", with), plugin("b1", "old", 2*hour, serving)}
			s := newStage(t, append(objects, requesting("used", 1, gpu.SharedResource, using("b1")))...)
			if again := s.step().RequeueAfter; again != recheckInterval {
				t.Errorf("looks again after %v", again)
			}
			s.goes("a pod uses the GPUs")
			s.is("b", "0 of 1 plugins replaced; waits: pod ml/used uses GPUs on node b1, whose MPS daemon ends with the plugin")

			s = newStage(t, append(objects, requesting("elsewhere", 1, gpu.SharedResource, using("b2")))...)
			s.step()
			s.goes("nobody does", "b1")
		})
	}
}

// undetected is a DaemonSet whose newest template its controller has not observed.
func undetected() *appsv1.DaemonSet {
	out := set("ten", "new")
	out.Generation = 3
	return out
}

func TestAPluginIsNotDeletedBeforeTheDaemonSetControllerHasObservedTheNewOne(t *testing.T) {
	s := newStage(t, undetected(), node("a1", starting), plugin("a1", "old", hour))
	s.step()
	s.goes("it would come back as it was")
	s.is("a", "0 of 1 plugins replaced; waits: the DaemonSet controller has not observed DaemonSet kube-system/nvidia-device-plugin-ten yet")
	change(s, set("ten", ""), func(d *appsv1.DaemonSet) { d.Status.ObservedGeneration = 3 })
	s.step()
	s.goes("seen", "a1")

	for name, with := range map[string]func(*corev1.Node){"running": func(*corev1.Node) {}, "starting": starting} {
		live := newStage(t, undetected(), node("a1", with), plugin("a1", "old", hour))
		cached := newStage(t, set("ten", "new"), node("a1", with), plugin("a1", "old", hour))
		live.roller.Cache = stale{from: cached.Client}
		if again := live.step().RequeueAfter; again != soon {
			t.Errorf("%s: looks again after %v", name, again)
		}
		live.goes(name + ": the cache shows the DaemonSet of before")
	}
}

func TestAPluginThatWasMadeAgainFromTheOldTemplateGoesOnceMore(t *testing.T) {
	// of is made from the template of a generation.
	of := func(template string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.UID, p.Labels[templateLabel] = "again", template }
	}
	for _, test := range []struct {
		name, template string
		goes           []string
	}{
		{"an earlier template", "6", []string{"a1"}},
		{"this template, and something changed the pod", "7", nil},
		{"nothing about the template", "", nil},
		{"no number", "six", nil},
	} {
		for at, with := range map[string]func(*corev1.Node){"running": func(*corev1.Node) {}, "starting": starting} {
			s := newStage(t, set("ten", "new"), node("a1", with, marking("old", "new", time.Minute)), plugin("a1", "old", 0, of(test.template)))
			change(s, set("ten", ""), func(d *appsv1.DaemonSet) {
				d.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "7"}
			})
			s.step()
			s.goes(test.name+", "+at, test.goes...)
			if want := map[bool]types.UID{true: "again", false: "pod-a1-old"}[test.goes != nil]; s.marked("a1").Pod != want {
				t.Errorf("%s, %s: marked %v", test.name, at, s.marked("a1"))
			}
		}
	}
}
