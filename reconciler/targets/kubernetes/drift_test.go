package kubernetes_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// watching runs the drift watch and puts back what it reports, as the
// controller does.
type watching struct {
	*bench
	desired state.Set
	keys    chan state.Key
	errs    chan error
}

func (b *bench) startWatch(desired state.Set, correct bool) *watching {
	b.Helper()
	w := &watching{bench: b, desired: desired, keys: make(chan state.Key, 10000), errs: make(chan error, 10000)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- b.target.Watch(ctx, func(keys []state.Key) {
			if correct {
				w.putBack(ctx, keys)
			}
			for _, k := range keys {
				w.keys <- k
			}
		})
	}()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return w
}

func (w *watching) putBack(ctx context.Context, keys []state.Key) {
	some := w.desired.Only(keys)
	observed, err := w.target.ObserveOnly(ctx, some)
	if err != nil {
		w.errs <- err
		return
	}
	p := plan.Compute(some, observed, plan.NoPrune())
	if p.Empty() {
		return
	}
	if err := w.target.Begin(ctx, p.Changes); err != nil {
		w.errs <- err
	}
	for _, c := range p.Changes {
		if err := w.target.Apply(ctx, c); err != nil {
			w.errs <- err
		}
	}
	if err := w.target.End(ctx); err != nil {
		w.errs <- err
	}
}

// next waits for the keys of objects with these names, in any order.
func (w *watching) next(names ...string) {
	w.Helper()
	deadline := time.After(time.Minute)
	for len(names) > 0 {
		select {
		case k := <-w.keys:
			names = slices.DeleteFunc(names, func(n string) bool { return n == k.Name })
		case err := <-w.errs:
			w.Fatal(err)
		case <-deadline:
			w.Fatalf("no drift of %v was reported", names)
		}
	}
}

// expectNoReport fails when anything has been reported. It makes a change that is
// certainly reported, and expects it to come first.
func (w *watching) expectNoReport() {
	w.Helper()
	w.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "canary", "data", "a") })
	select {
	case k := <-w.keys:
		if k.Name != "settings" {
			w.Fatalf("drift of %s was reported, and there was none", k)
		}
	case <-time.After(time.Minute):
		w.Fatal("the canary's drift was not reported")
	}
}

// followed waits until the watch has observed everything.
func (w *watching) followed(kinds ...string) {
	w.Helper()
	for _, kind := range kinds {
		eventually(w, func() bool { return countOf(w.wire.peek(), "WATCH", "/"+kind) > 0 })
	}
}

func (w *wire) peek() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatal("it did not become true in time")
		case <-again.C:
		}
	}
}

func TestDriftIsDetectedAndUnrelatedEditsAreNot(t *testing.T) {
	b := newBench(t)
	declared := b.declare(web, config, secret, pool)
	b.reconcile(declared)
	w := b.startWatch(b.want(declared), false)
	w.followed("deployments", "configmaps", "secrets", "nodepools")
	b.wire.take()

	// Status, counters and other people's fields are noise.
	b.editStatus("apps/v1", "Deployment", "web", func(u *unstructured.Unstructured) { set(u.Object, int64(7), "status", "replicas") })
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		set(o, int64(5), "spec", "minReadySeconds")
		set(o, "x", "metadata", "annotations", "deployment.kubernetes.io/revision")
	})
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) {
		set(o, "123", "metadata", "annotations", "karpenter.sh/nodepool-hash")
	})
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "theirs", "data", "z") })
	w.expectNoReport()
	if log := b.wire.take(); len(log) != 0 {
		t.Errorf("noise cost requests: %v", log)
	}

	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(9), "spec", "replicas") })
	w.next("web")
	b.edit("v1", "Secret", "token", func(o map[string]any) { set(o, "b3RoZXI=", "data", "password") })
	w.next("token")
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) { set(o, int64(3), "spec", "weight") })
	w.next(b.ns)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		delete(o["metadata"].(map[string]any)["labels"].(map[string]any), "poolwright.dev/sync")
	})
	w.next("web")
	if err := b.hand.Delete(t.Context(), b.get("v1", "Secret", "token")); err != nil {
		t.Fatal(err)
	}
	w.next("token")
}

func TestDriftIsPutBackAndOwnWritesAreNotDrift(t *testing.T) {
	b := newBench(t)
	declared := b.declare(web, config, secret, pool)
	b.reconcile(declared)
	w := b.startWatch(b.want(declared), true)
	w.followed("deployments", "configmaps", "secrets", "nodepools")

	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(9), "spec", "replicas") })
	w.next("web")
	if err := b.hand.Delete(t.Context(), b.get("v1", "Secret", "token")); err != nil {
		t.Fatal(err)
	}
	w.next("token")
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) { set(o, int64(3), "spec", "weight") })
	w.next(b.ns)
	b.wire.take()
	w.expectNoReport()
	for _, line := range b.wire.take() {
		if !strings.Contains(line, "settings") && !strings.Contains(line, "-inventory-") {
			t.Errorf("our own writes were taken for drift: %s", line)
		}
	}
	b.converged(declared)
}

// TestAnEventThatOvertakesItsResponseIsNotDrift lets the watch see our own write
// before the answer to it has come back.
func TestAnEventThatOvertakesItsResponseIsNotDrift(t *testing.T) {
	b := newBench(t)
	canary := strings.Replace(config, "name: settings", "name: canary", 1)
	declared := b.declare(config, canary)
	b.reconcile(declared)
	w := b.startWatch(b.want(declared), false)
	w.followed("configmaps")
	sing := func(song string) {
		b.edit("v1", "ConfigMap", "canary", func(o map[string]any) { set(o, song, "data", "a") })
		select {
		case k := <-w.keys:
			if k.Name != "canary" {
				t.Errorf("our own write of %s was taken for drift", k.Name)
			}
		case <-time.After(time.Minute):
			t.Error("the canary was not seen")
		}
	}
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPatch || r.URL.Query().Get("dryRun") != "" || !strings.HasSuffix(r.URL.Path, "/settings") {
			return nil, nil
		}
		resp, err := b.wire.next.RoundTrip(r)
		// Events of one kind come in order: when the canary's is there, that
		// of our write has been observed.
		sing("first")
		return resp, err
	})
	p := b.plan(b.declare(strings.Replace(config, `a: "1"`, `a: "2"`, 1), canary))
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	sing("second")
}

func TestDriftWhileNobodyWatchedIsFoundOnce(t *testing.T) {
	b := newBench(t)
	declared := b.declare(web, config, secret, pool)
	b.reconcile(declared)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(9), "spec", "replicas") })
	if err := b.hand.Delete(t.Context(), b.get("v1", "Secret", "token")); err != nil {
		t.Fatal(err)
	}
	b.restart()
	w := b.startWatch(b.want(declared), true)
	w.next("token", "web")
	b.converged(declared)
}

func TestDriftHasTheManagersThatMadeIt(t *testing.T) {
	b := newBench(t)
	declared := b.declare(web, config)
	b.reconcile(declared)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(9), "spec", "replicas") })
	observed, err := b.target.ObserveOnly(t.Context(), b.want(declared))
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range observed.Items() {
		var names []string
		for _, m := range item.Managers {
			names = append(names, m.Name+" "+m.Operation)
			if at, err := time.Parse(time.RFC3339, m.Time); err != nil || at.IsZero() {
				t.Errorf("%s changed it at %q, %v", m.Name, m.Time, err)
			}
		}
		want := []string{"kubectl-edit Update"}
		if item.Key.Kind != "Deployment" {
			want = nil
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s was changed by %v, want %v", item.Key, names, want)
		}
	}
}

func TestTwoManagersOfOneFieldAreHeldApart(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, func(c *kubernetes.Config) { c.Clock = clock })
	declared := b.declare(config)
	b.reconcile(declared)
	rival := func() {
		b.TB.Helper()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"theirs"}}`))
		if err := b.hand.Patch(t.Context(), b.get("v1", "ConfigMap", "settings"), patch, client.FieldOwner("rival")); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		rival()
		b.reconcile(declared)
	}
	rival()
	b.wire.take()
	errs := b.apply(b.plan(declared))
	if len(errs) != 1 {
		t.Fatalf("errors: %v", errs)
	}
	if n := countOf(b.wire.take(), "PATCH", "settings"); n != 0 {
		t.Errorf("%d writes to what is left alone", n)
	}
	for _, err := range errs {
		for _, want := range []string{`"poolwright"`, `"rival"`, "data.a"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not name %s", err, want)
			}
		}
		if class, reason, after := state.Classify(err); class != state.Wait || reason != "Flapping" || after != time.Minute {
			t.Errorf("class %v, reason %s, after %s", class, reason, after)
		}
	}
	// A new revision is applied all the same.
	b.reconcile(b.declare(strings.Replace(config, `b: "2"`, `b: "3"`, 1)))
	rival()
	clock.Step(61 * time.Second)
	b.reconcile(b.declare(strings.Replace(config, `b: "2"`, `b: "3"`, 1)))
}

func TestWhatIsDeletedAgainAndAgainIsNotMadeAtFullSpeed(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	b := newBench(t, func(c *kubernetes.Config) { c.Clock = clock })
	declared := b.declare(config)
	b.reconcile(declared)
	remove := func() {
		b.TB.Helper()
		if err := b.hand.Delete(t.Context(), b.get("v1", "ConfigMap", "settings")); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		remove()
		b.reconcile(declared)
	}
	remove()
	b.wire.take()
	errs := b.apply(b.plan(declared))
	if n := countOf(b.wire.take(), "PATCH", "settings"); n != 0 || len(errs) != 1 {
		t.Errorf("%d writes to what is left alone; errors: %v", n, errs)
	}
	for _, err := range errs {
		if class, reason, after := state.Classify(err); class != state.Wait || reason != "Flapping" || after != time.Minute {
			t.Errorf("class %v, reason %s, after %s: %v", class, reason, after, err)
		}
	}
	// A new revision is applied all the same, and so is drift after the pause.
	edited := b.declare(strings.Replace(config, `b: "2"`, `b: "3"`, 1))
	b.reconcile(edited)
	remove()
	clock.Step(61 * time.Second)
	b.reconcile(edited)
}
