package objects

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/provision/simulate/diagnosis"
	"github.com/poolwright/poolwright/reconciler/causes"
)

func nodePool(name string) string {
	return fmt.Sprintf(`{"kind":"NodePool","apiVersion":"karpenter.sh/v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"2"},"spec":{"template":{"spec":{"requirements":[],"nodeClassRef":{"group":"karpenter.k8s.aws","kind":"EC2NodeClass","name":"gpu"}}}}}`, name, name)
}

func pod(name string) string {
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"ml","uid":%q,"resourceVersion":"2","annotations":{"secret":"hunter2"}},"spec":{"containers":[{"name":"a","env":[{"name":"PASSWORD","value":"hunter2"}],"resources":{"requests":{"nvidia.com/gpu":"1"},"limits":{"nvidia.com/gpu":"1"}}}]}}`, name, name)
}

// clock is the time, which only the test advances.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// read is the report after so much time.
func (c *clock) read(t *testing.T, w *Cache, after time.Duration) get.Report {
	t.Helper()
	c.at = c.at.Add(after)
	r, err := w.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// changes waits until a report is as required.
func (c *clock) changes(t *testing.T, w *Cache, is func(get.Report) bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !is(c.read(t, w, reportAge)) {
		select {
		case <-w.Changed():
		case <-deadline:
			t.Fatal("the report does not change")
		}
	}
}

func TestTheReportFollowsTheWatches(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.objects["nodepools"] = []string{nodePool("gpu")}
	api.objects["pods"] = []string{pod("train-1")}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	c.changes(t, w, func(r get.Report) bool {
		return len(r.Pools) == 1 && *r.Summary.PendingGPUPods == 1 && len(r.IncompleteKinds) == 0 && r.PendingPods[0].Name == "train-1"
	})
	api.send("pods", "ADDED", pod("train-2"))
	c.changes(t, w, func(r get.Report) bool { return *r.Summary.PendingGPUPods == 2 })
	api.send("pods", "DELETED", pod("train-1"))
	c.changes(t, w, func(r get.Report) bool { return *r.Summary.PendingGPUPods == 1 && r.PendingPods[0].Name == "train-2" })
}

// What a viewer costs is paid by the watches alone: no request is sent for a report, however often it is read.
func TestAReportSendsNoRequest(t *testing.T) {
	api, cfg := newAPIServer(t)
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	// A change that is reported proves that all watches are open.
	for _, of := range []string{"pods", "nodepools"} {
		waitFor(t, func() bool {
			return slices.ContainsFunc(api.received(), func(r string) bool { return strings.HasSuffix(r, of+" watch") })
		})
	}
	watches := 0
	waitFor(t, func() bool {
		watches = 0
		for _, r := range api.received() {
			if strings.HasSuffix(r, " watch") {
				watches++
			}
		}
		return watches == len(resources)
	})
	before := api.received()
	for range 1000 {
		c.read(t, w, reportAge)
	}
	if after := api.received(); len(after) != len(before) {
		t.Errorf("1000 reports sent %v", after[len(before):])
	}
	for _, r := range before {
		if !strings.HasPrefix(r, http.MethodGet+" ") || strings.Contains(r, "secrets") {
			t.Errorf("it sent %s", r)
		}
	}
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !is() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("it does not happen")
		}
	}
}

func TestWhatMayNotBeListedOrIsNotInstalledIsNamedAndNotWatched(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.forbidden, api.missing = []string{"pods"}, []string{"deviceplugins"}
	api.objects["nodepools"] = []string{nodePool("gpu")}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r := c.read(t, w, reportAge)
		var got []string
		for _, u := range r.IncompleteKinds {
			got = append(got, u.Kind+" "+u.Reason)
		}
		if want := []string{"deviceplugins.poolwright.dev NotInstalled", "pods Forbidden"}; !slices.Equal(got, want) {
			t.Errorf("not read are %v, not %v", got, want)
		}
		if r.Summary.PendingGPUPods != nil || len(r.Pools) != 1 {
			t.Errorf("pods that were not read are counted, or pools that were are not: %+v", r.Summary)
		}
	}
	for _, r := range api.received() {
		if strings.HasSuffix(r, "pods watch") {
			t.Error("a kind that may not be listed is watched")
		}
	}
}

func TestAClusterThatCannotBeReadAtAllIsAnError(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.stop()
	if _, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, time.Now); err == nil {
		t.Error("it has started")
	}
}

// After the API server is gone, the last state is served, and marked as such.
func TestAnInterruptionIsReportedUntilItIsOver(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.objects["nodepools"] = []string{nodePool("gpu")}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	c.changes(t, w, func(r get.Report) bool { return len(r.Pools) == 1 })
	waitFor(t, func() bool {
		return slices.ContainsFunc(api.received(), func(r string) bool { return strings.HasSuffix(r, "nodepools watch") })
	})
	if i := w.Interrupted(); i != nil {
		t.Fatalf("before it is interrupted it has %+v", i)
	}
	api.stop()
	waitFor(t, func() bool { return w.Interrupted() != nil })
	if i := w.Interrupted(); !i.Since.Equal(c.at) || i.Message == "" {
		t.Errorf("it is %+v", i)
	}
	if r := c.read(t, w, reportAge); len(r.Pools) != 1 {
		t.Errorf("the pools are %+v", r.Pools)
	}
}

func TestTheEndOfAWatchIsNoInterruption(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	var i interruption
	for _, err := range []error{io.EOF, apierrors.NewResourceExpired("old"), apierrors.NewGone("gone")} { //nolint:staticcheck // Older API servers return it.
		if i.record(at, err) || i.since(at) != nil {
			t.Errorf("%v is one", err)
		}
	}
	if !i.record(at, errors.New("refused")) || i.since(at) == nil {
		t.Error("an error is none")
	}
	if i.record(at.Add(50*time.Second), errors.New("still refused")) {
		t.Error("the second error begins another one")
	}
	if got := i.since(at.Add(100 * time.Second)); got == nil || !got.Since.Equal(at) || got.Message != "still refused" {
		t.Errorf("it is %+v", got)
	}
	if got := i.since(at.Add(111 * time.Second)); got != nil {
		t.Errorf("a minute after the last error it is %+v", got)
	}
}

func TestAnExplanationIsKeptForSomeSeconds(t *testing.T) {
	api, cfg := newAPIServer(t)
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	object := explain.Object{Kind: explain.KindPool, Name: "gpu"}
	w.explanations[object] = explained{explain.Explanation{Object: "kept"}, c.at}
	before := len(api.received())
	for range 10 {
		if e, err := w.Explain(t.Context(), object); err != nil || e.Object != "kept" {
			t.Fatalf("it is %+v, %v", e, err)
		}
	}
	if after := len(api.received()); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
	c.at = c.at.Add(explanationAge)
	if _, err := w.Explain(t.Context(), object); err == nil {
		t.Error("an explanation that is too old is served")
	}
}

func TestAPodThatIsNotThereIsNotFound(t *testing.T) {
	_, cfg := newAPIServer(t)
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Explain(t.Context(), explain.Object{Kind: explain.KindPod, Namespace: "ml", Name: "train"})
	if _, is := errors.AsType[explain.NotFound](err); !is {
		t.Errorf("the error is %v", err)
	}
}

// A kind that the user may not list is requested again after a minute, and not for each report.
func TestWhatMayNotBeListedIsNotRequestedForEachReport(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.forbidden, api.missing = []string{"pods"}, []string{"deviceplugins"}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	lists := func() (n int) {
		for _, r := range api.received() {
			if strings.HasSuffix(r, "/pods") || strings.HasSuffix(r, "/deviceplugins") {
				n++
			}
		}
		return n
	}
	c.read(t, w, reportAge)
	first := lists()
	for range 100 {
		r := c.read(t, w, reportAge)
		if len(r.IncompleteKinds) != 2 {
			t.Fatalf("not read are %+v", r.IncompleteKinds)
		}
	}
	if n := lists(); n != first {
		t.Errorf("100 reports in 50 seconds requested them %d times", n-first)
	}
	c.read(t, w, refusalAge)
	if n := lists(); n == first {
		t.Error("after a minute they were not requested again")
	}
}

// What is left of a pod is what a report and an explanation read.
func TestAPodIsKeptWithoutWhatNothingReads(t *testing.T) {
	whole := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: "train", UID: "1", ResourceVersion: "7", Labels: map[string]string{"app": "train"},
			Annotations:     map[string]string{karpv1.DoNotDisruptAnnotationKey: "true", corev1.LastAppliedConfigAnnotation: "hunter2"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "train"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "other", NodeSelector: map[string]string{"a": "b"}, SchedulingGates: []corev1.PodSchedulingGate{{Name: "gate"}},
			Containers: []corev1.Container{{Name: "a", Image: "x", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "hunter2"}}, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": quantity.MustParse("1")}}}},
			Volumes: []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				{Name: "key", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hunter2"}}},
			},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3"}}},
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: "train", UID: "1", ResourceVersion: "7", Labels: whole.Labels, OwnerReferences: whole.OwnerReferences,
			Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "other", NodeSelector: whole.Spec.NodeSelector, SchedulingGates: whole.Spec.SchedulingGates, Volumes: whole.Spec.Volumes[:1],
			Containers: []corev1.Container{{Name: "a", Resources: whole.Spec.Containers[0].Resources}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
	got, err := reduced(whole)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(causes.Pod(causes.Objects{}, whole, diagnosis.Result{}, nil), causes.Pod(causes.Objects{}, want, diagnosis.Result{}, nil)); diff != "" {
		t.Errorf("it is explained otherwise (-whole +reduced):\n%s", diff)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: whole.ManagedFields}, Status: corev1.NodeStatus{Images: []corev1.ContainerImage{{Names: []string{"x"}}}, Phase: corev1.NodeRunning}}
	if got, err := reduced(node); err != nil || !cmp.Equal(any(&corev1.Node{Status: corev1.NodeStatus{Phase: corev1.NodeRunning}}), got) {
		t.Errorf("of a node there is %+v, %v", got, err)
	}
}

func TestTheWatchesKeepReducedPods(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.objects["pods"] = []string{pod("train-1")}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	var kept corev1.Pod
	if err := w.reader.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "train-1"}, &kept); err != nil {
		t.Fatal(err)
	}
	if len(kept.Spec.Containers) != 1 || len(kept.Spec.Containers[0].Env) > 0 || len(kept.Annotations) > 0 || kept.UID != "train-1" {
		t.Errorf("it is %+v", kept)
	}
}
