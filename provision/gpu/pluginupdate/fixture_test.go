package pluginupdate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/gpu"
)

// fixture emulates the DaemonSet controller, the kubelets and plugins around a stage,
// in random order, with caches that lag and processes that end.
type fixture struct {
	*stage
	random *rand.Rand
	nodes  map[string]*machine
	// lagging is what the cache shows, by the kind of list.
	lagging map[string]client.ObjectList
	synced  map[string]time.Time
	made    int
}

// machine is the truth about a node.
type machine struct {
	// serving is whether a plugin has registered its devices.
	serving bool
	// ready is when the plugin's pod became ready, told when the kubelet last told
	// the API server what the node advertises.
	ready, reported time.Time
	away            bool
}

const (
	registers = 4 * time.Second  // at most, after the pod is ready
	heartbeat = 10 * time.Second // the kubelet's
	lag       = time.Second      // of a cache
	revision  = "new"
)

func TestInAnyOrderOfThingsOneNodeIsWithoutGPUsAtATime(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newFixture(t, seed).run() })
	}
}

func newFixture(t *testing.T, seed uint64) *fixture {
	w := &fixture{random: rand.New(rand.NewPCG(seed, 0)), nodes: map[string]*machine{}, lagging: map[string]client.ObjectList{}, synced: map[string]time.Time{}}
	objects := []client.Object{set("ten", revision), set("five", revision)}
	for i, name := range []string{"a1", "a2", "b1", "c1"} {
		objects = append(objects, node(name), plugin(name, "old", hour+time.Duration(i)*time.Minute))
		w.nodes[name] = &machine{serving: true}
	}
	w.stage = newStage(t, objects...)
	w.onDelete = w.check
	w.roller.Cache = behind{fixture: w}
	return w
}

// run goes on until all plugins are replaced.
func (w *fixture) run() {
	for range 3000 {
		w.clock.Step(time.Duration(w.random.IntN(1500)) * time.Millisecond)
		w.simulate()
		if w.random.IntN(40) == 0 {
			w.restart()
			w.roller.Cache = behind{fixture: w}
		}
		w.step()
		if w.Failed() || len(w.deleted) >= len(w.nodes) && w.rests() {
			break
		}
	}
	if got := w.takeEvents(); len(w.deleted) != len(w.nodes) || !w.rests() || got != "" {
		w.Errorf("in the end: deleted %v, states %v, events %q", w.deleted, w.roller.States(), got)
	}
}

// rests tells that nothing is left to do.
func (w *fixture) rests() bool {
	if len(w.roller.States()) > 0 {
		return false
	}
	for name := range w.nodes {
		if w.marked(name) != (gpu.PluginUpdate{}) {
			return false
		}
	}
	return true
}

// check looks at the truth when a plugin has been deleted.
func (w *fixture) check(gone *corev1.Pod) {
	w.nodes[gone.Spec.NodeName].serving = false
	for name, m := range w.nodes {
		if name != gone.Spec.NodeName && !m.serving && !m.away {
			w.Errorf("the plugin on %s was deleted while %s has none", gone.Spec.NodeName, name)
		}
	}
}

// simulate lets every part do something, or not yet.
func (w *fixture) simulate() {
	var pods corev1.PodList
	if err := w.List(w.Context(), &pods); err != nil {
		w.Fatal(err)
	}
	on := map[string]*corev1.Pod{}
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName] = &pods.Items[i]
	}
	for name, m := range w.nodes {
		pod, now := on[name], w.clock.Now()
		switch {
		case pod == nil && w.random.IntN(3) == 0:
			w.made++
			w.put(plugin(name, revision, noon.Sub(now), unready, func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint("made-", w.made)) }))
		case pod != nil && !podReady(pod) && !m.away && w.random.IntN(3) == 0:
			change(w.stage, pod, func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue })
			m.ready = now
		case pod != nil && podReady(pod) && !m.serving && (now.Sub(m.ready) > registers || w.random.IntN(3) == 0):
			m.serving = true
		}
		if now.Sub(m.reported) >= heartbeat-1500*time.Millisecond {
			w.notify(name, m)
		}
		if w.random.IntN(200) == 0 {
			m.away = !m.away
			change(w.stage, node(name), func(n *corev1.Node) {
				n.Status.Conditions[0].Status = map[bool]corev1.ConditionStatus{true: corev1.ConditionUnknown, false: corev1.ConditionTrue}[m.away]
				n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now)
			})
		}
	}
}

func (w *fixture) notify(name string, m *machine) {
	config, _ := shares().ConfigForPool(name[:1])
	allocatable := config.Allocatable(4)
	if !m.serving {
		allocatable = config.Allocatable(0)
	}
	m.reported = w.clock.Now()
	if allocatable.Differs(w.node(name).Status.Allocatable) == "" {
		return
	}
	change(w.stage, node(name), func(n *corev1.Node) { n.Status.Allocatable = allocatable.ApplyTo(n.Status.Allocatable) })
	if got := w.recordedCapacity(name); got != config.Allocatable(4).String() {
		w.Errorf("%s is vouched for with %s", name, got)
	}
}

// behind is a cache in which each kind of object is late by its own time.
type behind struct {
	cache.Cache
	*fixture
}

func (w behind) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the cache is only listed")
}

func (w behind) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind := fmt.Sprintf("%T", list)
	if now := w.clock.Now(); now.Sub(w.synced[kind]) > lag || w.random.IntN(2) == 0 {
		fresh := list.DeepCopyObject().(client.ObjectList)
		if err := w.stage.List(ctx, fresh, opts...); err != nil {
			return err
		}
		w.lagging[kind], w.synced[kind] = fresh, now
	}
	return assign(list, w.lagging[kind])
}

func assign(to, from client.ObjectList) error {
	switch to := to.(type) {
	case *corev1.NodeList:
		from.(*corev1.NodeList).DeepCopyInto(to)
	case *corev1.PodList:
		from.(*corev1.PodList).DeepCopyInto(to)
	case *appsv1.DaemonSetList:
		from.(*appsv1.DaemonSetList).DeepCopyInto(to)
	default:
		return fmt.Errorf("no %T in this world", to)
	}
	return nil
}
