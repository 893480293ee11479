package kubernetes_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/targets"
)

func TestAnObjectThatExistsIsAdoptedWithItsChanges(t *testing.T) {
	b := newBench(t)
	b.make(strings.Replace(web, "replicas: 2", "replicas: 3", 1), "kubectl-create")
	declared := b.declare(web)
	p := b.plan(declared)
	want := []string{
		"update Deployment.apps/$NS/web",
		`  metadata.labels["poolwright.dev/sync"]: <nil> -> sync-$NS`,
		"  spec.replicas: 3 -> 2",
	}
	if d := cmp.Diff(want, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	b.apply(p)
	b.converged(declared)
}

// TestWhatAppearsAfterThePlanIsNotAdoptedUnread: nothing of the object that somebody
// makes between plan and apply is in conflict with what is declared.
func TestWhatAppearsAfterThePlanIsNotAdoptedUnread(t *testing.T) {
	for _, tt := range []struct{ name, kind, declared, theirs string }{
		{"a built-in kind", "ConfigMap", config, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: $NS}\ndata: {theirs: '1'}\n"},
		{"a custom kind", "EC2NodeClass", class, class + "  tags: {theirs: '1'}\n"},
		{"one that is the same", "ConfigMap", config, config},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			declared := b.declare(tt.declared)
			p := b.plan(declared)
			b.make(tt.theirs, "somebody")
			item := declared.Items()[0]
			theirs := &unstructured.Unstructured{}
			theirs.SetAPIVersion(schema.GroupVersion{Group: item.Key.Group, Version: item.Version}.String())
			theirs.SetKind(item.Key.Kind)
			read := func() string {
				if err := b.hand.Get(t.Context(), client.ObjectKey{Namespace: item.Key.Namespace, Name: item.Key.Name}, theirs); err != nil {
					t.Fatal(err)
				}
				return theirs.GetResourceVersion()
			}
			before := read()
			errs := b.apply(p)
			if err := errs[item.Key.String()]; len(errs) != 1 || !errors.Is(err, targets.ErrChanged) {
				t.Fatalf("errors: %v", errs)
			}
			if read() != before || theirs.GetLabels()["poolwright.dev/sync"] != "" {
				t.Errorf("it was adopted: %v", theirs.Object)
			}
			// The next plan shows what adopting it does.
			if next := b.plan(declared); len(next.Changes) != 1 || next.Changes[0].Action != plan.Update {
				t.Errorf("planned is %s", show(next))
			}
			b.reconcile(declared)
			b.converged(declared)
		})
	}
}

func TestKubectlsOwnershipMovesOverOnce(t *testing.T) {
	b := newBench(t)
	// What kubectl apply leaves behind: its annotation and its manager.
	old := b.declare(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: $NS, annotations: {gone: "1"}}
data: {a: "1", b: "2", dropped: "3"}
`).Items()[0].Object
	raw, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: old}
	annotations := u.GetAnnotations()
	annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(raw)
	u.SetAnnotations(annotations)
	if err := b.hand.Create(t.Context(), u, client.FieldOwner("kubectl-client-side-apply")); err != nil {
		t.Fatal(err)
	}
	declared := b.declare(config)
	p := b.plan(declared)
	want := []string{
		"update ConfigMap/$NS/settings",
		"  data.dropped: 3 -> <nil>",
		"  metadata.annotations.gone: 1 -> <nil>",
		`  metadata.labels["poolwright.dev/sync"]: <nil> -> sync-$NS`,
	}
	if d := cmp.Diff(want, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	live := b.get("v1", "ConfigMap", "settings")
	if data := live.Object["data"].(map[string]any); data["dropped"] != nil {
		t.Errorf("data: %v", data)
	}
	for _, m := range live.GetManagedFields() {
		if m.Manager == "kubectl-client-side-apply" {
			t.Error("kubectl still owns fields")
		}
	}
	if len(live.GetAnnotations()) != 0 {
		t.Errorf("annotations: %v", live.GetAnnotations())
	}
	b.converged(declared)
}

func TestOthersTerritoryIsNotForced(t *testing.T) {
	tests := []struct {
		name, manager, meta, owner string
	}{
		{"a Flux Kustomization's labels", "kustomize-controller", "labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}", "Flux Kustomization flux-system/apps"},
		{"a Flux HelmRelease's labels", "someone", "labels: {helm.toolkit.fluxcd.io/name: web, helm.toolkit.fluxcd.io/namespace: apps}", "Flux HelmRelease apps/web"},
		{"Argo CD's tracking id", "argocd-controller", "annotations: {argocd.argoproj.io/tracking-id: \"shop:/ConfigMap:$NS/settings\"}", "Argo CD application shop"},
		{"Argo CD's label", "argocd-controller", "labels: {app.kubernetes.io/instance: shop}", "Argo CD application shop"},
		{"Argo CD's field manager beside the tracking id of another object", "argocd-controller", "labels: {app.kubernetes.io/instance: web}, annotations: {argocd.argoproj.io/tracking-id: \"shop:/ConfigMap:$NS/other\"}", "Argo CD argocd-controller"},
		{"Argo CD's field manager", "argocd-controller", "labels: {x: z}", "Argo CD argocd-controller"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" keep the object's fields", func(t *testing.T) {
			b := newBench(t)
			b.make(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: $NS, `+tt.meta+`}
data: {a: theirs}
`, tt.manager)
			declared := b.declare(config)
			p := b.plan(declared)
			if got := p.Changes[0].Before.Owner.String(); got != tt.owner {
				t.Errorf("owner %q, want %q", got, tt.owner)
			}
			errs := b.apply(p)
			if len(errs) != 1 {
				t.Fatalf("errors: %v", errs)
			}
			for _, err := range errs {
				if !errors.Is(err, targets.ErrConflict) {
					t.Errorf("%v is no conflict", err)
				}
				for _, part := range []string{tt.manager, ".data.a", tt.owner} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%v does not name %s", err, part)
					}
				}
			}
			if got := b.get("v1", "ConfigMap", "settings").Object["data"].(map[string]any)["a"]; got != "theirs" {
				t.Errorf("data.a = %v was forced", got)
			}
		})
	}
}

// The steps of docs/howto/beside-flux-or-argocd.md: the other tool's fields stay its own on an object that it has let go.
func TestAnObjectMovesFromAnotherTool(t *testing.T) {
	tests := []struct{ name, manager, marks, release string }{
		{
			"of Flux without its labels", "kustomize-controller",
			"labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}",
			`{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":null,"kustomize.toolkit.fluxcd.io/namespace":null}}}`,
		},
		{
			"of Argo CD without its tracking id and field managers", "argocd-controller",
			"annotations: {argocd.argoproj.io/tracking-id: \"shop:/ConfigMap:$NS/settings\"}",
			`{"metadata":{"annotations":{"argocd.argoproj.io/tracking-id":null},"managedFields":[{}]}}`,
		},
	}
	for _, tt := range tests {
		t.Run("an object "+tt.name+" is changed and deleted as Git has it", func(t *testing.T) {
			b := newBench(t)
			b.applies(tt.manager, strings.Replace(config, "namespace: $NS", "namespace: $NS, "+tt.marks, 1))
			changed := b.declare(strings.Replace(config, `a: "1"`, `a: "ours"`, 1))
			if errs := b.apply(b.plan(changed)); len(errs) != 1 {
				t.Errorf("before it was let go: %v", errs)
			}
			moved := b.get("v1", "ConfigMap", "settings")
			if err := b.hand.Patch(t.Context(), moved, client.RawPatch(types.MergePatchType, []byte(tt.release))); err != nil {
				t.Fatal(err)
			}
			b.reconcile(changed)
			b.converged(changed)
			live := b.get("v1", "ConfigMap", "settings")
			if got := live.Object["data"].(map[string]any)["a"]; got != "ours" || live.GetUID() != moved.GetUID() {
				t.Errorf("data.a of %s is %v, and was moved as %s", live.GetUID(), got, moved.GetUID())
			}
			b.reconcile(b.declare())
			if live, err := b.find("v1", "ConfigMap", "settings"); err == nil {
				t.Errorf("%s stays", live.GetName())
			}
		})
	}
}

func TestACopiedTrackingIDClaimsNothing(t *testing.T) {
	b := newBench(t)
	b.make(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: $NS, annotations: {argocd.argoproj.io/tracking-id: "shop:/ConfigMap:elsewhere/settings"}}
data: {a: theirs}
`, "kubectl-create")
	b.reconcile(b.declare(config))
	b.converged(b.declare(config))
}

func TestAnotherSyncsObjectsAreLeftUntilItLetsGo(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config)
	b.reconcile(declared)
	first, name := b.target, b.sync
	b.sync = name + "-2"
	b.restart()
	other := b.declare(strings.Replace(config, `a: "1"`, `a: "other"`, 1))
	errs := b.apply(b.plan(other))
	for _, err := range errs {
		if !errors.Is(err, targets.ErrConflict) || !strings.Contains(err.Error(), "Sync "+name) {
			t.Errorf("%v does not name the other Sync", err)
		}
	}
	if len(errs) != 1 {
		t.Fatalf("errors: %v", errs)
	}
	if err := first.Orphan(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.reconcile(other)
	b.converged(other)
}

func TestReplicasBelongToTheAutoscaler(t *testing.T) {
	const hpa = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: $NS}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 9
`
	b := newBench(t)
	b.reconcile(b.declare(web))
	b.edit("apps/v1", "Deployment", "web", func(o map[string]any) { set(o, int64(2), "spec", "replicas") })
	declared := b.declare(web, hpa)
	b.reconcile(declared)
	if got, _, _ := unstructured.NestedInt64(b.get("apps/v1", "Deployment", "web").Object, "spec", "replicas"); got != 2 {
		t.Errorf("handing replicas over set them to %d", got)
	}
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`))
	if err := b.hand.Patch(t.Context(), b.get("apps/v1", "Deployment", "web"), scale, client.FieldOwner("hpa")); err != nil {
		t.Fatal(err)
	}
	b.converged(declared)
	if claim := b.claim("apps/v1", "Deployment", "web"); strings.Contains(claim, "f:replicas") {
		t.Errorf("replicas are owned beside the autoscaler: %s", claim)
	}
	b.restart()
	b.converged(declared)
	if n := countOf(b.wire.take(), "DRYRUN", "deployments"); n > 0 {
		t.Errorf("%d dry runs of what is recorded", n)
	}
	// An autoscaler that is only live counts too.
	c := newBench(t)
	c.make(hpa, "kubectl-create")
	p := c.plan(c.declare(web))
	if spec := p.Changes[0].After.Object["spec"].(map[string]any); spec["replicas"] != nil {
		t.Errorf("replicas %v are sent although an autoscaler is live", spec["replicas"])
	}
}

func TestClaimingAValueThatIsAlreadyThereIsShown(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(web))
	explicit := b.declare(strings.Replace(web, "replicas: 2", "replicas: 2\n  revisionHistoryLimit: 10", 1))
	p := b.plan(explicit)
	want := []string{
		"update Deployment.apps/$NS/web",
		"  metadata.managedFields: not yet owned by Poolwright: spec.revisionHistoryLimit -> <nil>",
	}
	if d := cmp.Diff(want, b.lines(p)); d != "" {
		t.Fatal(d)
	}
	b.apply(p)
	b.converged(explicit)
}

func TestWhatHasAppearedSinceIsNotOverwritten(t *testing.T) {
	b := newBench(t)
	p := b.plan(b.declare(config))
	b.make(strings.Replace(config, `a: "1"`, `a: "theirs"`, 1), "kubectl-create")
	errs := b.apply(p)
	for _, err := range errs {
		if !errors.Is(err, targets.ErrChanged) {
			t.Errorf("%v is not ErrChanged", err)
		}
	}
	if len(errs) != 1 {
		t.Fatalf("errors: %v", errs)
	}
	b.reconcile(b.declare(config))
}

func TestADeletionPlannedForOneIncarnationSparesTheNext(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(config, secret))
	p := b.plan(b.declare(secret))
	if err := b.hand.Delete(t.Context(), b.get("v1", "ConfigMap", "settings")); err != nil {
		t.Fatal(err)
	}
	b.make(config, "kubectl-create")
	errs := b.apply(p)
	for _, err := range errs {
		if !errors.Is(err, targets.ErrChanged) {
			t.Errorf("%v is not ErrChanged", err)
		}
	}
	if len(errs) != 1 {
		t.Fatalf("errors: %v", errs)
	}
	b.get("v1", "ConfigMap", "settings")
	// It is somebody else's now.
	b.converged(b.declare(secret))
}

func TestADeletionGoesOnBesideUnrelatedEditsAndRespectsTheAnnotationToKeep(t *testing.T) {
	b := newBench(t)
	b.reconcile(b.declare(web, config))
	p := b.plan(b.declare(config))
	b.editStatus("apps/v1", "Deployment", "web", func(u *unstructured.Unstructured) { set(u.Object, int64(7), "status", "replicas") })
	for k, err := range b.apply(p) {
		t.Errorf("%s: %v", k, err)
	}
	p = b.plan(b.declare())
	b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { set(o, "disabled", "metadata", "annotations", "poolwright.dev/prune") })
	for _, err := range b.apply(p) {
		if !errors.Is(err, targets.ErrChanged) {
			t.Errorf("%v is not ErrChanged", err)
		}
	}
	b.get("v1", "ConfigMap", "settings")
}

// Who hands an object to Flux or Argo CD between the plan and the deletion keeps it.
func TestADeletionSparesWhatAnotherControllerHasTakenOver(t *testing.T) {
	for name, take := range map[string]func(*bench, map[string]any){
		"a Flux Kustomization": func(_ *bench, o map[string]any) {
			set(o, "apps", "metadata", "labels", "kustomize.toolkit.fluxcd.io/name")
			set(o, "flux-system", "metadata", "labels", "kustomize.toolkit.fluxcd.io/namespace")
		},
		"an Argo CD application": func(b *bench, o map[string]any) {
			set(o, "shop:/ConfigMap:"+b.ns+"/settings", "metadata", "annotations", "argocd.argoproj.io/tracking-id")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile(b.declare(web, config))
			p := b.plan(b.declare(web))
			if len(p.Changes) != 1 || p.Changes[0].Action != plan.Delete {
				t.Fatalf("planned %s", show(p))
			}
			b.edit("v1", "ConfigMap", "settings", func(o map[string]any) { take(b, o) })
			errs := b.apply(p)
			for _, err := range errs {
				if !errors.Is(err, targets.ErrChanged) {
					t.Errorf("%v is not ErrChanged", err)
				}
			}
			if len(errs) != 1 {
				t.Errorf("errors: %v", errs)
			}
			if b.get("v1", "ConfigMap", "settings").GetDeletionTimestamp() != nil {
				t.Error("it is deleted")
			}
		})
	}
}
