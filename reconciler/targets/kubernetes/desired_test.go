package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, default: 3}}}}}}
`

func dump(v any) string {
	b, err := json.Marshal(v)
	return string(b) + fmt.Sprint(err)
}

func TestProblemsAreNamedWithTheirFile(t *testing.T) {
	b := newBench(t)
	got := b.problems(b.declare(config, `
apiVersion: example.org/v1
kind: Gadget
metadata: {name: g, namespace: $NS}
`, `
apiVersion: apps/v1beta1
kind: Deployment
metadata: {name: g, namespace: $NS}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {generateName: g, namespace: $NS}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: sync-$NS-inventory-0, namespace: $HOME}
`, `
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
metadata: {name: x}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: twice, namespace: default}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: twice}
`))
	want := []string{
		`file1.yaml:1: Gadget.example.org/$NS/g: the cluster does not serve the kind Gadget.example.org; commit its CustomResourceDefinition too, or install it first`,
		`file2.yaml:1: Deployment.apps/$NS/g: the cluster does not serve version "v1beta1" of this kind, only v1; write it in one of those`,
		`file3.yaml:1: ConfigMap has no metadata.name (generateName cannot be reconciled); give it a name`,
		`file4.yaml:1: ConfigMap/$HOME/sync-$NS-inventory-0 is where Poolwright keeps an inventory; choose another name, without the label poolwright.dev/inventory`,
		`file5.yaml:1: SubjectAccessReview.authorization.k8s.io/x: the cluster does not let objects of this kind be listed, patched and deleted; take it out of the repository`,
		`file6.yaml:1: ConfigMap/default/twice is declared twice, first at file6.yaml:2`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestDesiredSendsOnlyWhatGitMayDeclare(t *testing.T) {
	b := newBench(t)
	got := b.want(b.declare(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: $NS
  namespace: nonsense
  uid: 1-2-3
  resourceVersion: "7"
  generation: 4
  creationTimestamp: null
  managedFields: []
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: gone, uid: 0-0-0}]
  labels: {a: b}
  annotations:
    karpenter.sh/nodepool-hash: "1"
    karpenter.sh/nodepool-hash-version: v3
    poolwright.dev/node-repair-backoff: "{}"
    kubectl.kubernetes.io/last-applied-configuration: "{}"
spec: {weight: 1}
status: {nodes: 3}
`)).Items()[0]
	want := map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": b.ns, "labels": map[string]any{"a": "b", "poolwright.dev/sync": b.sync}},
		"spec":     map[string]any{"weight": int64(1)},
	}
	if d := cmp.Diff(want, got.Object); d != "" {
		t.Error(d)
	}
	if got.Key.Namespace != "" || got.Wave != 5 {
		t.Errorf("key %v, wave %d", got.Key, got.Wave)
	}
}

func TestSecretsAreMaskedFromTheStart(t *testing.T) {
	b := newBench(t)
	declared := b.declare(secret)
	desired := b.want(declared)
	text := show(b.plan(declared)) + state.Hash(desired.Items()[0].Object)
	for _, o := range []any{desired.Items()[0].Object} {
		if s := dump(o); strings.Contains(s, "hunter2") || strings.Contains(s, "aHVudGVyMg") {
			t.Errorf("%s", s)
		}
	}
	if strings.Contains(text, "hunter2") {
		t.Error(text)
	}
	b.reconcile(declared)
	b.edit("v1", "Secret", "token", func(o map[string]any) { set(o, "c2VjcmV0Mg==", "data", "password") })
	p := b.plan(declared)
	if s := dump(p.Changes); strings.Contains(s, "c2VjcmV0Mg") || strings.Contains(s, "hunter2") {
		t.Errorf("%s", s)
	}
	for _, s := range b.shards() {
		if strings.Contains(dump(s.Object), "hunter2") {
			t.Error("the inventory holds a secret")
		}
	}
	// What the API server answers may quote it.
	bad := b.declare(strings.Replace(secret, "password: hunter2", "pass word!: hunter2", 1))
	for _, err := range b.apply(b.plan(bad)) {
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVyMg") {
			t.Errorf("%v", err)
		}
	}
}

func TestATrimmedTargetWritesNoSecretBeforeDesiredIsCalledAgain(t *testing.T) {
	b := newBench(t)
	declared := b.declare(secret)
	p := b.plan(declared)
	b.target.Trim()
	errs := b.apply(p)
	if len(errs) != 1 {
		t.Fatalf("applied what was forgotten: %v", errs)
	}
	for _, err := range errs {
		if class, reason, _ := state.Classify(err); class != state.Retry || reason != "ContentNotRead" {
			t.Errorf("%s %s: %v", class, reason, err)
		}
	}
	if errs := b.apply(b.plan(declared)); len(errs) > 0 {
		t.Errorf("after another look: %v", errs)
	}
	// What was applied is known without the content.
	b.target.Trim()
	b.converged(declared)
}

// TestASecretOfAnOlderRevisionIsNotWritten: the content that is sent is the last that was desired,
// and a plan of another is not carried out with it.
func TestASecretOfAnOlderRevisionIsNotWritten(t *testing.T) {
	b := newBench(t)
	older := b.plan(b.declare(secret))
	newer := b.declare(strings.Replace(secret, "hunter2", "hunter3", 1))
	b.want(newer)
	errs := b.apply(older)
	if len(errs) != 1 {
		t.Fatalf("the content of another revision was written: %v", errs)
	}
	for _, err := range errs {
		if class, reason, _ := state.Classify(err); class != state.Retry || reason != "ContentNotRead" {
			t.Errorf("%s %s: %v", class, reason, err)
		}
	}
	if errs := b.apply(b.plan(newer)); len(errs) > 0 {
		t.Errorf("the newer revision: %v", errs)
	}
	b.converged(newer)
}

func TestADefinitionAndItsObjectsComeInOneCommit(t *testing.T) {
	b := newBench(t)
	gizmos := strings.NewReplacer("widgets", "gizmos", "Widget", "Gizmo", "widget", "gizmo", "example.com", b.ns+".example.com").Replace(widgets)
	declared := b.declare(`
apiVersion: $NS.example.com/v1
kind: Gizmo
metadata: {name: w}
spec: {}
`, gizmos)
	p := b.plan(declared)
	if d := cmp.Diff([]string{
		"create CustomResourceDefinition.apiextensions.k8s.io/gizmos.$NS.example.com",
		"create Gizmo.$NS.example.com/default/w",
	}, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	for k, err := range b.apply(p) {
		t.Fatalf("%s: %v", k, err)
	}
	b.converged(declared)
	b.restart()
	b.converged(declared)
	// When the definition goes, its objects are gone too, and forgotten.
	for _, item := range b.declare(gizmos).Items() {
		u := b.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", item.Key.Name)
		if err := b.hand.Delete(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() bool {
			_, err := b.find("apiextensions.k8s.io/v1", "CustomResourceDefinition", item.Key.Name)
			return err != nil
		})
	}
	eventually(t, func() bool {
		observed, err := b.target.Observe(t.Context(), state.Set{})
		return err == nil && plan.Compute(state.Set{}, observed).Empty()
	})
}

func TestOneRefusedObjectDoesNotHoldUpTheOthers(t *testing.T) {
	b := newBench(t)
	broken := strings.Replace(web, "matchLabels: {app: web}", "matchLabels: {app: other}", 1)
	errs := b.apply(b.plan(b.declare(broken, config, secret)))
	if len(errs) != 1 {
		t.Fatalf("errors: %v", errs)
	}
	for _, err := range errs {
		if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "Invalid" || !strings.Contains(err.Error(), "selector") {
			t.Errorf("%v %s: %v", class, reason, err)
		}
	}
	b.get("v1", "ConfigMap", "settings")
	b.reconcile(b.declare(web, config, secret))
	b.converged(b.declare(web, config, secret))
}

func TestAnImmutableFieldIsShownWithItsReason(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(web, config))
	moved := strings.NewReplacer("{app: web}", "{app: web, tier: front}").Replace(web)
	declared := b.declare(moved, config)
	p := b.plan(declared)
	got := b.lines(p)
	if len(got) < 2 || got[0] != "update Deployment.apps/$NS/web" || !strings.Contains(strings.Join(got, "\n"), "spec.selector.matchLabels.tier: <nil> -> front") ||
		!strings.Contains(p.Changes[0].Before.DryRunError, "immutable") {
		t.Fatalf("%s", strings.Join(got, "\n"))
	}
	for _, err := range b.apply(p) {
		if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "Immutable" {
			t.Errorf("%v %s: %v", class, reason, err)
		}
	}
	b.reconcile(b.declare(web, config))
}

func TestAWebhookThatIsDownConcernsItsObjectsOnly(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(web, config))
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(9), "spec", "replicas") })
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "x", "data", "a") })
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/web") {
			return response(r, 500, "InternalError", `failed calling webhook "w.example.com": connection refused`), nil
		}
		return nil, nil
	})
	p := b.plan(b.declare(web, config))
	errs := b.apply(p)
	if len(p.Changes) != 2 || len(errs) != 1 || !strings.Contains(strings.Join(b.lines(p), "\n"), "spec.replicas: 9 -> 2") {
		t.Fatalf("changes:\n%s\nerrors: %v", show(p), errs)
	}
	b.wire.failing(nil)
	b.reconcile(b.declare(web, config))
	b.converged(b.declare(web, config))
}

func TestAnObjectThatIsTooLargeIsNamed(t *testing.T) {
	b := newBench(t)
	big := strings.Replace(config, `a: "1"`, `a: "`+strings.Repeat("x", 3<<20)+`"`, 1)
	errs := b.apply(b.plan(b.declare(big, secret)))
	if len(errs) != 1 {
		t.Fatalf("%d errors", len(errs))
	}
	for k, err := range errs {
		if _, reason, _ := state.Classify(err); reason != "TooLarge" || !strings.Contains(k, "settings") {
			t.Errorf("%s: %s %.200s", k, reason, err)
		}
	}
}

func TestReadyWaitsForWhatOthersNeed(t *testing.T) {
	b := newBench(t)
	p := b.plan(b.declare(web, config, pool))
	b.apply(p)
	b.wire.take()
	var keys []state.Key
	for _, c := range p.Changes {
		if c.Key.Kind != "Deployment" {
			keys = append(keys, c.Key)
		}
	}
	late, err := b.target.Ready(t.Context(), keys)
	if err != nil || len(late) != 0 {
		t.Fatalf("late %v, error %v", late, err)
	}
	if log := b.wire.take(); len(log) != 0 {
		t.Errorf("what was ready at once cost %v", log)
	}
	done := make(chan map[state.Key]string, 1)
	for _, c := range p.Changes {
		if c.Key.Kind == "Deployment" {
			go func() {
				late, _ := b.target.Ready(t.Context(), []state.Key{c.Key})
				done <- late
			}()
		}
	}
	eventually(t, func() bool { return countOf(b.wire.peek(), "WATCH", "deployments") == 1 })
	b.editStatus("apps/v1", "Deployment", "web", func(u *unstructured.Unstructured) {
		u.Object["status"] = map[string]any{
			"observedGeneration": u.GetGeneration(), "replicas": int64(2), "updatedReplicas": int64(2), "readyReplicas": int64(2), "availableReplicas": int64(2),
			"conditions": []any{map[string]any{"type": "Available", "status": "True"}, map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}},
		}
	})
	select {
	case late := <-done:
		if len(late) != 0 {
			t.Errorf("late: %v", late)
		}
	case <-time.After(time.Minute):
		t.Error("a Deployment that became ready was not noticed")
	}
	for _, line := range b.wire.take() {
		if strings.HasSuffix(line, "/web") {
			t.Errorf("polled: %s", line)
		}
	}
}
