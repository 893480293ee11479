package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/gpu"
)

// recording is every state of some objects that the API server ever showed, in its own
// order: the resource versions of one API server are comparable, whatever the kind.
type recording struct {
	mu     sync.Mutex
	frames []frame
	lost   error
}

type frame struct {
	revision uint64
	gone     bool
	object   client.Object
}

// record follows objects, those that are there first, until the test ends.
func (g gpuSuite) record(list client.ObjectList, options ...client.ListOption) *recording {
	g.Helper()
	ctx, stop := context.WithCancel(g.Context())
	watcher, err := g.hand.Watch(ctx, list, options...)
	if err != nil {
		g.Fatal(err)
	}
	f, done := &recording{}, make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			f.add(event)
		}
		if ctx.Err() == nil {
			f.mu.Lock()
			f.lost = fmt.Errorf("the API server ended the watch")
			f.mu.Unlock()
		}
	}()
	g.Cleanup(func() {
		stop()
		watcher.Stop()
		<-done
	})
	return f
}

func (f *recording) add(event watch.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	object, ok := event.Object.(client.Object)
	if !ok || event.Type == watch.Bookmark {
		if event.Type == watch.Error {
			f.lost = fmt.Errorf("the watch failed: %+v", event.Object)
		}
		return
	}
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		f.lost = err
	}
	f.frames = append(f.frames, frame{revision, event.Type == watch.Deleted, object})
}

// all returns what was observed so far.
func (f *recording) all(g gpuSuite) []frame {
	g.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost != nil {
		g.Fatal(f.lost)
	}
	return slices.Clone(f.frames)
}

// first is when an object was first seen to be so, after a revision.
func (f *recording) first(g gpuSuite, after uint64, is func(client.Object) bool) (uint64, bool) {
	g.Helper()
	for _, one := range f.all(g) {
		if one.revision > after && !one.gone && is(one.object) {
			return one.revision, true
		}
	}
	return 0, false
}

// most is the largest number of objects that were so at the same time.
func (f *recording) most(g gpuSuite, after uint64, is func(client.Object) bool) (most int) {
	g.Helper()
	now := map[string]bool{}
	for _, one := range f.all(g) {
		key := one.object.GetNamespace() + "/" + one.object.GetName()
		delete(now, key)
		if !one.gone && is(one.object) {
			now[key] = true
		}
		if one.revision > after {
			most = max(most, len(now))
		}
	}
	return most
}

// revision is the API server's newest, as far as a list of Nodes tells.
func (g gpuSuite) revision() uint64 {
	g.Helper()
	var list corev1.NodeList
	if err := g.hand.List(g.Context(), &list); err != nil {
		g.Fatal(err)
	}
	revision, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		g.Fatal(err)
	}
	return revision
}

// held tells whether a node has our startup taint.
func held(object client.Object) bool {
	node := object.(*corev1.Node)
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == gpu.StartupTaint && t.Effect == corev1.TaintEffectNoSchedule
	})
}

// allocatableGPUs is a node's allocatable of both resources.
func allocatableGPUs(object client.Object) gpu.Resources {
	out := gpu.Resources{}
	for _, name := range []corev1.ResourceName{gpu.Resource, gpu.SharedResource} {
		quantity := object.(*corev1.Node).Status.Allocatable[name]
		out[name] = quantity.Value()
	}
	return out
}

// runningPods are the incarnations of a pool's running pods, with their restarts
// and nodes.
func (g gpuSuite) runningPods(pool string) map[string]string {
	g.Helper()
	pods, err := g.labelled("for", pool)
	if err != nil {
		g.Fatal(err)
	}
	found := map[string]string{}
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		restarts := int32(0)
		for _, c := range pod.Status.ContainerStatuses {
			restarts += c.RestartCount
		}
		found[pod.Name] = fmt.Sprintf("%s on %s with %d restarts", pod.UID, pod.Spec.NodeName, restarts)
	}
	return found
}

// pluginPods are the pods of the plugin on a pool's nodes, by node.
func (g gpuSuite) pluginPods(config string) map[string]corev1.Pod {
	g.Helper()
	var list corev1.PodList
	err := g.hand.List(g.Context(), &list, client.InNamespace(gpu.PluginNamespace), client.MatchingLabels{gpu.ConfigLabel: config})
	if err != nil {
		g.Fatal(err)
	}
	found := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			found[pod.Spec.NodeName] = pod
		}
	}
	return found
}

// launches counts all calls that buy instances.
func (g gpuSuite) launches() (n int) {
	for _, call := range g.AWS.Calls() {
		if call.Operation == "CreateFleet" && !call.Dry {
			n++
		}
	}
	return n
}

// hashes are a pool's hash and those of its claims, all annotations of Karpenter's
// that decide about drift.
func (g gpuSuite) hashes(pool string) map[string]string {
	g.Helper()
	var of karpv1.NodePool
	if err := g.hand.Get(g.Context(), client.ObjectKey{Name: pool}, &of); err != nil {
		g.Fatal(err)
	}
	claims, err := g.claims(pool)
	if err != nil {
		g.Fatal(err)
	}
	found := map[string]string{"pool": hashOf(&of)}
	for i := range claims {
		found[claims[i].Name] = hashOf(&claims[i])
	}
	return maps.Clone(found)
}

func hashOf(object metav1.Object) string {
	return object.GetAnnotations()[karpv1.NodePoolHashAnnotationKey] + "/" + object.GetAnnotations()[karpv1.NodePoolHashVersionAnnotationKey]
}
