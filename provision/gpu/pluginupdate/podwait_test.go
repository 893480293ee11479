package pluginupdate

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/poolwright/poolwright/provision/gpu"
)

// of is a pod that waits for one pool.
func of(pool string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: pool} }
}

// reads counts the lists of pending pods that a step takes.
func (s *stage) reads() (lists int, again time.Duration) {
	s.Helper()
	before := s.pages
	again = s.step().RequeueAfter
	return s.pages - before, again
}

func TestAPoolThatHasWaitedForAnHourGoesOnWithOneNode(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", 2*hour), node("a2"), plugin("a2", "old", hour), requesting("p", 1, gpu.Resource, schedulable(false)))
	s.step()
	const got = "0 of 2 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC"
	for range 59 {
		s.is("a", got)
		s.clock.Step(time.Minute)
		s.step()
	}
	s.goes("it waits")
	s.clock.Step(time.Minute - time.Second)
	if _, again := s.reads(); again != time.Second {
		t.Errorf("looks again after %v", again)
	}
	s.is("a", got)
	s.goes("it still waits")

	s.clock.Step(time.Second)
	s.step()
	s.goes("an hour", "a1")
	s.is("a", "0 of 2 plugins replaced; replaces the plugin of node a1")
	s.put(plugin("a1", "new", -hour))
	s.step()
	s.clock.Step(minReady)
	s.step()
	s.goes("the next one waits anew")
	s.is("a", "1 of 2 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 14:00 UTC")
}

func TestAWaitBeginsAnewWhenNobodyWaitsInBetween(t *testing.T) {
	waiting := func() client.Object { return requesting("p", 1, gpu.Resource, of("a")) }
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", 2*hour), node("c1", marking("old", "new", time.Minute)), plugin("c1", "old", hour),
		requesting("q", 1, gpu.Resource, of("c")), waiting())
	s.step()
	s.is("c", "0 of 1 plugins replaced; waits: pod ml/q waits for GPUs; goes on with one node at 13:00 UTC")
	s.clock.Step(30 * time.Minute)
	change(s, requesting("q", 1, gpu.Resource), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	s.step()
	s.goes("nobody waits for the other pool", "c1")
	s.put(plugin("c1", "new", -30*time.Minute))
	s.step()
	s.clock.Step(minReady)
	s.step()
	s.is("a", "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:30 UTC")

	s.clock.Step(50 * time.Minute)
	s.sharing.Configs[0].Pools = []string{"c"} // nothing of pool a is to be replaced
	s.step()
	s.sharing.Configs[0].Pools = []string{"a", "c"}
	s.step()
	s.is("a", "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 14:20 UTC")
	s.restart()
	s.clock.Step(50 * time.Minute)
	s.step()
	s.goes("a new process waits for an hour of its own")
}

func TestNoTimeoutEndsWhatUsesAnMPSDaemon(t *testing.T) {
	s := newStage(t, set("five", "new"), node("b1"), plugin("b1", "old", 2*hour, serving),
		requesting("used", 1, gpu.SharedResource, using("b1")), requesting("p", 1, gpu.SharedResource))
	s.step()
	s.clock.Step(3 * hour)
	s.step()
	s.goes("a pod computes")
	s.is("b", "0 of 1 plugins replaced; waits: pod ml/used uses GPUs on node b1, whose MPS daemon ends with the plugin")
}

func TestPendingPodsAreReadLessOftenAfterAWhile(t *testing.T) {
	s := newStage(t, set("ten", "new"), set("five", "new"), node("a1"), plugin("a1", "old", 2*hour), requesting("p", 1, gpu.Resource, of("a")))
	for range 30 {
		if lists, again := s.reads(); lists != 1 || again != recheckInterval {
			t.Fatalf("at first: %d lists, looks again after %v", lists, again)
		}
		s.clock.Step(recheckInterval)
	}
	if lists, again := s.reads(); lists != 1 || again != idleInterval {
		t.Errorf("after five minutes: %d lists, looks again after %v", lists, again)
	}
	s.clock.Step(idleInterval - time.Second)
	if lists, again := s.reads(); lists != 0 || again != time.Second {
		t.Errorf("whatever else happens: %d lists, looks again after %v", lists, again)
	}
	s.is("a", "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC")

	// Another pool does not wait for that.
	s.put(node("b1"))
	s.put(plugin("b1", "old", -5*time.Minute))
	if lists, _ := s.reads(); lists != 2 { // of pending pods, and, for MPS, of the node's
		t.Errorf("for the other pool: %d lists", lists)
	}
	s.goes("nobody waits for it", "b1")
}

func TestAListOfPendingPodsThatFailsEndsNoPause(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", 2*hour), requesting("p", 1, gpu.Resource))
	s.step()
	s.clock.Step(time.Minute)
	s.broken = errors.New("down")
	if _, err := s.roller.Reconcile(t.Context(), reconcile.Request{}); err == nil {
		t.Error("no error")
	}
	s.broken = nil
	s.step()
	s.is("a", "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC")
	s.goes("it waits")
}
