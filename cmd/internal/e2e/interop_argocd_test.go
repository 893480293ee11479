package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// declaresSync writes the Sync into the folder sync, which Argo CD applies.
func (a *argoCD) declaresSync() {
	a.Helper()
	sync := a.spelled(a.name, every("1h"))
	sync.APIVersion, sync.Kind = v1alpha1.GroupVersion.String(), "Sync"
	raw, err := yaml.Marshal(sync)
	if err != nil {
		a.Fatal(err)
	}
	a.repo.write("sync/sync.yaml", string(raw))
}

// kindIsServed waits until the controller has brought the kind Sync.
func (a *argoCD) kindIsServed() {
	a.Helper()
	a.eventually("the kind Sync is served", func() error { return a.hand.List(a.Context(), &v1alpha1.SyncList{}) })
}

// shippingArgoCD is an Argo CD whose Application has applied the Sync, of a folder with a NodePool and ConfigMaps. The Application has the
// name of the Sync: Argo CD takes what bears the name of an Application, in any namespace, for a part of it.
func shippingArgoCD(t *testing.T, name string, maps ...string) (*argoCD, *unstructured.Unstructured) {
	t.Helper()
	skipWithoutInterop(t)
	a := newArgoCD(newSyncFixture(t, name))
	a.declare("v1", maps...)
	a.repo.write("config/pool.yaml", interopPool(name, 100))
	a.repo.write("config/class.yaml", interopClass(name))
	a.declaresSync()
	a.repo.commit("Begin")
	a.credentials(a.token)
	a.git.down()
	a.start()
	a.kindIsServed()
	app := a.application(name, "sync", nil, automated())
	a.becomes(app, "Synced", "Progressing") // Git is away for the Sync.
	a.git.up()
	a.becomes(app, "Synced", "Healthy")
	a.limited(name, 100)
	return a, app
}

// The health of an Application is that of its Sync, as the scripts of config/argocd compute it in the real
// application-controller, and the actions of its menu have the effect of our commands.
func TestInteropArgoCDShowsAndRunsTheSyncThatItApplies(t *testing.T) {
	t.Parallel()
	leaving, staying := names("leaving", 11), names("staying", 4)
	a, app := shippingArgoCD(t, "interop-argocd", append(leaving, staying...)...)
	before := a.sync().Status.LastHandledReconcileAt
	a.repo.write("config/broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: }\n")
	a.repo.commit("Break it")
	a.mustRun(app, "reconcile", nil)
	a.becomes(app, "Synced", "Degraded")
	if now := a.sync().Status.LastHandledReconcileAt; now == before || now == "" {
		t.Errorf("the action reconcile was handled as %q, after %q", now, before)
	}

	// The control: without our script, a Sync that is stalled makes no Application unhealthy.
	const script = "resource.customizations.health.poolwright.dev_Sync"
	a.configure(map[string]any{script: nil})
	a.comparedBecomes(app, "Synced", "Healthy")
	if !conditions.IsStalled(a.sync()) {
		t.Error("the Sync is not stalled any more")
	}
	a.configure(map[string]any{script: a.customizations("", "confirm")[script]})
	a.comparedBecomes(app, "Synced", "Degraded")
	a.repo.remove("config/broken.yaml")
	a.repo.commit("Mend it")
	a.mustRun(app, "reconcile", nil)
	a.becomes(app, "Synced", "Healthy")

	a.actsAsTheCommands(app)
	for _, name := range leaving {
		a.repo.remove("config/" + name + ".yaml")
	}
	a.repo.commit("Remove eleven")
	a.mustRun(app, "reconcile", nil)
	message := a.waitForNotReady("PruneHeld")
	a.becomes(app, "Synced", "Degraded")
	if err := a.action(app, "confirm", map[string]string{"token": "0123456789ab"}); err == nil || !strings.Contains(err.Error(), "another token") {
		t.Errorf("a wrong token: %v", err)
	}
	if n := len(a.census()); n != len(leaving)+len(staying) {
		t.Errorf("after a wrong token %d objects are left", n)
	}
	a.mustRun(app, "confirm", map[string]string{"token": a.tokenIn(message)})
	a.becomes(app, "Synced", "Healthy")
	if n := len(a.census()); n != len(staying) {
		t.Errorf("%d objects are left, want %d", n, len(staying))
	}
}

// actsAsTheCommands suspends and resumes the Sync by the actions, which write what the commands write.
func (a *argoCD) actsAsTheCommands(app *unstructured.Unstructured) {
	a.Helper()
	reason := map[string]string{"reason": "EKS is upgraded"}
	suspended := a.effect(func() { a.mustRun(app, "suspend", reason) })
	// Nor does Argo CD put spec.suspend back, which Git does not declare.
	a.becomes(app, "Synced", "Suspended")
	a.refresh(app, "normal")
	a.becomes(app, "Synced", "Suspended")
	if err := a.action(app, "reconcile", nil); err == nil || !strings.Contains(err.Error(), "the Sync is suspended; resume it") {
		a.Errorf("the action reconcile of a suspended Sync: %v", err)
	}
	resumed := a.effect(func() { a.mustRun(app, "resume", nil) })
	a.becomes(app, "Synced", "Healthy")
	for name, one := range map[string]struct {
		action marks
		args   []string
	}{"suspend": {suspended, []string{"--reason=" + reason["reason"]}}, "resume": {resumed, nil}} {
		if name == "resume" {
			a.expect(a.command("suspend", a.name, "--reason=again"), 0)
		}
		command := a.effect(func() { a.expect(a.command(append([]string{name, a.name}, one.args...)...), 0) })
		if diff := cmp.Diff(command, one.action, cmp.AllowUnexported(marks{})); diff != "" {
			a.Errorf("%s (-command +action):\n%s", name, diff)
		}
		a.expect(a.command("resume", a.name), 0)
	}
}

// marks are what a command or an action writes to a Sync: spec.suspend, and annotations of which the requested run has no time.
type marks struct {
	suspend     bool
	annotations map[string]string
	requested   bool
}

// effect is what a Sync has after something was done. That Argo CD applied it stays out.
func (a *argoCD) effect(do func()) marks {
	a.Helper()
	before := a.sync().Annotations[fluxmeta.ReconcileRequestAnnotation]
	do()
	sync := a.sync()
	out := marks{suspend: sync.Spec.Suspend, annotations: maps.Clone(sync.Annotations)}
	out.requested = out.annotations[fluxmeta.ReconcileRequestAnnotation] != before
	maps.DeleteFunc(out.annotations, func(name, _ string) bool {
		return name == fluxmeta.ReconcileRequestAnnotation || strings.HasPrefix(name, "argocd.argoproj.io/") || strings.HasPrefix(name, "kubectl.kubernetes.io/")
	})
	return out
}

// The chart that repo-server renders by helm is applied once, and nothing of it differs afterwards, by either way of comparing.
func TestInteropTheChartByArgoCDStaysSynced(t *testing.T) {
	t.Parallel()
	skipWithoutInterop(t)
	a := newArgoCD(newSyncFixture(t, "interop-argocd-chart"))
	if err := os.CopyFS(filepath.Join(a.repo.dir, "chart"), os.DirFS("../../../config/chart/poolwright")); err != nil {
		t.Fatal(err)
	}
	a.repo.commit("Begin")
	a.start() // For the test's end, which reads its log.
	app := a.application("poolwright", "chart", map[string]any{"helm": map[string]any{"releaseName": "poolwright", "skipCrds": true}},
		map[string]any{"automated": map[string]any{"prune": true}, "retry": map[string]any{"limit": int64(5)}})
	a.becomes(app, "Synced", "")
	kinds := map[string]int{}
	for _, r := range a.state(app).Status.Resources {
		kinds[r.Kind]++
	}
	if kinds["Deployment"] != 1 || kinds["ClusterRole"] == 0 || kinds["CustomResourceDefinition"] > 0 {
		t.Errorf("the chart has %v", kinds)
	}
	for _, options := range []string{"", "ServerSideDiff=true"} {
		if err := a.hand.Patch(t.Context(), app.DeepCopy(), mergePatch(fmt.Sprintf(`{"metadata":{"annotations":{"argocd.argoproj.io/compare-options":%q}}}`, options))); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			a.refresh(app, "hard")
			if now := a.state(app); now.Status.Sync.Status != "Synced" {
				t.Fatalf("with the options %q: %+v", options, now.Status)
			}
		}
	}
	// The control: what was changed by hand differs.
	deployment := &unstructured.Unstructured{}
	deployment.SetAPIVersion("apps/v1")
	deployment.SetKind("Deployment")
	deployment.SetNamespace(a.system)
	deployment.SetName("poolwright")
	if err := a.hand.Patch(t.Context(), deployment, mergePatch(`{"spec":{"replicas":1}}`)); err != nil {
		t.Fatal(err)
	}
	a.becomes(app, "OutOfSync", "")
}
