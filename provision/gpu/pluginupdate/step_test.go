package pluginupdate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

const hour = time.Hour

// TestOneStep is what one look at a cluster leads to.
func TestOneStep(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []client.Object
		deleted []string
		states  map[string]string
	}{
		{
			name:    "plugins that are as declared are left alone",
			objects: []client.Object{set("ten", "new"), node("a1"), plugin("a1", "new", hour), node("a2"), plugin("a2", "new", hour)},
		},
		{
			name: "the oldest plugin goes first, and no second one, in whatever pool",
			objects: []client.Object{
				set("ten", "new"), set("five", "new"), node("a1"), plugin("a1", "old", hour), node("a2"), plugin("a2", "new", hour),
				node("c1"), plugin("c1", "old", 2*hour), node("b1"), plugin("b1", "old", 30*time.Minute),
			},
			deleted: []string{"c1"},
			states: map[string]string{
				"a": "1 of 2 plugins replaced; replaces the plugin of node c1 of pool c",
				"b": "0 of 1 plugins replaced; replaces the plugin of node c1 of pool c",
				"c": "0 of 1 plugins replaced; replaces the plugin of node c1",
			},
		},
		{
			name: "of plugins of one age the first by node goes",
			objects: []client.Object{
				set("ten", "new"), node("a2"), plugin("a2", "old", hour), node("a1"), plugin("a1", "old", hour),
			},
			deleted: []string{"a1"},
			states:  map[string]string{"a": "0 of 2 plugins replaced; replaces the plugin of node a1"},
		},
		{
			name: "plugins of nodes that start are replaced at once, pods waiting or not, beside a running node's",
			objects: []client.Object{
				set("ten", "new"), node("a1", starting), plugin("a1", "old", hour), node("a2", starting, notReady), plugin("a2", "old", hour),
				node("a3"), plugin("a3", "new", hour), requesting("p", 1, gpu.Resource),
			},
			deleted: []string{"a1", "a2"},
			states:  map[string]string{"a": "1 of 3 plugins replaced; replaces those of nodes that are starting"},
		},
		{
			name: "nodes without GPUs, and nodes whose first plugin has yet to come, are no update",
			objects: []client.Object{
				set("ten", "new"), node("a1", func(n *corev1.Node) {
					delete(n.Labels, "karpenter.k8s.aws/instance-gpu-count")
					advertising(0, gpu.Resource)(n)
				}),
				node("a2", starting), node("a3", starting), plugin("a3", "new", 0, unready), node("a4"), plugin("a4", "new", hour),
			},
		},
		{
			name: "a node that was away has its time again",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", hour), func(n *corev1.Node) {
					n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
				}), plugin("a1", "new", hour, unready),
			},
			states: map[string]string{"a": "0 of 1 plugins replaced; waits for the new plugin of node a1"},
		},
		{
			name: "a node whose startup taint is still there counts as starting",
			objects: []client.Object{
				set("ten", "new"), node("a1", starting, func(n *corev1.Node) { n.Labels["karpenter.sh/initialized"] = "true" }), plugin("a1", "old", hour),
				node("a2", starting), plugin("a2", "old", hour),
			},
			deleted: []string{"a1", "a2"},
			states:  map[string]string{"a": "0 of 2 plugins replaced; replaces those of nodes that are starting"},
		},
		{
			name: "nodes that are not ready, cordoned, disrupted or going are passed over",
			objects: []client.Object{
				set("ten", "new"), node("a1", notReady), plugin("a1", "old", hour), node("a2", cordoned), plugin("a2", "old", hour),
				node("a3", disrupted), plugin("a3", "old", hour), node("a4", going), plugin("a4", "old", hour),
				node("a5", starting, going), plugin("a5", "old", hour),
				node("c1"), plugin("c1", "old", time.Minute),
			},
			deleted: []string{"c1"},
			states: map[string]string{
				"a": "0 of 5 plugins replaced; waits: 5 not ready, cordoned or going",
				"c": "0 of 1 plugins replaced; replaces the plugin of node c1",
			},
		},
		{
			name: "a node in the middle is waited for",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", time.Minute)), plugin("a1", "new", 0, unready), node("c1"), plugin("c1", "old", hour),
			},
			states: map[string]string{
				"a": "0 of 1 plugins replaced; waits for the new plugin of node a1",
				"c": "0 of 1 plugins replaced; waits for the new plugin of node a1 of pool a",
			},
		},
		{
			name: "a node in the middle is waited for before its new pod is there",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", time.Minute), advertising(0, gpu.Resource)), node("a2"), plugin("a2", "old", hour),
			},
			states: map[string]string{"a": "0 of 2 plugins replaced; waits for the new plugin of node a1"},
		},
		{
			name: "a node in the middle is waited for while its old pod ends",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", time.Minute)), plugin("a1", "old", hour, ending), node("a2"), plugin("a2", "old", hour),
			},
			states: map[string]string{"a": "0 of 2 plugins replaced; waits for the new plugin of node a1"},
		},
		{
			name: "a node in the middle that went away is not waited for",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", time.Minute), notReady), plugin("a1", "new", 0, unready), node("a2"), plugin("a2", "old", hour),
			},
			deleted: []string{"a2"},
			states:  map[string]string{"a": "0 of 2 plugins replaced; replaces the plugin of node a2"},
		},
		{
			name: "a node that was marked by a process that ended before it deleted goes first",
			objects: []client.Object{
				set("ten", "new"), node("a1"), plugin("a1", "old", 3*hour), node("c1", marking("old", "new", time.Minute)), plugin("c1", "old", hour),
			},
			deleted: []string{"c1"},
			states: map[string]string{
				"a": "0 of 1 plugins replaced; replaces the plugin of node c1 of pool c",
				"c": "0 of 1 plugins replaced; replaces the plugin of node c1",
			},
		},
		{
			name: "a node that was marked goes before all others may",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", time.Minute)), plugin("a1", "old", hour), node("c1"), plugin("c1", "old", hour),
				requesting("p", 1, gpu.Resource, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: "a"} }),
			},
			states: map[string]string{
				"a": "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC",
				"c": "0 of 1 plugins replaced; waits for node a1 of pool a",
			},
		},
		{
			name: "a node whose new plugin failed gets the next revision before another broken one",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "bad", hour)), plugin("a1", "bad", hour, unready), node("a2"), plugin("a2", "old", 24*hour, unready),
			},
			deleted: []string{"a1"},
			states:  map[string]string{"a": "0 of 2 plugins replaced; replaces the plugin of node a1"},
		},
		{
			name: "of two nodes in the middle the one that is out of time is named",
			objects: []client.Object{
				set("ten", "new"), node("a1", marking("old", "new", time.Minute)), plugin("a1", "new", 0, unready),
				node("a2", marking("old", "new", hour)), plugin("a2", "new", hour, unready),
			},
			states: map[string]string{"a": "0 of 2 plugins replaced; stopped: node a2 does not advertise its GPUs with the new plugin: the plugin's pod plugin-a2-new is not ready yet"},
		},
		{
			name: "another node of the configuration that advertises too little is waited for, even by another pool",
			objects: []client.Object{
				set("ten", "new"), node("a1", advertising(30, gpu.Resource)), plugin("a1", "new", 24*hour), node("c1"), plugin("c1", "old", hour),
			},
			states: map[string]string{"c": "0 of 1 plugins replaced; waits: node a1 does not advertise its GPUs: the node advertises nvidia.com/gpu: 30 of 40"},
		},
		{
			name: "another configuration's broken node holds nobody up for ever",
			objects: []client.Object{
				set("ten", "new"), set("five", "new"), node("a1", advertising(30, gpu.Resource)), plugin("a1", "new", 24*hour), node("b1"), plugin("b1", "old", hour),
			},
			deleted: []string{"b1"},
			states:  map[string]string{"b": "0 of 1 plugins replaced; replaces the plugin of node b1"},
		},
		{
			name: "another configuration's node is waited for while its plugin is new",
			objects: []client.Object{
				set("ten", "new"), set("five", "new"), node("a1", advertising(0, gpu.Resource)), plugin("a1", "new", time.Minute), node("b1"), plugin("b1", "old", hour),
			},
			states: map[string]string{"b": "0 of 1 plugins replaced; waits: node a1 does not advertise its GPUs: the node advertises none yet: nvidia.com/gpu: 0 of 40"},
		},
		{
			name: "a plugin that does not work goes first, and waits for no other broken node",
			objects: []client.Object{
				set("ten", "new"), node("a1", advertising(30, gpu.Resource)), plugin("a1", "new", 24*hour),
				node("a2"), plugin("a2", "old", 3*hour), node("a3"), plugin("a3", "old", hour, unready),
			},
			deleted: []string{"a3"},
			states:  map[string]string{"a": "1 of 3 plugins replaced; replaces the plugin of node a3"},
		},
		{
			name: "a node that advertises less than is recorded does not work either",
			objects: []client.Object{
				set("ten", "new"), node("a2"), plugin("a2", "old", 3*hour), node("a3", advertising(0, gpu.Resource)), plugin("a3", "old", hour),
			},
			deleted: []string{"a3"},
			states:  map[string]string{"a": "0 of 2 plugins replaced; replaces the plugin of node a3"},
		},
		{
			name: "two plugins on one node do not agree, whatever it advertises",
			objects: []client.Object{
				set("ten", "new"), node("a1"), plugin("a1", "new", time.Minute), plugin("a1", "x", hour, ofConfig("five")), node("c1"), plugin("c1", "old", hour),
			},
			states: map[string]string{
				"a": "0 of 1 plugins replaced; waits for the DaemonSet controller on node a1",
				"c": "0 of 1 plugins replaced; waits: node a1 does not advertise its GPUs: another pod of the device plugin is still on it",
			},
		},
		{
			name: "a DaemonSet that its controller has not observed would bring back the old plugin",
			objects: []client.Object{
				func() client.Object { d := set("ten", "new"); d.Generation = 3; return d }(),
				node("a1"), plugin("a1", "old", hour), node("a2"), plugin("a2", "old", hour, unready),
			},
			states: map[string]string{"a": "0 of 2 plugins replaced; waits: the DaemonSet controller has not observed DaemonSet kube-system/nvidia-device-plugin-ten yet"},
		},
		{
			name:    "without a DaemonSet nothing is old",
			objects: []client.Object{node("a1"), plugin("a1", "old", hour)},
		},
		{
			name: "pools that no configuration serves, nodes of no pool and images with a plugin of their own are left alone",
			objects: []client.Object{
				set("ten", "new"), node("x1"), plugin("x1", "old", hour, ofConfig("ten")),
				node("a1", func(n *corev1.Node) { delete(n.Labels, poolLabel) }), plugin("a1", "old", hour),
				node("a2", func(n *corev1.Node) { n.Status.NodeInfo.OSImage = "Bottlerocket OS 1.50" }), plugin("a2", "old", hour),
			},
		},
		{
			name: "a pool that moved to another configuration is the DaemonSet controller's",
			objects: []client.Object{
				set("ten", "new"), node("a1"), plugin("a1", "old", hour, ofConfig("five")), node("c1"), plugin("c1", "old", hour),
			},
			states: map[string]string{
				"a": "0 of 1 plugins replaced; waits for the DaemonSet controller on node a1",
				"c": "0 of 1 plugins replaced; waits: node a1 does not advertise its GPUs: no pod of the device plugin is on the node: its DaemonSet must tolerate the node's taints",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, test.objects...)
			s.step()
			if diff := cmp.Diff(test.deleted, s.deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if test.states == nil {
				test.states = map[string]string{}
			}
			if diff := cmp.Diff(test.states, s.roller.States()); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			for _, name := range s.deleted {
				if s.marked(name).Hash != "new" || !s.marked(name).Time.Equal(noon) {
					t.Errorf("node %s is marked %v", name, s.marked(name))
				}
			}
			if reported := s.reported; reported > 1 || (reported == 1) != (len(test.states) > 0) {
				t.Errorf("told %d times", reported)
			}
		})
	}
}

func TestPodsThatWait(t *testing.T) {
	const waits = "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC"
	for _, test := range []struct {
		name  string
		pods  []client.Object
		state string // empty when the plugin is replaced
	}{
		{name: "one that fits pauses", pods: []client.Object{requesting("p", 1, gpu.Resource)}, state: waits},
		{
			name:  "several are counted over all pages, the first by name is named",
			pods:  []client.Object{requesting("q", 1, gpu.Resource), requesting("p", 2, gpu.Resource), requesting("r", 40, gpu.Resource)},
			state: "0 of 1 plugins replaced; waits: pod ml/p and 2 more wait for GPUs; goes on with one node at 13:00 UTC",
		},
		{name: "one that the scheduler found no room for pauses, too", pods: []client.Object{requesting("p", 1, gpu.Resource, schedulable(false))}, state: waits},
		{name: "one that requests more than a node has does not", pods: []client.Object{requesting("p", 41, gpu.Resource)}},
		{name: "one that requests no GPU does not", pods: []client.Object{requesting("p", 1, corev1.ResourceCPU)}},
		{name: "one that requests what is advertised elsewhere does not", pods: []client.Object{requesting("p", 1, gpu.SharedResource)}},
		{name: "one that is gated does not", pods: []client.Object{requesting("p", 1, gpu.Resource, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} })}},
		{name: "one that ends does not", pods: []client.Object{requesting("p", 1, gpu.Resource, ending)}},
		{name: "one that does not tolerate the node does not", pods: []client.Object{requesting("p", 1, gpu.Resource, func(p *corev1.Pod) { p.Spec.Tolerations = nil })}},
		{name: "one that selects another pool does not", pods: []client.Object{requesting("p", 1, gpu.Resource, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: "c"} })}},
		{name: "one whose affinity is for another node does not", pods: []client.Object{requesting("p", 1, gpu.Resource, requiring("kubernetes.io/hostname", "z"))}},
		{name: "one whose affinity is for this node pauses", pods: []client.Object{requesting("p", 1, gpu.Resource, requiring("kubernetes.io/hostname", "a1"))}, state: waits},
		{name: "one that is bound to the node and not admitted pauses", pods: []client.Object{requesting("p", 1, gpu.Resource, bound("a1", nil))}, state: waits},
		{name: "one that has its devices and pulls its image does not", pods: []client.Object{requesting("p", 1, gpu.Resource, bound("a1", &metav1.Time{Time: noon}))}},
		{name: "one that is bound elsewhere does not", pods: []client.Object{requesting("p", 1, gpu.Resource, bound("a2", nil))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t, append(test.pods, set("ten", "new"), node("a1"), plugin("a1", "old", hour))...)
			result := s.step()
			if got := s.roller.States()["a"]; test.state != "" && got != test.state {
				t.Errorf("state %q, want %q", got, test.state)
			}
			if paused := len(s.deleted) == 0; paused != (test.state != "") {
				t.Errorf("deleted %v", s.deleted)
			}
			if test.state != "" && result.RequeueAfter != recheckInterval {
				t.Errorf("looks again after %v", result.RequeueAfter)
			}
			if test.state != "" && s.marked("a1") != (gpu.PluginUpdate{}) {
				t.Errorf("the node is marked %v", s.marked("a1"))
			}
			if s.pages != len(test.pods) {
				t.Errorf("read %d pages of pending pods, want %d", s.pages, len(test.pods))
			}
		})
	}
}

func requiring(label, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}}},
		}}}
	}
}

func bound(to string, started *metav1.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName, p.Status.StartTime = to, started }
}

func TestPodsThatWaitForOnePoolDoNotHoldUpAnother(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", 2*hour), node("c1"), plugin("c1", "old", hour),
		requesting("p", 1, gpu.Resource, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{poolLabel: "a"} }))
	s.step()
	want := map[string]string{
		"a": "0 of 1 plugins replaced; waits: pod ml/p waits for GPUs; goes on with one node at 13:00 UTC",
		"c": "0 of 1 plugins replaced; replaces the plugin of node c1",
	}
	if diff := cmp.Diff(want, s.roller.States()); diff != "" || !cmp.Equal(s.deleted, []string{"c1"}) {
		t.Errorf("deleted %v; states (-want +got):\n%s", s.deleted, diff)
	}
}

func TestTheVeryPodsThatNeedMoreSharesDoNotKeepThemAway(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", hour), requesting("p", 1, gpu.Resource, schedulable(false)))
	s.sharing.Configs[0].Replicas = 20
	s.step()
	if !cmp.Equal(s.deleted, []string{"a1"}) {
		t.Errorf("deleted %v, states %v", s.deleted, s.roller.States())
	}
	if got := s.recordedCapacity("a1"); got != "nvidia.com/gpu=40,nvidia.com/gpu.shared=0" {
		t.Errorf("vouched for %s", got)
	}

	s = newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", hour), requesting("p", 1, gpu.Resource))
	s.sharing.Configs[0].Replicas = 20
	s.step()
	if len(s.deleted) > 0 {
		t.Error("the scheduler may be about to put the pod there: it has not said that there is no room")
	}
}

func TestUnderMPSANodeHasItsTurnWhenNobodyUsesItsGPUs(t *testing.T) {
	running := func(on string, phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = on, phase, &metav1.Time{Time: noon}
		}
	}
	nodes := []client.Object{
		set("five", "new"), node("b1"), plugin("b1", "old", 2*hour, serving), node("b2"), plugin("b2", "old", hour, serving),
		requesting("over", 1, gpu.SharedResource, running("b2", corev1.PodSucceeded)),
		requesting("plain", 1, corev1.ResourceCPU, running("b2", corev1.PodRunning)),
	}
	used := requesting("used", 1, gpu.SharedResource, running("b1", corev1.PodRunning))
	s := newStage(t, append(nodes, used)...)
	s.step()
	if !cmp.Equal(s.deleted, []string{"b2"}) {
		t.Errorf("deleted %v, states %v", s.deleted, s.roller.States())
	}

	more := requesting("more", 1, gpu.SharedResource, running("b2", corev1.PodRunning))
	s = newStage(t, append(nodes, used, more)...)
	result := s.step()
	want := map[string]string{"b": "0 of 2 plugins replaced; waits: pod ml/used uses GPUs on node b1, whose MPS daemon ends with the plugin"}
	if diff := cmp.Diff(want, s.roller.States()); diff != "" || len(s.deleted) > 0 || result.RequeueAfter != recheckInterval {
		t.Errorf("deleted %v, looks again in %s; states (-want +got):\n%s", s.deleted, result.RequeueAfter, diff)
	}

	whole := newStage(t, set("five", "new"), node("b1"), plugin("b1", "old", hour), used)
	whole.sharing.Configs[1].Strategy = gpu.SharingStrategyTimeSlicing
	whole.step()
	if !cmp.Equal(whole.deleted, []string{"b1"}) {
		t.Errorf("without MPS: deleted %v, states %v", whole.deleted, whole.roller.States())
	}
}

func TestANodeInUseIsNeitherTakenByMPSNorGivenOutOnceMore(t *testing.T) {
	user := requesting("user", 1, gpu.Resource, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = "a1", corev1.PodRunning, &metav1.Time{Time: noon}
	})
	mig := func(p *gpu.PluginConfig) {
		p.Strategy, p.Replicas, p.MIGDevices = gpu.StrategyMIG, 7, map[string]int{"1g.10gb": 7}
	}
	asShared := func(*corev1.Node) {}
	partitioned := func(n *corev1.Node) {
		config := gpu.PluginConfig{}
		mig(&config)
		allocatable := config.Allocatable(4)
		n.Annotations[gpu.AllocatableAnnotation], n.Status.Allocatable = allocatable.String(), allocatable.ApplyTo(corev1.ResourceList{})
	}
	for name, c := range map[string]struct {
		change func(*gpu.PluginConfig)
		node   func(*corev1.Node)
		want   string
	}{
		"to MPS":                             {func(p *gpu.PluginConfig) { p.Strategy = gpu.SharingStrategyMPS }, asShared, "whose GPUs MPS would take for itself"},
		"to another name":                    {func(p *gpu.PluginConfig) { p.Renamed = true }, asShared, "whose GPUs would be given out once more, as nvidia.com/gpu.shared"},
		"to MIG devices":                     {mig, asShared, "whose GPUs might be partitioned again"},
		"to a version, of the same devices":  {mig, partitioned, "whose GPUs might be partitioned again"},
		"from MIG devices to shares of GPUs": {func(*gpu.PluginConfig) {}, partitioned, "whose GPUs are partitioned otherwise"},
		"to more shares":                     {func(p *gpu.PluginConfig) { p.Replicas = 20 }, asShared, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, set("ten", "new"), node("a1", c.node), plugin("a1", "old", hour), user)
			c.change(&s.sharing.Configs[0])
			s.step()
			if waits := len(s.deleted) == 0; waits != (c.want != "") {
				t.Fatalf("deleted %v, states %v", s.deleted, s.roller.States())
			}
			if c.want == "" {
				return
			}
			want := map[string]string{"a": "0 of 1 plugins replaced; waits: pod ml/user uses GPUs on node a1, " + c.want}
			if diff := cmp.Diff(want, s.roller.States()); diff != "" {
				t.Error(diff)
			}
			change(s, user.DeepCopy(), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
			s.step()
			if !cmp.Equal(s.deleted, []string{"a1"}) {
				t.Errorf("with nobody there, deleted %v", s.deleted)
			}
		})
	}
}
