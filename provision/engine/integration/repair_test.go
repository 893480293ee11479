package integration

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/backoff"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/noderepair"
)

// aheadClock is the system's clock, some time ahead of it.
type aheadClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *aheadClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// toleration is how long Karpenter tolerates a GPU with a fatal XID.
const toleration = 10 * time.Minute

// repairPool is the NodePool of these tests, with so many nodes: two of them, 20 % rounded up, may be
// unhealthy before Karpenter repairs none.
const (
	repairPool  = "repaired"
	repairNodes = 6
)

// nodeRepair has GPUs fail, one, all, and those of replacements, and sets the clock ahead by their toleration.
func (w *fixture) nodeRepair(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			w.got.show(t)
		}
	})
	class, pool, pod := w.gpuPool(repairPool, awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}})
	pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("Never")
	pod.Spec.Containers[0].Resources.Requests[gpu.Resource] = resource.MustParse("4")
	pod.Spec.Containers[0].Resources.Limits[gpu.Resource] = resource.MustParse("4")
	labels := map[string]string{"app": repairPool}
	workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: repairPool, Namespace: "default"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](repairNodes), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
	}}
	for _, o := range []client.Object{class, pool, workload} {
		w.create(t, o)
	}
	before := w.complete(t)
	failed := before[0]
	t.Run("a node whose GPU fails is replaced when the toleration has passed", func(t *testing.T) {
		w.setGPU(t, failed, "NvidiaXID79Error")
		w.clock.ahead.Store(int64(toleration + time.Minute))
		w.eventually(t, "the node to go for being unhealthy", func() bool {
			return !slices.ContainsFunc(w.claims(t, repairPool), func(c karpv1.NodeClaim) bool { return c.UID == failed.UID })
		})
		after := w.complete(t)
		if kept := without(before, failed); !contains(after, kept) {
			t.Errorf("others went as well: %v of %v are there", names(after), names(kept))
		}
		if !w.repaired(failed.Name) {
			t.Error("it went for another reason")
		}
	})
	t.Run("a driver that fails everywhere replaces nothing", func(t *testing.T) {
		claims := w.complete(t)
		w.clock.ahead.Store(0) // None is tolerated for long enough before all have failed.
		for _, claim := range claims {
			w.setGPU(t, claim, "NvidiaXID79Error")
		}
		w.clock.ahead.Store(int64(toleration + time.Minute))
		for _, claim := range claims {
			w.eventually(t, "Karpenter to report that repair is blocked", func() bool { return w.repairBlocked(t, claim.Status.NodeName, "") })
		}
		if after := w.claims(t, repairPool); !cmp.Equal(names(claims), names(after)) || slices.ContainsFunc(after, func(c karpv1.NodeClaim) bool { return !c.DeletionTimestamp.IsZero() }) {
			t.Errorf("the nodes were %v and are %v", names(claims), names(after))
		}
		for _, claim := range claims[1:] {
			w.setGPU(t, claim, "")
		}
		w.eventually(t, "the one that is still unhealthy to go", func() bool {
			return !slices.ContainsFunc(w.claims(t, repairPool), func(c karpv1.NodeClaim) bool { return c.UID == claims[0].UID })
		})
		if after := w.complete(t); !contains(after, claims[1:]) {
			t.Errorf("others went as well: %v of %v are there", names(after), names(claims[1:]))
		}
	})
	t.Run("replacements that fail as well are replaced once after each back-off", func(t *testing.T) { w.repairBackoff(t, before) })
}

// repairBackoff has a replacement fail, twice, after two nodes were repaired. old are the nodes that are none. The back-off is
// ended by its annotation, not by the engine's clock: from 15 minutes ahead of the API server's on, Karpenter deletes each new
// NodeClaim as one that has not registered.
func (w *fixture) repairBackoff(t *testing.T, old []karpv1.NodeClaim) {
	for backoffs := range 2 {
		claims := w.complete(t)
		i := slices.IndexFunc(claims, func(c karpv1.NodeClaim) bool { return !contains(old, []karpv1.NodeClaim{c}) })
		failed := claims[i]
		w.setGPU(t, failed, "NvidiaXID79Error")
		var got noderepair.Backoff
		w.eventually(t, "the pool to be backed off", func() bool {
			got = w.backoff(t)
			return got.Backoffs == backoffs+1
		})
		if lasts := got.Until.Sub(w.clock.Now()); lasts <= 0 || lasts > backoff.After(backoffs) {
			t.Errorf("back-off %d lasts %s, of %s", backoffs+1, lasts, backoff.After(backoffs))
		}
		w.eventually(t, "Karpenter's event that the node is not repaired until then", func() bool {
			return w.repairBlocked(t, failed.Status.NodeName, got.Until.UTC().Format(time.RFC3339))
		})
		if now := w.complete(t); !cmp.Equal(names(claims), names(now)) {
			t.Errorf("during the back-off the nodes were %v and are %v", names(claims), names(now))
		}
		w.endBackoff(t, got)
		w.eventually(t, "the node to go after the back-off", func() bool { return !contains(w.claims(t, repairPool), []karpv1.NodeClaim{failed}) })
		if after := w.complete(t); !contains(after, without(claims, failed)) {
			t.Errorf("others went as well: %v of %v are there", names(after), names(claims))
		}
		if !w.repaired(failed.Name) {
			t.Error("it went for another reason")
		}
	}
}

// backoff is what the engine has recorded of the pool.
func (w *fixture) backoff(t *testing.T) noderepair.Backoff {
	t.Helper()
	pool := &karpv1.NodePool{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: repairPool}, pool); err != nil {
		t.Fatal(err)
	}
	b, err := noderepair.BackoffOf(pool, w.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// endBackoff writes that a back-off ends now.
func (w *fixture) endBackoff(t *testing.T, b noderepair.Backoff) {
	t.Helper()
	b.Until = w.clock.Now()
	text, err := b.Annotation()
	if err != nil {
		t.Fatal(err)
	}
	pool := &karpv1.NodePool{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: repairPool}, pool); err != nil {
		t.Fatal(err)
	}
	was := pool.DeepCopy()
	pool.Annotations[noderepair.BackoffAnnotation] = text
	if err := w.client.Patch(t.Context(), pool, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
}

// setGPU reports a fault of a node's GPU for a reason, or none for an empty reason.
func (w *fixture) setGPU(t *testing.T, claim karpv1.NodeClaim, reason string) {
	t.Helper()
	condition := corev1.NodeCondition{Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Reason: reason}
	if reason == "" {
		condition.Status, condition.Reason = corev1.ConditionTrue, "NvidiaAcceleratedHardwareIsReady"
	}
	id := claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]
	if err := w.Nodes.SetCondition(t.Context(), id, condition); err != nil {
		t.Fatal(err)
	}
}

// complete waits until the pool has all its nodes, initialized and with a pod, and none that goes.
func (w *fixture) complete(t *testing.T) []karpv1.NodeClaim {
	t.Helper()
	var out []karpv1.NodeClaim
	w.eventually(t, "the pool to have its nodes", func() bool {
		out = w.claims(t, repairPool)
		if len(out) != repairNodes || slices.ContainsFunc(out, func(c karpv1.NodeClaim) bool {
			return !c.DeletionTimestamp.IsZero() || !c.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue()
		}) {
			return false
		}
		workload := &appsv1.Deployment{}
		err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: repairPool}, workload)
		return err == nil && workload.Status.ReadyReplicas == repairNodes
	})
	return out
}

// repairBlocked reports whether there is an event that the node is not repaired, with until in its message.
func (w *fixture) repairBlocked(t *testing.T, node, until string) bool {
	t.Helper()
	events := &corev1.EventList{}
	if err := w.client.List(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == node && e.Reason == "NodeRepairBlocked" && strings.Contains(e.Message, until)
	})
}

// repaired reports whether Karpenter logged that it disrupts a NodeClaim for being unhealthy.
func (w *fixture) repaired(claim string) bool {
	w.got.mu.Lock()
	defer w.got.mu.Unlock()
	for line := range strings.Lines(w.got.text.String()) {
		if strings.Contains(line, "disrupting node(s)") && strings.Contains(line, claim) && strings.Contains(strings.ToLower(line), "unhealthy") {
			return true
		}
	}
	return false
}

func without(claims []karpv1.NodeClaim, one karpv1.NodeClaim) []karpv1.NodeClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c karpv1.NodeClaim) bool { return c.UID == one.UID })
}

func contains(all, some []karpv1.NodeClaim) bool {
	return !slices.ContainsFunc(some, func(c karpv1.NodeClaim) bool { return !slices.Contains(names(all), c.Name) })
}

func names(claims []karpv1.NodeClaim) []string {
	var out []string
	for _, c := range claims {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}
