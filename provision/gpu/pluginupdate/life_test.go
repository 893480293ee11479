package pluginupdate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/provision/gpu"
)

// goes checks which nodes' plugins were deleted since the last call.
func (s *stage) goes(why string, want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.deleted); diff != "" {
		s.Errorf("%s: deleted (-want +got):\n%s", why, diff)
	}
	s.deleted = nil
}

// is checks a pool's state.
func (s *stage) is(pool, want string) {
	s.Helper()
	if got := s.roller.States()[pool]; got != want {
		s.Errorf("pool %s: %q, want %q", pool, got, want)
	}
}

func TestANewPluginMustGoOnAgreeing(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", 2*hour), node("a2"), plugin("a2", "old", hour))
	s.step()
	s.goes("the oldest", "a1")

	// The pod is ready at once, and the node's numbers are still those of before.
	s.put(plugin("a1", "new", 0))
	if again := s.step().RequeueAfter; again != minReady {
		t.Errorf("looks again after %v", again)
	}
	s.is("a", "0 of 2 plugins replaced; waits for the new plugin of node a1")
	s.clock.Step(minReady - time.Second)
	s.step()
	s.goes("too early")

	// Then the kubelet tells that there are none: the wait begins anew.
	change(s, node("a1"), advertising(0, gpu.Resource))
	s.clock.Step(2 * time.Second)
	s.step()
	change(s, node("a1"), advertising(40, gpu.Resource))
	s.step()
	s.goes("just come back")
	s.clock.Step(minReady / 2)
	s.restart()
	s.step()
	s.clock.Step(minReady / 2)
	s.step()
	s.goes("a new process has seen it for half the time only")

	s.clock.Step(minReady / 2)
	s.step()
	s.goes("settled", "a2")
	if got := s.marked("a1"); got != (gpu.PluginUpdate{}) {
		t.Errorf("still marked %v", got)
	}
	s.is("a", "1 of 2 plugins replaced; replaces the plugin of node a2")

	s.put(plugin("a2", "new", 0))
	s.step()
	s.clock.Step(minReady)
	s.step()
	s.goes("all done")
	s.is("a", "")
	if got := s.marked("a2"); got != (gpu.PluginUpdate{}) || s.takeEvents() != "" {
		t.Errorf("at the end marked %v", got)
	}
}

func TestABrokenPluginStopsTheRolloutOnTheFirstNode(t *testing.T) {
	s := newStage(t, set("ten", "new"), set("five", "new"), node("a1"), plugin("a1", "old", 2*hour), node("a2"), plugin("a2", "old", hour), node("b1"), plugin("b1", "old", hour))
	s.step()
	s.goes("the first", "a1")
	broken := plugin("a1", "new", 0, unready, func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "plugin",
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "unable to load config"}}}}
	})
	s.put(broken)
	change(s, node("a1"), advertising(0, gpu.Resource))
	s.clock.Step(10*time.Minute - time.Second)
	if again := s.step().RequeueAfter; again != time.Second || s.takeEvents() != "" {
		t.Errorf("looks again after %v", again)
	}
	s.clock.Step(time.Second)
	s.step()
	const why = "stopped: node a1 does not advertise its GPUs with the new plugin: the plugin's container plugin waits: CrashLoopBackOff: unable to load config"
	s.is("a", "0 of 2 plugins replaced; "+why)
	s.is("b", "0 of 1 plugins replaced; "+strings.Replace(why, "node a1", "node a1 of pool a", 1))
	got := s.takeEvents()
	for _, part := range []string{"Warning PluginUpdateStopped node a1 of pool a", "10m0s", "InvalidConfig: the plugin's container", "unable to load config"} {
		if !strings.Contains(got, part) {
			t.Errorf("the event %q does not tell %q", got, part)
		}
	}
	s.restart()
	s.clock.Step(hour)
	s.step()
	if got := s.takeEvents(); got != "" {
		t.Errorf("it is said again: %s", got)
	}
	s.goes("stopped for good")
	s.is("a", "0 of 2 plugins replaced; "+why)

	t.Run("it goes on when the node agrees after all", func(t *testing.T) {
		s := s.copy(t)
		change(s, broken.DeepCopy(), func(p *corev1.Pod) { p.Status = plugin("a1", "new", 0).Status })
		change(s, node("a1"), advertising(40, gpu.Resource))
		s.step()
		s.is("a", "0 of 2 plugins replaced; waits for the new plugin of node a1")
		s.clock.Step(minReady)
		s.step()
		s.goes("settled", "a2")
	})
	t.Run("another revision begins with that node, and with no other", func(t *testing.T) {
		s := s.copy(t)
		change(s, set("ten", ""), func(d *appsv1.DaemonSet) { d.Spec.Template.Annotations[gpu.PluginHashAnnotation] = "newest" })
		s.step()
		s.goes("the broken one", "a1")
		s.put(plugin("a1", "newest", -2*hour, unready))
		s.step()
		s.is("a", "0 of 2 plugins replaced; waits for the new plugin of node a1")
		s.clock.Step(hour - time.Minute)
		s.step()
		if got := s.takeEvents(); strings.Count(got, "PluginUpdateStopped") != 0 {
			t.Errorf("its time begins with the new pod: %s", got)
		}
		s.clock.Step(time.Minute)
		s.step()
		if got := s.takeEvents(); strings.Count(got, "PluginUpdateStopped") != 1 {
			t.Errorf("the newest is out of time, too: %q", got)
		}
		s.goes("stopped again")
	})
	t.Run("it goes on when the node is cordoned", func(t *testing.T) {
		s := s.copy(t)
		change(s, node("a1"), cordoned)
		s.step()
		s.goes("the next", "a2")
	})
}

func TestAStopIsReportedOnceEvenWhereThePodWasReplacedByHand(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1", marking("old", "bad", hour)), plugin("a1", "new", hour, unready))
	s.step()
	s.step()
	if got := s.takeEvents(); strings.Count(got, "PluginUpdateStopped") != 1 {
		t.Errorf("said %q", got)
	}
}

// copy is another stage with the same objects at the same time.
func (s *stage) copy(t *testing.T) *stage {
	t.Helper()
	out := newStage(t)
	out.clock.SetTime(s.clock.Now())
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &corev1.PodList{}, &appsv1.DaemonSetList{}} {
		if err := s.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		switch list := list.(type) {
		case *corev1.NodeList:
			for i := range list.Items {
				out.take(&list.Items[i])
			}
		case *corev1.PodList:
			for i := range list.Items {
				out.take(&list.Items[i])
			}
		case *appsv1.DaemonSetList:
			for i := range list.Items {
				out.take(&list.Items[i])
			}
		}
	}
	return out
}

func (s *stage) take(o client.Object) {
	s.Helper()
	o.SetResourceVersion("")
	s.put(o)
}

func TestAPluginIsNotReplacedTwiceForOneRevision(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", 2*hour), node("a2"), plugin("a2", "old", hour))
	s.step()
	s.goes("once", "a1")
	// Something takes the annotation off every pod.
	s.put(plugin("a1", "", 0))
	for range 3 {
		s.clock.Step(10 * time.Minute)
		s.step()
	}
	s.goes("never again")
	s.is("a", "0 of 2 plugins replaced; stopped: node a1 does not advertise its GPUs with the new plugin: the plugin of an earlier version or configuration still runs")
}

func TestTheRecordedCapacityWhileAPluginIsReplaced(t *testing.T) {
	for _, test := range []struct {
		name   string
		node   func(*corev1.Node)
		config func(*gpu.PluginConfig)
		want   string
	}{
		{name: "the same", want: "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"},
		{name: "fewer shares count at once", config: func(p *gpu.PluginConfig) { p.Replicas = 5 }, want: "nvidia.com/gpu=20,nvidia.com/gpu.shared=0"},
		{name: "more shares do not count yet", config: func(p *gpu.PluginConfig) { p.Replicas = 20 }, want: "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"},
		{name: "of renamed shares neither name counts", config: func(p *gpu.PluginConfig) { p.Renamed = true }, want: "nvidia.com/gpu=0,nvidia.com/gpu.shared=0"},
		{name: "where nothing is recorded, what the node reports counts", node: func(n *corev1.Node) { withoutAllocatable(n); advertising(30, gpu.Resource)(n) }, want: "nvidia.com/gpu=30,nvidia.com/gpu.shared=0"},
		{name: "what cannot be read counts as nothing", node: func(n *corev1.Node) { n.Annotations[gpu.AllocatableAnnotation] = "plenty" }, want: "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.node == nil {
				test.node = func(*corev1.Node) {}
			}
			s := newStage(t, set("ten", "new"), node("a1", test.node), plugin("a1", "old", hour))
			if test.config != nil {
				test.config(&s.sharing.Configs[0])
			}
			before := ""
			s.onDelete = func(*corev1.Pod) { before = s.recordedCapacity("a1") }
			s.step()
			s.goes("one", "a1")
			if before != test.want {
				t.Errorf("when the pod was deleted, it was %q, want %q", before, test.want)
			}
		})
	}
}

func TestTheRecordedCapacityOfAPoolThatMovesToAnotherConfigIsTheLesser(t *testing.T) {
	const nothing = "nvidia.com/gpu=0,nvidia.com/gpu.shared=0"
	s := newStage(t, set("ten", "new"), set("five", "new"),
		node("a1"), plugin("a1", "new", hour), node("a2"), plugin("a2", "new", hour), node("c1"), plugin("c1", "new", hour))
	s.step()
	s.sharing.Configs[0].Pools, s.sharing.Configs[1].Pools = []string{"c"}, []string{"a", "b"}
	s.step()
	for name, want := range map[string]string{"a1": nothing, "a2": nothing, "c1": "nvidia.com/gpu=40,nvidia.com/gpu.shared=0"} {
		if got := s.recordedCapacity(name); got != want {
			t.Errorf("%s: vouched for %s, want %s", name, got, want)
		}
	}
	s.goes("the DaemonSet controller does that")
	s.is("a", "0 of 2 plugins replaced; waits for the DaemonSet controller on node a1")
	version := s.node("a1").ResourceVersion
	s.step()
	if s.node("a1").ResourceVersion != version {
		t.Error("the node is written again")
	}
}

// TestTheCacheIsNotBelieved has the cache show an earlier state of one thing.
func TestTheCacheIsNotBelieved(t *testing.T) {
	for name, now := range map[string]client.Object{
		"the pod is the new one already":                     plugin("a1", "old", hour, func(p *corev1.Pod) { p.UID = "another"; p.Annotations[gpu.PluginHashAnnotation] = "new" }),
		"the pod has another UID":                            plugin("a1", "old", hour, func(p *corev1.Pod) { p.UID = "another" }),
		"the pod ends":                                       plugin("a1", "old", hour, ending),
		"the DaemonSet has gone on":                          set("ten", "newest"),
		"the DaemonSet is back at the pod's":                 set("ten", "old"),
		"the node is marked":                                 node("a1", marking("older", "new", time.Minute)),
		"the node is cordoned":                               node("a1", cordoned),
		"the node is not ready":                              node("a1", notReady),
		"the node is not initialized any more, unexpectedly": node("a1", starting),
		"the pod is gone":                                    nil,
	} {
		t.Run(name, func(t *testing.T) {
			observed := []client.Object{set("ten", "new"), node("a1"), plugin("a1", "old", hour)}
			live := []client.Object{observed[0], observed[1]}
			if now != nil {
				live = nil
				for _, o := range append(observed, now) {
					if o == now || o.GetName() != now.GetName() {
						live = append(live, o)
					}
				}
			}
			s := newStage(t, live...)
			s.roller.Cache = stale{from: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(observed...).Build()}
			if again := s.step().RequeueAfter; again != soon {
				t.Errorf("looks again after %v", again)
			}
			s.goes("nothing")
			if now != nil && now.GetName() == "a1" {
				return
			}
			if got := s.marked("a1"); got != (gpu.PluginUpdate{}) {
				t.Errorf("marked %v", got)
			}
		})
	}
}

func TestANodeThatTheCacheShowsLateIsNotTakenForUntouched(t *testing.T) {
	s := newStage(t, set("ten", "new"), set("five", "new"), node("a1"), plugin("a1", "old", 2*hour), node("b1"), plugin("b1", "old", hour))
	before := s.copy(t)
	s.step()
	s.goes("the first", "a1")
	now := s.roller.Cache
	s.roller.Cache = stale{from: mixed{Reader: s.Client, nodes: before}}
	if again := s.step().RequeueAfter; again != soon {
		t.Errorf("looks again after %v", again)
	}
	s.goes("the pod is gone, and the record does not show yet")
	s.roller.Cache = now
	s.step()
	s.goes("it shows")
	s.is("b", "0 of 1 plugins replaced; waits for the new plugin of node a1 of pool a")
}

// mixed shows Nodes of another time than all the rest.
type mixed struct {
	client.Reader
	nodes client.Reader
}

func (m mixed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.NodeList); ok {
		return m.nodes.List(ctx, list, opts...)
	}
	return m.Reader.List(ctx, list, opts...)
}

func TestOnlyConflictsAreNoErrors(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("changed"))
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nothing":               {nil, false},
		"a conflict":            {conflict, true},
		"two, and a late cache": {errors.Join(conflict, errBehind, conflict), true},
		"one and something":     {errors.Join(conflict, errors.New("down")), false},
	} {
		if got := onlyConflicts(test.err); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
