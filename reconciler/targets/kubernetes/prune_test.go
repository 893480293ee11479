package kubernetes_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// response makes an API server's refusal.
func response(r *http.Request, code int, reason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, code, reason, message)
	rec := newRecorder(code, body)
	rec.Request = r
	return rec
}

func newRecorder(code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: readCloser{strings.NewReader(body)},
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestWhatLeavesGitIsDeletedUnlessAnnotatedToStay(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(web, config, secret))
	b.edit("v1", "Secret", "token", func(o map[string]any) { set(o, "disabled", "metadata", "annotations", "poolwright.dev/prune") })
	p := b.plan(b.declare())
	if d := cmp.Diff([]string{"delete ConfigMap/$NS/settings", "delete Deployment.apps/$NS/web"}, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	if errs := b.apply(p); len(errs) > 0 {
		t.Fatal(errs)
	}
	b.converged(b.declare())
	b.restart()
	b.converged(b.declare())
	b.get("v1", "Secret", "token")
}

func TestAnUnreadableKindDeletesNothingOfIt(t *testing.T) {
	tests := []struct {
		name   string
		code   int
		reason string
		fails  bool
	}{
		{"an unavailable API server fails the whole observation", 503, "ServiceUnavailable", true},
		{"an internal error fails the whole observation", 500, "InternalError", true},
		{"a kind that may not be listed is left alone", 403, "Forbidden", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(web, config, secret))
			b.wire.failing(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/secrets") || strings.HasSuffix(r.URL.Path, "/token") {
					return response(r, tt.code, tt.reason, "no"), nil
				}
				return nil, nil
			})
			desired := b.want(b.declare(config))
			observed, err := b.target.Observe(t.Context(), desired)
			if tt.fails {
				if err == nil {
					t.Fatal("Observe concluded something")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]string{"delete Deployment.apps/$NS/web"}, b.lines(plan.Compute(desired, observed))); d != "" {
				t.Error(d)
			}
			// What is desired there is tried, so that the refusal is reported.
			p := b.plan(b.declare(config, secret, web))
			errs := b.apply(p)
			if len(p.Changes) != 1 || len(errs) != 1 {
				t.Fatalf("changes %v, errors %v", b.lines(p), errs)
			}
			for _, err := range errs {
				if _, reason, _ := state.Classify(err); reason != "Forbidden" {
					t.Errorf("reason %s: %v", reason, err)
				}
			}
		})
	}
}

func TestAnImpactNamesWhatIsLost(t *testing.T) {
	b := newBench(t)
	set := b.declare(pool, `
apiVersion: v1
kind: Namespace
metadata: {name: space-$NS}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: ours, namespace: space-$NS}
`, `
apiVersion: v1
kind: Namespace
metadata: {name: empty-$NS}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: part, namespace: $HOME}
`, widgets, class, strings.ReplaceAll(class, "$NS", "unused-$NS"))
	b.reconcile(set)
	b.hasAccount("space-" + b.ns)
	b.make(`
apiVersion: v1
kind: Node
metadata: {name: node-$NS, labels: {karpenter.sh/nodepool: $NS}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: space-$NS}
spec: {nodeName: node-$NS, containers: [{name: c, image: i}]}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: claim-$NS}
spec:
  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: $NS}
  requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: $NS}
`, "kubectl-create")
	p := b.plan(b.declare())
	got := map[string]string{}
	for _, c := range p.Changes {
		got[strings.NewReplacer(b.ns, "$NS", b.home, "$HOME").Replace(c.Key.String())] = c.Before.Impact
	}
	want := map[string]string{
		"NodePool.karpenter.sh/$NS": "1 node, 1 pod go with it",
		"Namespace/space-$NS":       "1 pod in it go with it",
		"Namespace/empty-$NS":       "",
		"ConfigMap/space-$NS/ours":  "",
		"ConfigMap/$HOME/part":      "it is part of Poolwright's own installation",
		"CustomResourceDefinition.apiextensions.k8s.io/widgets.example.com": "the kind Widget and 1 object go with it",
		"EC2NodeClass.karpenter.k8s.aws/$NS":                                "1 NodeClaim and 1 NodePool still use it",
		"EC2NodeClass.karpenter.k8s.aws/unused-$NS":                         "",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if last := p.Changes[len(p.Changes)-1].Key.Kind; last != "Namespace" && last != "CustomResourceDefinition" {
		t.Errorf("the last deletion is a %s", last)
	}
	for _, c := range p.Changes {
		if c.Key.Kind == "CustomResourceDefinition" {
			if err := b.target.Apply(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
	}
}

// hasAccount waits until pods can be created in a namespace.
func (b *bench) hasAccount(namespace string) {
	b.Helper()
	account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount"}}
	eventually(b, func() bool {
		return b.hand.Get(b.Context(), client.ObjectKey{Namespace: namespace, Name: "default"}, account) == nil
	})
}

func TestWhatIsBeingDeletedIsReportedAndRecreated(t *testing.T) {
	b := newBench(t)
	held := strings.Replace(config, "namespace: $NS", "namespace: $NS, finalizers: [example.com/hold]", 1)
	b.reconcile(b.declare(held))
	if err := b.hand.Delete(t.Context(), b.get("v1", "ConfigMap", "settings")); err != nil {
		t.Fatal(err)
	}
	p := b.plan(b.declare(held))
	if len(p.Changes) != 1 || p.Changes[0].Action != plan.Update || p.Changes[0].Fields[0].Path != "metadata.deletionTimestamp" {
		t.Fatalf("%v", b.lines(p))
	}
	for _, err := range b.apply(p) {
		if class, reason, _ := state.Classify(err); class != state.Wait || reason != "Terminating" {
			t.Error(err)
		}
	}
	// No longer desired, its deletion is nothing to ask for again.
	b.converged(b.declare())
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { delete(o["metadata"].(map[string]any), "finalizers") })
	b.reconcile(b.declare(config))
	b.converged(b.declare(config))
}

func TestALostInventoryIsRebuiltAndDeletesNothingUnconfirmed(t *testing.T) {
	tests := []struct {
		name string
		lose func(*bench)
	}{
		{"deleted", func(b *bench) {
			for _, s := range b.shards() {
				if err := b.hand.Delete(b.Context(), &s); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"truncated", func(b *bench) {
			for _, s := range b.shards() {
				set(s.Object, `{"format":1,"shards":1,"rec`, "data", "records.json")
				if err := b.hand.Update(b.Context(), &s); err != nil {
					b.Fatal(err)
				}
			}
		}},
		{"emptied", func(b *bench) {
			for _, s := range b.shards() {
				delete(s.Object, "data")
				if err := b.hand.Update(b.Context(), &s); err != nil {
					b.Fatal(err)
				}
			}
		}},
	}
	for _, tt := range tests {
		t.Run("an inventory that was "+tt.name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(web, config, secret))
			// A copy of the label makes nobody ours.
			b.make(strings.NewReplacer("name: settings", "name: copy", "namespace: $NS", "namespace: $NS, labels: {poolwright.dev/sync: sync-$NS}").Replace(config), "kubectl-create")
			tt.lose(b)
			b.restart()
			p := b.plan(b.declare(config))
			if d := cmp.Diff([]string{"delete Secret/$NS/token", "delete Deployment.apps/$NS/web"}, b.lines(p)); d != "" {
				t.Fatal(d)
			}
			for _, c := range p.Changes {
				if c.Before.Impact == "" {
					t.Errorf("%s would be deleted without confirmation", c.Key)
				}
			}
			// The next write restores the inventory.
			b.reconcile(b.declare(strings.Replace(config, `a: "1"`, `a: "5"`, 1), web, secret))
			b.restart()
			b.wire.take()
			b.converged(b.declare(strings.Replace(config, `a: "1"`, `a: "5"`, 1), web, secret))
			if n := len(b.wire.take()); n > 12 {
				t.Errorf("with the inventory restored a reconcile still sends %d requests", n)
			}
		})
	}
}

func TestALaterFormatOfTheInventoryIsRefused(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(config))
	for _, s := range b.shards() {
		set(s.Object, `{"format":2,"records":[]}`, "data", "records.json")
		if err := b.hand.Update(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
	}
	b.restart()
	_, err := b.target.Observe(t.Context(), b.want(b.declare(config)))
	if class, reason, _ := state.Classify(err); err == nil || class != state.Stalled || reason != "InventoryFormat" {
		t.Errorf("%v", err)
	}
}

func TestOrphanLeavesTheObjects(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(config, secret))
	if err := b.target.Orphan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(b.shards()); n != 0 {
		t.Errorf("%d shards are left", n)
	}
	b.get("v1", "ConfigMap", "settings")
}

// TestACrashAtAnyWriteLeavesNoOrphan cuts the process off at its k-th write,
// which the server still sees, and lets the next process finish another commit.
func TestACrashAtAnyWriteLeavesNoOrphan(t *testing.T) {
	edited := strings.NewReplacer(`a: "1"`, `a: "2"`).Replace(config)
	tests := []struct {
		name                 string
		before, doing, after []string
	}{
		{"a first apply, half of which the next commit drops", nil, []string{web, config, secret}, []string{config}},
		{"an update", []string{web, config, secret}, []string{strings.Replace(web, "replicas: 2", "replicas: 3", 1), edited, secret}, []string{edited, secret}},
		{"a prune", []string{web, config, secret}, []string{config}, []string{config}},
		{"a prune that the next commit takes back", []string{web, config, secret}, []string{config}, []string{web, config, secret}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := 1; crash(t, cut, tt.before, tt.doing, tt.after); cut++ {
			}
		})
	}
}

// crash runs one case and reports whether there were that many writes.
func crash(t *testing.T, cut int, before, doing, after []string) bool {
	b := newBench(t)
	b.reconcile(b.declare(before...))
	writes := 0
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet || r.URL.Query().Get("dryRun") != "" {
			return nil, nil
		}
		if writes++; writes < cut {
			return nil, nil
		}
		if writes == cut {
			if resp, err := b.wire.next.RoundTrip(r); err == nil {
				resp.Body.Close()
			}
		}
		return nil, fmt.Errorf("killed")
	})
	p := b.plan(b.declare(doing...))
	if err := b.target.Begin(t.Context(), p.Changes); err == nil {
		for _, c := range p.Changes {
			_ = b.target.Apply(t.Context(), c)
		}
		_ = b.target.End(t.Context())
	}
	b.restart()
	p = b.plan(b.declare(after...))
	for _, c := range p.Changes {
		if c.Action == plan.Delete && c.Before.Impact != "" {
			t.Errorf("killed at write %d, %s was made without being recorded first", cut, c.Key)
		}
	}
	for k, err := range b.apply(p) {
		t.Errorf("killed at write %d, the next process met %s: %v", cut, k, err)
	}
	b.converged(b.declare(after...))
	b.restart()
	b.converged(b.declare(after...))
	desired := b.declare(after...)
	for _, item := range b.declare(web, config, secret).Items() {
		_, keep := desired.Get(item.Key)
		version := item.Object["apiVersion"].(string)
		if _, err := b.find(version, item.Key.Kind, item.Key.Name); (err == nil) != keep {
			t.Errorf("killed at write %d, %s: desired %v, and finding it says %v", cut, item.Key, keep, err)
		}
	}
	return writes >= cut
}

// Custom resources go with their namespace, too, and nobody but their controller knows
// what goes with them.
func TestCustomResourcesGoWithTheirNamespace(t *testing.T) {
	const space = `
apiVersion: v1
kind: Namespace
metadata: {name: space-$NS}
`
	const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.made.example.com}
spec:
  group: made.example.com
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`
	b := newBench(t)
	b.make(gadgets, "kubectl-create")
	t.Cleanup(func() { b.removeAll(gadgets) })
	b.reconcile(b.declare(space))
	removal := func() (string, int, error) {
		desired := b.want(b.declare())
		observed, err := b.target.Observe(t.Context(), desired)
		if err != nil {
			return "", 0, err
		}
		for _, c := range plan.Compute(desired, observed).Changes {
			return c.Before.Impact, c.Before.Losses["Gadget"], nil
		}
		return "", 0, nil
	}
	if impact, _, err := removal(); impact != "" || err != nil {
		t.Fatalf("an empty namespace: %q, %v", impact, err)
	}
	early := b.plan(b.declare()).Changes[0]
	eventually(b, func() bool {
		made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "made.example.com/v1", "kind": "Gadget"}}
		made.SetNamespace("space-" + b.ns)
		made.SetName("g")
		return b.hand.Create(t.Context(), made) == nil
	})
	if impact, n, err := removal(); impact != "1 Gadget in it go with it" || n != 1 || err != nil {
		t.Errorf("with a custom resource: %q, %d, %v", impact, n, err)
	}
	if err := b.target.Apply(t.Context(), early); err == nil {
		t.Error("a namespace that was planned empty went with a custom resource")
	}
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/gadgets") {
			return response(r, http.StatusForbidden, "Forbidden", "no"), nil
		}
		return nil, nil
	})
	if impact, _, err := removal(); !strings.Contains(impact, "could not be counted") || err != nil {
		t.Errorf("of a kind that may not be listed: %q, %v", impact, err)
	}
}
