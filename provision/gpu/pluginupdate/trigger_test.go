package pluginupdate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/poolwright/poolwright/provision/gpu"
)

func TestOnlyWhatMattersOfANodeNotifies(t *testing.T) {
	for name, test := range map[string]struct {
		change   func(*corev1.Node)
		relevant bool
	}{
		"a heartbeat":      {func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon) }, false},
		"images":           {func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }, false},
		"its GPUs":         {advertising(0, gpu.Resource), true},
		"what is recorded": {withoutAllocatable, true},
		"readiness":        {notReady, true},
		"a cordon":         {cordoned, true},
		"a taint":          {disrupted, true},
		"its end":          {going, true},
		"registration":     {func(n *corev1.Node) { delete(n.Labels, registeredLabel) }, true},
	} {
		if got := nodeChanges().Update(event.TypedUpdateEvent[*corev1.Node]{ObjectOld: node("a1"), ObjectNew: node("a1", test.change)}); got != test.relevant {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !nodeChanges().Delete(event.TypedDeleteEvent[*corev1.Node]{Object: node("a1")}) {
		t.Error("a node that is gone does not wake")
	}
}

func TestOnlyThePluginsPodsTrigger(t *testing.T) {
	ours := ofPlugin[*corev1.Pod]()
	if !ours.Create(event.TypedCreateEvent[*corev1.Pod]{Object: plugin("a1", "new", 0)}) {
		t.Error("a plugin does not wake")
	}
	if ours.Create(event.TypedCreateEvent[*corev1.Pod]{Object: plugin("a1", "new", 0, func(p *corev1.Pod) { p.Namespace = "x" })}) ||
		ours.Create(event.TypedCreateEvent[*corev1.Pod]{Object: requesting("p", 1, gpu.Resource)}) {
		t.Error("another pod wakes")
	}
}

func TestRefreshMakesOneRequest(t *testing.T) {
	s := newStage(t)
	s.roller.Refresh() // before the start it has nothing to ask
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := s.roller.start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	s.roller.Refresh()
	s.roller.Refresh()
	if item, _ := queue.Get(); item != (reconcile.Request{}) || queue.Len() != 0 {
		t.Errorf("asks for %v and %d more", item, queue.Len())
	}
}

func TestAConfigWithoutATimeoutHasTheDefaultOne(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1", marking("old", "new", defaultTimeout-time.Second)), plugin("a1", "new", hour, unready))
	s.sharing.Configs[0].ReadyTimeout = 0
	s.step()
	s.is("a", "0 of 1 plugins replaced; waits for the new plugin of node a1")
}

func TestWhoeverReadsTheStatesHasTheirOwn(t *testing.T) {
	s := newStage(t, set("ten", "new"), node("a1"), plugin("a1", "old", hour))
	s.step()
	s.roller.States()["a"] = "something"
	s.is("a", "0 of 1 plugins replaced; replaces the plugin of node a1")
	s.step()
	if s.reported != 2 { // once for the node that goes, once for the wait for it
		t.Errorf("told %d times", s.reported)
	}
	s.step()
	if s.reported != 2 {
		t.Errorf("told %d times of the same", s.reported)
	}
}
