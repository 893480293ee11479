package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/targets/targettest"
)

// wire counts the requests of one Target.
type wire struct {
	mu   sync.Mutex
	log  []string
	next http.RoundTripper
	// fail may answer instead of the server.
	fail func(*http.Request) (*http.Response, error)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	verb := r.Method
	switch {
	case r.URL.Query().Get("dryRun") != "":
		verb = "DRYRUN"
	case r.URL.Query().Get("watch") != "":
		verb = "WATCH"
	}
	w.mu.Lock()
	w.log = append(w.log, verb+" "+r.URL.Path)
	fail := w.fail
	w.mu.Unlock()
	if fail != nil {
		if resp, err := fail(r); resp != nil || err != nil {
			return resp, err
		}
	}
	return w.next.RoundTrip(r)
}

// take returns and drops the requests so far.
func (w *wire) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.log
	w.log = nil
	return out
}

func (w *wire) failing(f func(*http.Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = f
}

func countOf(log []string, verb, part string) int {
	n := 0
	for _, l := range log {
		if strings.HasPrefix(l, verb+" ") && strings.Contains(l, part) {
			n++
		}
	}
	return n
}

// bench is one test's surroundings: a namespace, a Sync's target, and a person
// with kubectl.
type bench struct {
	testing.TB
	// ns is for objects, home for the inventory.
	ns, home string
	sync     string
	wire     *wire
	target   *kubernetes.Target
	hand     client.Client
	mod      func(*kubernetes.Config)
}

func newBench(t testing.TB, mods ...func(*kubernetes.Config)) *bench {
	t.Helper()
	hand, err := client.New(server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{TB: t, hand: hand}
	for _, name := range []*string{&b.ns, &b.home} {
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"generateName": "t-"}}}
		if err := hand.Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
		*name = ns.GetName()
	}
	b.sync = "sync-" + b.ns
	if len(mods) > 0 {
		b.mod = mods[0]
	}
	b.restart()
	return b
}

// restart drops all memory, as in a new process would.
func (b *bench) restart() {
	b.Helper()
	b.wire = &wire{}
	rc := rest.CopyConfig(server)
	rc.Wrap(func(next http.RoundTripper) http.RoundTripper { b.wire.next = next; return b.wire })
	cfg := kubernetes.Config{REST: rc, Sync: b.sync, Namespace: b.home}
	if b.mod != nil {
		b.mod(&cfg)
	}
	var err error
	if b.target, err = kubernetes.New(cfg); err != nil {
		b.Fatal(err)
	}
}

// declare reads manifests; $NS is the test's namespace, $HOME the inventory's.
func (b *bench) declare(manifests ...string) state.Set {
	b.Helper()
	var items []state.Item
	for f, text := range manifests {
		for i, doc := range strings.Split(strings.NewReplacer("$NS", b.ns, "$HOME", b.home).Replace(text), "\n---\n") {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
				b.Fatal(err)
			}
			if u.Object == nil {
				continue
			}
			raw, err := u.MarshalJSON()
			if err != nil {
				b.Fatal(err)
			}
			if err := u.UnmarshalJSON(raw); err != nil {
				b.Fatal(err)
			}
			gvk := u.GroupVersionKind()
			items = append(items, state.Item{
				Key:     state.Key{Target: kubernetes.Name, Group: gvk.Group, Kind: gvk.Kind, Namespace: u.GetNamespace(), Name: u.GetName()},
				Version: gvk.Version, Object: u.Object, Origin: state.Origin{File: fmt.Sprintf("file%d.yaml", f), Line: i + 1},
			})
		}
	}
	return state.NewSet(items...)
}

func (b *bench) want(declared state.Set) state.Set {
	b.Helper()
	return targettest.Desired(b, b.target, declared)
}

func (b *bench) plan(declared state.Set) plan.Plan {
	b.Helper()
	return targettest.Plan(b, b.target, declared)
}

// apply makes the changes, wave by wave, and returns the errors by key.
func (b *bench) apply(p plan.Plan) map[string]error {
	b.Helper()
	errs := map[string]error{}
	if p.Empty() {
		return errs
	}
	if err := b.target.Begin(b.Context(), p.Changes); err != nil {
		b.Fatal(err)
	}
	for i, c := range p.Changes {
		if err := b.target.Apply(b.Context(), c); err != nil {
			errs[c.Key.String()] = err
		}
		if c.Action != plan.Delete && i+1 < len(p.Changes) && p.Changes[i+1].Wave() > c.Wave() {
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			if _, err := b.target.Ready(ctx, []state.Key{c.Key}); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	}
	if err := b.target.End(b.Context()); err != nil {
		b.Fatal(err)
	}
	return errs
}

// reconcile plans and applies, and fails on any error.
func (b *bench) reconcile(declared state.Set) plan.Plan {
	b.Helper()
	p := b.plan(declared)
	b.carryOut(p, declared)
	return p
}

// carryOut applies a plan for what is declared, with a new plan when a controller was faster, as the next
// reconciliation has. It fails on any other error.
func (b *bench) carryOut(p plan.Plan, declared state.Set) {
	b.Helper()
	for range 20 {
		errs := b.apply(p)
		for k, err := range errs {
			if !isOvertaken(err) {
				b.Fatalf("%s: %v", k, err)
			}
		}
		if len(errs) == 0 {
			return
		}
		p = b.plan(declared)
	}
	b.Fatal("somebody was faster, twenty times")
}

// isOvertaken reports whether a correction was refused because the object has changed since it was
// observed, and for no loss that came with it.
func isOvertaken(err error) bool {
	var grown *targets.LossesGrownError
	return errors.Is(err, targets.ErrChanged) && !errors.As(err, &grown)
}

// converged fails unless a plan is empty.
func (b *bench) converged(declared state.Set) {
	b.Helper()
	if p := b.plan(declared); !p.Empty() {
		b.Fatalf("the second plan is not empty:\n%s", show(p))
	}
}

// show writes a plan, one line a field.
func show(p plan.Plan) string {
	var out []string
	for _, c := range p.Changes {
		out = append(out, fmt.Sprintf("%s %s", c.Action, c.Key))
		for _, f := range c.Fields {
			out = append(out, fmt.Sprintf("  %s: %v -> %v", f.Path, f.Before, f.After))
		}
	}
	return strings.Join(out, "\n")
}

// lines is show without the namespace of the test.
func (b *bench) lines(p plan.Plan) []string {
	return strings.Split(strings.ReplaceAll(show(p), b.ns, "$NS"), "\n")
}

func (b *bench) get(apiVersion, kind, name string) *unstructured.Unstructured {
	b.Helper()
	u, err := b.find(apiVersion, kind, name)
	if err != nil {
		b.Fatal(err)
	}
	return u
}

func (b *bench) find(apiVersion, kind, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(apiVersion, kind))
	err := b.hand.Get(b.Context(), client.ObjectKey{Namespace: b.ns, Name: name}, u)
	return u, err
}

// edit changes an object as a person would, again when a controller was
// faster.
func (b *bench) edit(apiVersion, kind, name string, change func(map[string]any)) {
	b.Helper()
	b.retry(func() error {
		u := b.get(apiVersion, kind, name)
		change(u.Object)
		return b.hand.Update(b.Context(), u, client.FieldOwner("kubectl-edit"))
	})
}

// editStatus is edit for the status.
func (b *bench) editStatus(apiVersion, kind, name string, change func(*unstructured.Unstructured)) {
	b.Helper()
	b.retry(func() error {
		u := b.get(apiVersion, kind, name)
		change(u)
		return b.hand.Status().Update(b.Context(), u)
	})
}

func (b *bench) retry(try func() error) {
	b.Helper()
	for range 20 {
		err := try()
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			b.Fatal(err)
		}
	}
	b.Fatal("somebody was faster, twenty times")
}

// make creates objects as a person would, by kubectl create.
func (b *bench) make(manifest, manager string) {
	b.Helper()
	for _, item := range b.declare(manifest).Items() {
		err := b.hand.Create(b.Context(), &unstructured.Unstructured{Object: item.Object}, client.FieldOwner(manager))
		if err != nil {
			b.Fatal(err)
		}
	}
}

func set(object map[string]any, value any, path ...string) {
	if err := unstructured.SetNestedField(object, value, path...); err != nil {
		panic(err)
	}
}

// problems are the problems that Desired finds.
func (b *bench) problems(declared state.Set) []string {
	b.Helper()
	_, err := b.target.Desired(b.Context(), declared)
	var found *targets.ProblemsError
	if !errors.As(err, &found) {
		b.Fatalf("Desired returned %v, want problems", err)
	}
	var out []string
	for _, p := range found.Problems {
		out = append(out, strings.NewReplacer(b.ns, "$NS", b.home, "$HOME").Replace(p.String()))
	}
	slices.Sort(out)
	return out
}

// shards are the inventory's ConfigMaps.
func (b *bench) shards() []unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMapList"})
	if err := b.hand.List(b.Context(), list, client.InNamespace(b.home), client.HasLabels{"poolwright.dev/inventory"}); err != nil {
		b.Fatal(err)
	}
	return list.Items
}
