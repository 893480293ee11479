package objects

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

// configMap is the one with the State of a history, in which nodes with these names were terminated.
func configMap(t *testing.T, resourceVersion int, nodes ...string) string {
	t.Helper()
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	var all []recorder.Observation
	for _, name := range nodes {
		all = append(all, recorder.Observation{NodeClaim: history.NodeClaim{
			Name: name, UID: name, NodePool: "gpu", GPUs: 1, Reason: history.ReasonEmpty,
			Lifecycle: history.Lifecycle{Created: metav1.NewTime(at), Launched: metav1.NewTime(at), Deleted: metav1.NewTime(at.Add(time.Minute)), Terminated: metav1.NewTime(at.Add(time.Minute))},
		}})
	}
	return recordedAt(t, resourceVersion, at.Add(time.Minute), all...)
}

// recordedAt is the ConfigMap with the State of a history in which these were observed at a time.
func recordedAt(t *testing.T, resourceVersion int, at time.Time, observed ...recorder.Observation) string {
	t.Helper()
	state := recorder.NewState(nil)
	state.Observe(at, observed)
	content, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"poolwright-system","name":"poolwright-history","resourceVersion":"%d","labels":{"app.kubernetes.io/name":"poolwright","app.kubernetes.io/component":"history"}},"binaryData":{"history.json.gz":%q}}`, resourceVersion, base64.StdEncoding.EncodeToString(content))
}

// nodesOf are the names of the nodes of the history.
func nodesOf(t *testing.T, w *Cache) string {
	t.Helper()
	h, err := w.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range h.NodeClaims {
		out = append(out, n.Name)
	}
	return strings.Join(out, " ")
}

func TestTheHistoryFollowsItsConfigMapsWithoutRequests(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.objects["configmaps"] = []string{configMap(t, 2, "gpu-a")}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return nodesOf(t, w) == "gpu-a" })
	waitFor(t, func() bool {
		return slices.ContainsFunc(api.received(), func(r string) bool {
			return r == "GET /api/v1/namespaces/poolwright-system/configmaps watch"
		})
	})
	before := len(api.received())
	api.send("configmaps", "MODIFIED", configMap(t, 3, "gpu-a", "gpu-b"))
	waitFor(t, func() bool { return nodesOf(t, w) == "gpu-a gpu-b" })
	for range 100 {
		nodesOf(t, w)
	}
	for _, r := range api.received()[before:] {
		if strings.Contains(r, "configmaps") && !strings.HasSuffix(r, "watch") {
			t.Errorf("it sent %s", r)
		}
	}
	if w.history.decodedVersion == 0 {
		t.Error("it is decoded anew for each reader")
	}
}

// A page that somebody reads is rendered anew each second or so: what cannot be decoded stays so until a ConfigMap changes.
func TestAHistoryThatCannotBeDecodedIsReadOnceForEachChange(t *testing.T) {
	api, cfg := newAPIServer(t)
	damaged := strings.Replace(configMap(t, 2, "gpu-a"), `"history.json.gz":"`, `"history.json.gz":"AAAA`, 1)
	api.objects["configmaps"] = []string{damaged}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	failure := func() error {
		_, err := w.History(t.Context())
		return err
	}
	waitFor(t, func() bool { return failure() != nil })
	reads := &countingReader{Reader: w.history.cached}
	w.history.cached = reads
	first := failure()
	for range 100 {
		if err := failure(); !errors.Is(err, first) {
			t.Fatalf("it is %v, and was %v", err, first)
		}
	}
	if reads.n > 0 {
		t.Errorf("it was read %d times more", reads.n)
	}
	// Who reads a page goes away while it is read: that is no failure of the history.
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.history.version.Add(1)
	if _, err := w.History(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the reader that has gone gets %v", err)
	}
	api.send("configmaps", "MODIFIED", configMap(t, 3, "gpu-b"))
	waitFor(t, func() bool { h, err := w.History(t.Context()); return err == nil && len(h.NodeClaims) == 1 })
}

// countingReader counts what is read.
type countingReader struct {
	client.Reader
	n int
}

// Get implements client.Reader.
func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	r.n++
	return r.Reader.Get(ctx, key, object, options...)
}

func TestWithoutRecordsTheHistoryIsEmpty(t *testing.T) {
	_, cfg := newAPIServer(t)
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	h, err := w.History(t.Context())
	if diff := cmp.Diff(history.History{}, h); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What fails for a moment is read once it no longer does, without a new start.
func TestAHistoryThatFailsAtTheStartIsReadLater(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.failing = 1
	api.objects["configmaps"], api.objects["nodepools"] = []string{configMap(t, 2, "gpu-a")}, []string{nodePool("gpu")}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return nodesOf(t, w) == "gpu-a" })
	if r := c.read(t, w, reportAge); len(r.IncompleteKinds) > 0 || len(r.Pools) != 1 {
		t.Errorf("the report has %+v", r.IncompleteKinds)
	}
	api.send("configmaps", "MODIFIED", configMap(t, 3, "gpu-a", "gpu-b"))
	waitFor(t, func() bool { return nodesOf(t, w) == "gpu-a gpu-b" })
}

func TestAHistoryThatMayNotBeReadIsNamedAndTheRestIsServed(t *testing.T) {
	api, cfg := newAPIServer(t)
	api.forbidden = []string{"configmaps"}
	api.objects["nodepools"] = []string{nodePool("gpu")}
	c := &clock{time.Now()}
	w, err := Start(t.Context(), cfg, Options{HistoryNamespace: "poolwright-system"}, c.now)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r := c.read(t, w, reportAge)
		if len(r.IncompleteKinds) != 1 || r.IncompleteKinds[0].Kind != kindConfigMaps || r.IncompleteKinds[0].Reason != get.Forbidden || len(r.Pools) != 1 {
			t.Errorf("the report has %+v", r.IncompleteKinds)
		}
		if got := nodesOf(t, w); got != "" {
			t.Errorf("the history has %s", got)
		}
	}
	for _, r := range api.received() {
		if strings.HasSuffix(r, "configmaps watch") {
			t.Error("what may not be listed is watched")
		}
	}
}
