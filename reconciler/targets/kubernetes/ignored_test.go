package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// ignoring is a rule for all objects of a kind.
func ignoring(kind string, paths ...string) v1alpha1.IgnoreRule {
	return v1alpha1.IgnoreRule{Paths: paths, Target: &v1alpha1.Selector{Kind: kind}}
}

// ignore makes the target anew with other rules, as the controller does.
func (b *bench) ignore(rules ...v1alpha1.IgnoreRule) {
	b.Helper()
	b.mod = func(c *kubernetes.Config) { c.Ignore = rules }
	b.restart()
}

// replicas are those of the Deployment web.
func (b *bench) replicas() int64 {
	b.Helper()
	n, _, err := unstructured.NestedInt64(b.get("apps/v1", "Deployment", "web").Object, "spec", "replicas")
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// withoutInventory takes away what is recorded of objects, so that the next plan compares all of them.
func (b *bench) withoutInventory() {
	b.Helper()
	for _, shard := range b.shards() {
		if err := b.hand.Delete(b.Context(), &shard); err != nil {
			b.Fatal(err)
		}
	}
	b.restart()
}

func (b *bench) scale(n int64) {
	b.Helper()
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, n, "spec", "replicas") })
}

// ignoredFields are what the plan has as ignored, one line a field.
func (b *bench) ignoredFields(p plan.Plan) []string {
	var out []string
	for _, i := range p.Ignored {
		for _, f := range i.Fields() {
			out = append(out, strings.ReplaceAll(fmt.Sprintf("%s %s: %v, declared %v", i.Key(), f.Path, f.Before, f.After), b.ns, "$NS"))
		}
	}
	return out
}

// claim is what Poolwright owns of an object, as JSON.
func (b *bench) claim(apiVersion, kind, name string) string {
	b.Helper()
	var out strings.Builder
	for _, e := range b.get(apiVersion, kind, name).GetManagedFields() {
		if e.Manager == v1alpha1.FieldManager {
			out.WriteString(e.FieldsV1.GetRawString())
		}
	}
	return out.String()
}

// applies sends a server-side apply of another manager, which forces nothing.
func (b *bench) applies(manager, manifest string) {
	b.Helper()
	for _, item := range b.declare(manifest).Items() {
		u := &unstructured.Unstructured{Object: item.Object}
		if err := b.hand.Apply(b.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager)); err != nil {
			b.Fatalf("%s: %v", manager, err)
		}
	}
}

func TestAnIgnoredFieldKeepsItsLiveValue(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) { c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/replicas")} })
	declared := b.declare(web)
	b.reconcile(declared)
	if n := b.replicas(); n != 2 {
		t.Fatalf("it is created with %d replicas, which are not those of the repository", n)
	}
	if claim := b.claim("apps/v1", "Deployment", "web"); strings.Contains(claim, "f:replicas") || !strings.Contains(claim, "f:image") {
		t.Errorf("what is owned after the creation: %s", claim)
	}
	b.converged(declared)
	b.applies("scaler", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: $NS}\nspec: {replicas: 3}\n")
	b.converged(declared)

	b.scale(5)
	p := b.plan(declared)
	if d := cmp.Diff([]string{"Deployment.apps/$NS/web spec.replicas: 5, declared 2"}, b.ignoredFields(p)); d != "" || !p.Empty() {
		t.Fatalf("%s\n%s", d, show(p))
	}

	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		set(o, int64(6), "spec", "replicas")
		set(o, "ours", "metadata", "labels", "team")
	})
	p = b.reconcile(declared)
	if d := cmp.Diff([]string{"update Deployment.apps/$NS/web", "  metadata.labels.team: ours -> infra"}, b.lines(p)); d != "" || !p.Changes[0].Drift {
		t.Errorf("drift %v\n%s", p.Changes[0].Drift, d)
	}
	if n := b.replicas(); n != 6 {
		t.Errorf("correcting a field beside it set replicas to %d", n)
	}
	if claim := b.claim("apps/v1", "Deployment", "web"); strings.Contains(claim, "f:replicas") {
		t.Errorf("what is owned after a correction: %s", claim)
	}
	b.converged(declared)

	more := b.declare(strings.NewReplacer("replicas: 2", "replicas: 7", "nginx:1", "nginx:2").Replace(web))
	b.converged(b.declare(strings.Replace(web, "replicas: 2", "replicas: 7", 1)))
	p = b.reconcile(more)
	if d := cmp.Diff([]string{"update Deployment.apps/$NS/web", "  spec.template.spec.containers[name=web].image: nginx:1 -> nginx:2"}, b.lines(p)); d != "" || p.Changes[0].Drift {
		t.Errorf("drift %v\n%s", p.Changes[0].Drift, d)
	}
	if n := b.replicas(); n != 6 {
		t.Errorf("a commit set replicas to %d", n)
	}

	b.restart()
	b.converged(more)

	b.ignore()
	p = b.reconcile(more)
	if d := cmp.Diff([]string{"update Deployment.apps/$NS/web", "  spec.replicas: 6 -> 7"}, b.lines(p)); d != "" {
		t.Error(d)
	}
	b.converged(more)
	if n := b.replicas(); n != 7 {
		t.Errorf("without the rule there are %d replicas", n)
	}
}

func TestAFieldThatIsIgnoredLaterIsGivenUp(t *testing.T) {
	for name, by := range map[string]func(b *bench){
		"applied by the Sync": func(b *bench) { b.reconcile(b.declare(web)) },
		"applied by kubectl": func(b *bench) {
			b.make(strings.Replace(web, "metadata: {", `metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}, `, 1), "kubectl-client-side-apply")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			by(b)
			b.ignore(ignoring("Deployment", "/spec/replicas", "/metadata/labels/team", "/spec/template/spec/containers/0/image"))
			more := b.declare(strings.NewReplacer("replicas: 2", "replicas: 7", "infra", "other", "nginx:1", "nginx:2").Replace(web))
			p := b.plan(more)
			for _, f := range p.Changes[0].Fields {
				if f.Path == "spec.replicas" || f.Path == "metadata.labels.team" || strings.HasSuffix(f.Path, "image") {
					t.Errorf("%s is to be changed", f.Path)
				}
			}
			b.carryOut(p, more)
			b.converged(more)
			claim := b.claim("apps/v1", "Deployment", "web")
			if strings.Contains(claim, "f:replicas") || strings.Contains(claim, "f:team") || strings.Contains(claim, "f:image") || !strings.Contains(claim, "f:resources") {
				t.Errorf("what is owned: %s", claim)
			}
			live := b.get("apps/v1", "Deployment", "web")
			containers, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "containers")
			if n := b.replicas(); n != 2 || live.GetLabels()["team"] != "infra" || containers[0].(map[string]any)["image"] != "nginx:1" {
				t.Errorf("%d replicas, labels %v, containers %v", n, live.GetLabels(), containers)
			}
		})
	}
}

func TestAFieldOfAnElementIsIgnoredWhereverTheElementIs(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/template/spec/containers/0/image")}
	})
	declared := b.declare(web)
	b.reconcile(declared)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		containers, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
		containers[0].(map[string]any)["image"] = "nginx:9"
		containers = append([]any{map[string]any{"name": "side", "image": "side:1"}}, containers...)
		set(o, containers, "spec", "template", "spec", "containers")
	})
	p := b.plan(declared)
	if d := cmp.Diff([]string{"Deployment.apps/$NS/web spec.template.spec.containers[name=web].image: nginx:9, declared nginx:1"}, b.ignoredFields(p)); d != "" || !p.Empty() {
		t.Errorf("%s\n%s", d, show(p))
	}
	more := b.declare(strings.Replace(web, "containerPort: 80", "containerPort: 81", 1))
	b.reconcile(more)
	b.converged(more)
	containers, _, _ := unstructured.NestedSlice(b.get("apps/v1", "Deployment", "web").Object, "spec", "template", "spec", "containers")
	images := map[any]any{}
	for _, c := range containers {
		images[c.(map[string]any)["name"]] = c.(map[string]any)["image"]
	}
	if d := cmp.Diff(map[any]any{"web": "nginx:9", "side": "side:1"}, images); d != "" {
		t.Error(d)
	}
}

func TestAFieldOfAWholeSpecIsIgnored(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("NodePool", "/spec/limits", "/spec/template/spec/requirements/0/values", "/spec/template/metadata/labels/theirs")}
	})
	declared := b.declare(pool)
	b.reconcile(declared)
	get := func() *unstructured.Unstructured { return b.get("karpenter.sh/v1", "NodePool", b.ns) }
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) {
		set(o, "10", "spec", "limits", "cpu")
		set(o, "x", "spec", "template", "metadata", "labels", "theirs")
		set(o, int64(7), "spec", "weight")
		requirements, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "requirements")
		requirements[0].(map[string]any)["values"] = []any{"on-demand"}
		set(o, requirements, "spec", "template", "spec", "requirements")
	})
	p := b.reconcile(declared)
	if d := cmp.Diff([]string{"update NodePool.karpenter.sh/$NS", "  spec.weight: 7 -> <nil>"}, b.lines(p)); d != "" {
		t.Error(d)
	}
	b.converged(declared)
	b.restart()
	b.converged(declared)
	live := get()
	requirements, _, _ := unstructured.NestedSlice(live.Object, "spec", "template", "spec", "requirements")
	cpu, _, _ := unstructured.NestedString(live.Object, "spec", "limits", "cpu")
	label, _, _ := unstructured.NestedString(live.Object, "spec", "template", "metadata", "labels", "theirs")
	if d := cmp.Diff([]any{"on-demand"}, requirements[0].(map[string]any)["values"]); d != "" || cpu != "10" || label != "x" {
		t.Errorf("limit %q, label %q\n%s", cpu, label, d)
	}
	// An update that a revision makes leaves them as well.
	more := b.declare(strings.Replace(pool, "spec:\n", "spec:\n  weight: 3\n", 1))
	b.reconcile(more)
	b.converged(more)
	requirements, _, _ = unstructured.NestedSlice(get().Object, "spec", "template", "spec", "requirements")
	if d := cmp.Diff([]any{"on-demand"}, requirements[0].(map[string]any)["values"]); d != "" {
		t.Error(d)
	}
	b.ignore()
	b.reconcile(more)
	b.converged(more)
	if limits, found, _ := unstructured.NestedMap(get().Object, "spec", "limits"); found {
		t.Errorf("without the rule it has limits: %v", limits)
	}
}

func TestALiveValueThatMovesDuringAnUpdateIsNotOverwritten(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("NodePool", "/spec/template/spec/requirements/0/values")}
	})
	b.reconcile(b.declare(pool))
	more := b.declare(strings.Replace(pool, "spec:\n", "spec:\n  weight: 3\n", 1))
	p := b.plan(more)
	raced := false
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "nodepools") && r.URL.Query().Get("dryRun") == "" && !raced {
			raced = true
			b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) {
				requirements, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "requirements")
				requirements[0].(map[string]any)["values"] = []any{"on-demand"}
				set(o, requirements, "spec", "template", "spec", "requirements")
			})
		}
		return nil, nil
	})
	errs := b.apply(p)
	if len(errs) != 1 || !raced {
		t.Fatalf("errors %v, raced %v", errs, raced)
	}
	for _, err := range errs {
		if !errors.Is(err, targets.ErrChanged) {
			t.Error(err)
		}
	}
	b.reconcile(more)
	b.converged(more)
	requirements, _, _ := unstructured.NestedSlice(b.get("karpenter.sh/v1", "NodePool", b.ns).Object, "spec", "template", "spec", "requirements")
	if d := cmp.Diff([]any{"on-demand"}, requirements[0].(map[string]any)["values"]); d != "" {
		t.Error(d)
	}
}

func TestWhatSomebodyRemovedOfAnIgnoredFieldStaysAway(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) { c.Ignore = []v1alpha1.IgnoreRule{ignoring("ConfigMap", "/data/a")} })
	declared := b.declare(config)
	b.reconcile(declared)
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { delete(o["data"].(map[string]any), "a") })
	p := b.plan(declared)
	if d := cmp.Diff([]string{"ConfigMap/$NS/settings data.a: <nil>, declared 1"}, b.ignoredFields(p)); d != "" || !p.Empty() {
		t.Errorf("%s\n%s", d, show(p))
	}
	more := b.declare(strings.Replace(config, `b: "2"`, `b: "3"`, 1))
	b.reconcile(more)
	b.converged(more)
	data, _, _ := unstructured.NestedStringMap(b.get("v1", "ConfigMap", "settings").Object, "data")
	if d := cmp.Diff(map[string]string{"b": "3"}, data); d != "" {
		t.Error(d)
	}
	// The last declared field of a map: the map is neither sent nor emptied.
	b.ignore(ignoring("ConfigMap", "/data/a", "/data/b"))
	b.reconcile(more)
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) {
		set(o, "mine", "data", "b")
		set(o, "x", "metadata", "labels", "poolwright.dev/sync")
	})
	b.reconcile(more)
	b.converged(more)
	data, _, _ = unstructured.NestedStringMap(b.get("v1", "ConfigMap", "settings").Object, "data")
	if d := cmp.Diff(map[string]string{"b": "mine"}, data); d != "" {
		t.Error(d)
	}
	// One that was deleted is made with all that is declared.
	if err := b.hand.Delete(t.Context(), b.get("v1", "ConfigMap", "settings")); err != nil {
		t.Fatal(err)
	}
	b.reconcile(more)
	data, _, _ = unstructured.NestedStringMap(b.get("v1", "ConfigMap", "settings").Object, "data")
	if d := cmp.Diff(map[string]string{"a": "1", "b": "3"}, data); d != "" {
		t.Error(d)
	}
}

func TestAMapThatIsDeclaredEmptyStaysAroundAnIgnoredField(t *testing.T) {
	volume := strings.Replace(web, "      containers:\n", "      volumes: [{name: cache, emptyDir: {}}]\n      containers:\n", 1)
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/template/spec/volumes/0/emptyDir/sizeLimit")}
	})
	declared := b.declare(volume)
	b.reconcile(declared)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		set(o, []any{map[string]any{"name": "cache", "emptyDir": map[string]any{"sizeLimit": "1Gi"}}}, "spec", "template", "spec", "volumes")
	})
	b.converged(declared)
	more := b.declare(strings.Replace(volume, "nginx:1", "nginx:2", 1))
	b.reconcile(more)
	b.converged(more)
	volumes, _, _ := unstructured.NestedSlice(b.get("apps/v1", "Deployment", "web").Object, "spec", "template", "spec", "volumes")
	if d := cmp.Diff([]any{map[string]any{"name": "cache", "emptyDir": map[string]any{"sizeLimit": "1Gi"}}}, volumes); d != "" {
		t.Error(d)
	}
}

func TestAMapThatIsDeclaredEmptyAndAppliedAsAWholeKeepsAnIgnoredField(t *testing.T) {
	const policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web, namespace: $NS}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n"
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("NetworkPolicy", "/spec/podSelector/matchLabels")}
	})
	declared := b.declare(policy)
	b.reconcile(declared)
	b.converged(declared)
	check := func(name string) {
		t.Helper()
		selected, _, _ := unstructured.NestedStringMap(b.get("networking.k8s.io/v1", "NetworkPolicy", "web").Object, "spec", "podSelector", "matchLabels")
		if d := cmp.Diff(map[string]string{"app": name}, selected); d != "" {
			t.Error(d)
		}
	}
	for _, name := range []string{"web", "api"} {
		b.edit("networking.k8s.io/v1", "NetworkPolicy", "web", func(o map[string]any) { set(o, name, "spec", "podSelector", "matchLabels", "app") })
		b.reconcile(declared)
		b.converged(declared)
		check(name)
	}
	more := b.declare(strings.Replace(policy, "[Ingress]", "[Ingress, Egress]", 1))
	b.reconcile(more)
	b.converged(more)
	check("api")
}

func TestAnIgnoredFieldIsGivenUpForGoodWhereAnotherManagerClaimsTheMapAboveItAsEmpty(t *testing.T) {
	b := newBench(t)
	// The API server has a securityContext: {} by default, which the client that makes the object claims.
	b.make(web, "kubectl-create")
	declared := b.declare(strings.Replace(web, "      containers:\n", "      securityContext: {runAsUser: 1000}\n      containers:\n", 1))
	b.reconcile(declared)
	b.converged(declared)
	b.ignore(ignoring("Deployment", "/spec/template/spec/securityContext/runAsUser"))
	b.reconcile(declared)
	b.converged(declared)
	if claim := b.claim("apps/v1", "Deployment", "web"); strings.Contains(claim, "f:runAsUser") {
		t.Errorf("what is owned: %s", claim)
	}
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		set(o, int64(2000), "spec", "template", "spec", "securityContext", "runAsUser")
		set(o, "ours", "metadata", "labels", "team")
	})
	b.reconcile(declared)
	b.converged(declared)
	if user, _, _ := unstructured.NestedInt64(b.get("apps/v1", "Deployment", "web").Object, "spec", "template", "spec", "securityContext", "runAsUser"); user != 2000 {
		t.Errorf("the user is %d", user)
	}
	b.withoutInventory()
	b.converged(declared)
}

func TestAnIgnoredLimitOfAPoolIsGivenUpForGoodWhereAnotherManagerClaimsTheLimitsAsEmpty(t *testing.T) {
	b := newBench(t)
	limited := strings.Replace(pool, "spec:\n", "spec:\n  limits: {cpu: \"10\"}\n", 1)
	b.make(strings.Replace(pool, "spec:\n", "spec:\n  limits: {}\n", 1), "kubectl-create")
	declared := b.declare(limited)
	b.reconcile(declared)
	b.converged(declared)
	b.ignore(ignoring("NodePool", "/spec/limits/cpu"))
	b.reconcile(declared)
	b.converged(declared)
	if claim := b.claim("karpenter.sh/v1", "NodePool", b.ns); strings.Contains(claim, "f:cpu") || !strings.Contains(claim, "f:requirements") {
		t.Errorf("what is owned: %s", claim)
	}
	b.withoutInventory()
	b.converged(declared)
}

func TestTheSecondRequirementOfAKeyKeepsItsLiveValues(t *testing.T) {
	const first, second = "{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: [\"3\"]}", "{key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: [\"193\"]}"
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("NodePool", "/spec/template/spec/requirements/2/values")}
	})
	bounded := strings.Replace(pool, "      nodeClassRef:", "      - "+first+"\n      - "+second+"\n      nodeClassRef:", 1)
	b.reconcile(b.declare(bounded))
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) {
		requirements, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "requirements")
		requirements[2].(map[string]any)["values"] = []any{"97"}
		set(o, requirements, "spec", "template", "spec", "requirements")
	})
	more := b.declare(strings.Replace(bounded, "spec:\n", "spec:\n  weight: 3\n", 1))
	b.reconcile(more)
	b.converged(more)
	requirements, _, _ := unstructured.NestedSlice(b.get("karpenter.sh/v1", "NodePool", b.ns).Object, "spec", "template", "spec", "requirements")
	if d := cmp.Diff([]any{[]any{"3"}, []any{"97"}}, []any{requirements[1].(map[string]any)["values"], requirements[2].(map[string]any)["values"]}); d != "" {
		t.Error(d)
	}
}

func TestARuleThatIsRefusedIgnoresNothing(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) { c.Ignore = []v1alpha1.IgnoreRule{{Paths: []string{"/data"}}} })
	declared := b.declare(config, secret)
	want := []string{"file1.yaml:1: Secret/$NS/token: spec.ignore[0].paths[0] of the Sync is /data, which is not ignored here: values of Secrets are not kept; have target of the rule select other objects"}
	if d := cmp.Diff(want, b.problems(declared)); d != "" {
		t.Error(d)
	}
	set, _ := b.target.Desired(t.Context(), declared)
	for _, item := range set.Items() {
		if ignores := item.Key.Kind == "ConfigMap"; ignores != (len(item.Ignore) > 0) {
			t.Errorf("of %s %v are ignored", item.Key, item.Ignore)
		}
	}
	b.mod = func(c *kubernetes.Config) { c.Ignore = []v1alpha1.IgnoreRule{{Paths: []string{"spec"}}} }
	b.restart()
	if class, reason, _ := state.Classify(desiredError(b, declared)); class != state.Stalled || reason != "InvalidIgnoreRule" {
		t.Errorf("a rule that cannot be parsed: %v %s", class, reason)
	}
}

func desiredError(b *bench, declared state.Set) error {
	_, err := b.target.Desired(b.Context(), declared)
	return err
}

func TestARuleWithoutAnObjectIsAWarningOfTheSync(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("ConfigMap", "/data/a"), ignoring("Deployment", "/spec/replicas")}
	})
	p := b.plan(b.declare(config))
	type note struct{ Key, Text string }
	var got []note
	for _, n := range p.Notes {
		if n.Severity == finding.Warning {
			got = append(got, note{strings.ReplaceAll(n.Key.String(), b.ns, "$NS"), n.Text})
		}
	}
	want := []note{{"Sync.poolwright.dev/" + b.home + "/sync-$NS", "spec.ignore[1] matches no object that is declared: correct its target, or remove it"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if len(p.Changes) != 1 {
		t.Errorf("it makes changes: %s", show(p))
	}
	b.apply(p)
	b.converged(b.declare(config))
}

func TestAPullRequestChangesNothingOfWhatIsIgnored(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) { c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/replicas")} })
	base := b.declare(web)
	b.reconcile(base)
	b.scale(5)
	head := b.declare(strings.Replace(web, "replicas: 2", "replicas: 7", 1))
	for name, mod := range map[string]func(*kubernetes.Config){
		"of a person":         func(c *kubernetes.Config) { c.Preview = true },
		"of a pull request":   func(c *kubernetes.Config) { c.Preview, c.OnlyManaged = true, true },
		"of a drifted object": func(c *kubernetes.Config) { c.Preview, c.OnlyManaged = true, true },
	} {
		b.mod = func(c *kubernetes.Config) {
			c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/replicas")}
			mod(c)
		}
		b.restart()
		if strings.Contains(name, "drifted") {
			b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, "theirs", "metadata", "labels", "team") })
		}
		got := b.proposal(base, head)
		if d := cmp.Diff([]string{"Deployment.apps/$NS/web spec.replicas: <nil>, declared 7"}, b.ignoredFields(got.Proposed)); d != "" || len(got.Proposed.Changes) > 0 {
			t.Errorf("%s: %s\n%s", name, d, show(got.Proposed))
		}
	}
	without, err := reconciler.Propose(t.Context(), declared.Declared{Set: base}, declared.Declared{Set: head}, true,
		[]reconciler.NamedTarget{{Name: kubernetes.Name, Target: kubernetes.Offline(b.sync, []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/replicas")})}})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"Deployment.apps/$NS/web spec.replicas: 2, declared 7"}, b.ignoredFields(without.Proposed)); d != "" || len(without.Proposed.Changes) > 0 {
		t.Errorf("without a cluster: %s\n%s", d, show(without.Proposed))
	}
}

func TestAProposalShowsNoLiveValueOfWhatIsIgnored(t *testing.T) {
	mod := func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/template/spec/containers/0/env", "/metadata/annotations/theirs")}
	}
	b := newBench(t, mod)
	base := b.declare(web)
	b.reconcile(base)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) {
		containers, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
		containers = append(containers, map[string]any{"name": "injected", "image": "i", "env": []any{map[string]any{"name": "TOKEN", "value": "hunter2"}}})
		set(o, containers, "spec", "template", "spec", "containers")
		set(o, "hunter3", "metadata", "annotations", "theirs")
	})
	for name, element := range map[string]string{"not declared": "{name: injected}", "declared": "{name: injected, env: []}"} {
		b.mod = func(c *kubernetes.Config) { mod(c); c.Preview, c.OnlyManaged = true, true }
		b.restart()
		got := b.proposal(base, b.declare(strings.Replace(web, "      containers:\n", "      containers:\n      - "+element+"\n", 1)))
		if text := dump(got); strings.Contains(text, "hunter") {
			t.Errorf("%s: a live value is shown:\n%s", name, text)
		}
	}
}

func TestAnIgnoredFieldThatIsNotDeclaredStaysInAMapThatIsAppliedAsAWhole(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/template/spec/nodeSelector/theirs"), ignoring("NodePool", "/spec/template/spec/requirements/0/minValues")}
	})
	selector := strings.Replace(web, "      containers:\n", "      nodeSelector: {ours: x}\n      containers:\n", 1)
	declared := b.declare(selector, pool)
	b.reconcile(declared)
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, "y", "spec", "template", "spec", "nodeSelector", "theirs") })
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) {
		requirements, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "requirements")
		requirements[0].(map[string]any)["minValues"] = int64(1)
		set(o, requirements, "spec", "template", "spec", "requirements")
	})
	b.reconcile(declared)
	b.converged(declared)
	more := b.declare(strings.Replace(selector, "nginx:1", "nginx:2", 1), strings.Replace(pool, "spec:\n", "spec:\n  weight: 3\n", 1))
	b.reconcile(more)
	b.converged(more)
	nodes, _, _ := unstructured.NestedStringMap(b.get("apps/v1", "Deployment", "web").Object, "spec", "template", "spec", "nodeSelector")
	if d := cmp.Diff(map[string]string{"ours": "x", "theirs": "y"}, nodes); d != "" {
		t.Error(d)
	}
	requirements, _, _ := unstructured.NestedSlice(b.get("karpenter.sh/v1", "NodePool", b.ns).Object, "spec", "template", "spec", "requirements")
	if n := requirements[0].(map[string]any)["minValues"]; n != int64(1) {
		t.Errorf("minValues is %v", n)
	}
}

func TestAnUpdateWithKeptValuesIsMadeByTheNextPlanWhereAControllerWroteTheStatusMeanwhile(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("Deployment", "/spec/template/spec/nodeSelector/theirs")}
	})
	selector := strings.Replace(web, "      containers:\n", "      nodeSelector: {ours: x}\n      containers:\n", 1)
	b.reconcile(b.declare(selector))
	writes := 0
	b.wire.failing(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "deployments") && r.URL.Query().Get("dryRun") == "" && writes < 3 {
			writes++
			b.editStatus("apps/v1", "Deployment", "web", func(u *unstructured.Unstructured) {
				set(u.Object, []any{map[string]any{"type": "Written", "status": "True", "reason": fmt.Sprint(writes)}}, "status", "conditions")
			})
		}
		return nil, nil
	})
	more := b.declare(strings.Replace(selector, "nginx:1", "nginx:2", 1))
	p := b.plan(more)
	errs := b.apply(p)
	if len(errs) != 1 || writes != 1 {
		t.Fatalf("errors %v after %d writes", errs, writes)
	}
	for _, err := range errs {
		if class, reason, _ := state.Classify(err); class != state.Retry || reason != "Conflict" || !errors.Is(err, targets.ErrChanged) {
			t.Errorf("%v %s: %v", class, reason, err)
		}
	}
	b.carryOut(p, more)
	b.converged(more)
	if writes != 3 {
		t.Errorf("it was applied after %d writes", writes)
	}
}

func TestAnIgnoredFieldThatIsNotDeclaredIsCorrectedWithoutTheRule(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) { c.Ignore = []v1alpha1.IgnoreRule{ignoring("NodePool", "/spec/limits")} })
	declared := b.declare(pool)
	b.reconcile(declared)
	b.edit("karpenter.sh/v1", "NodePool", b.ns, func(o map[string]any) { set(o, "10", "spec", "limits", "cpu") })
	b.converged(declared)
	b.ignore()
	b.reconcile(declared)
	b.converged(declared)
	if limits, found, _ := unstructured.NestedMap(b.get("karpenter.sh/v1", "NodePool", b.ns).Object, "spec", "limits"); found {
		t.Errorf("it has limits: %v", limits)
	}
}

func TestAnIgnoredFieldThatWasAppliedInAnotherVersionIsGivenUp(t *testing.T) {
	const scaler = "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: $NS}\nspec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n"
	b := newBench(t)
	b.reconcile(b.declare(scaler))
	b.ignore(ignoring("HorizontalPodAutoscaler", "/spec/minReplicas"))
	more := b.declare(strings.NewReplacer("autoscaling/v1", "autoscaling/v2", "minReplicas: 2", "minReplicas: 3", "maxReplicas: 5", "maxReplicas: 6").Replace(scaler))
	b.reconcile(more)
	b.converged(more)
	spec, _, _ := unstructured.NestedMap(b.get("autoscaling/v2", "HorizontalPodAutoscaler", "web").Object, "spec")
	if spec["minReplicas"] != int64(2) || spec["maxReplicas"] != int64(6) {
		t.Errorf("spec %v", spec)
	}
}

func TestAnIgnoredFieldIsKeptInAnUpdateThatEmptiesAMap(t *testing.T) {
	b := newBench(t, func(c *kubernetes.Config) {
		c.Ignore = []v1alpha1.IgnoreRule{ignoring("NodePool", "/spec/template/spec/requirements/0/values")}
	})
	limited := strings.Replace(pool, "spec:\n", "spec:\n  limits: {cpu: 10}\n", 1)
	b.reconcile(b.declare(limited))
	more := b.declare(strings.Replace(limited, "{cpu: 10}", "{}", 1))
	if errs := b.apply(b.plan(more)); len(errs) > 0 {
		t.Fatal(errs)
	}
	b.converged(more)
}

// proposal is what a change does, as a preview computes it.
func (b *bench) proposal(before, after state.Set) plan.Proposal {
	b.Helper()
	b.target.StartPreview()
	got, err := reconciler.Propose(b.Context(), declared.Declared{Set: before}, declared.Declared{Set: after}, false, []reconciler.NamedTarget{{Name: kubernetes.Name, Target: b.target}})
	if err != nil {
		b.Fatal(err)
	}
	return got
}
