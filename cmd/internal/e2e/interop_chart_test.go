package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// The real helm-controller installs the chart from a registry, by the example of docs/howto/beside-flux-or-argocd.md. Nothing of it differs from
// the chart afterwards, and what is changed by hand is put back. A Sync follows an artifact of the same registry.
func TestInteropTheChartByFluxStaysAsItIs(t *testing.T) {
	t.Parallel()
	skipWithoutInterop(t)
	config := sandbox.DefaultConfig()
	config.WithoutGit = true // The chart's ClusterRoles have one name, and Argo CD applies it in the shared environment.
	f := newFluxOn(newSyncFixtureIn(newFixture(t, sandboxtest.Start(t, config)), "interop-chart", "flux-system"))
	// A controller that is no pod brings the kinds, and reconciles the Sync of this test.
	p, err := f.Environment.Run(f.name+"-controller", binary, "run", "--namespace="+f.system, "--cache-dir="+t.TempDir(), "--metrics-addr=0", "--health-addr=0")
	if err != nil {
		t.Fatal(err)
	}
	f.now = &controller{Process: p}
	f.applier = f.program("helm-controller")
	registry := f.startRegistry()
	f.pushes(registry, "../../../config/chart/poolwright", "0.1.0") // The version that the example names.
	release := f.appliesTheExample("oci://" + registry + "/charts/poolwright")
	f.helmReleased(release)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "poolwright", Namespace: "poolwright-system"}}
	live := func() *appsv1.Deployment {
		t.Helper()
		out := deployment.DeepCopy()
		if err := f.hand.Get(t.Context(), client.ObjectKeyFromObject(out), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := live()
	for range 5 {
		f.reconcile(release)
		f.helmReleased(release)
	}
	if now := live(); now.Generation != before.Generation || now.UID != before.UID {
		t.Errorf("the Deployment was changed: generation %d, and was %d", now.Generation, before.Generation)
	}
	if got := f.driftsOf(release); len(got) > 0 {
		t.Errorf("the chart differs from what is live: %v", got)
	}

	// The control: what is changed by hand differs, and is put back.
	if err := f.hand.Patch(t.Context(), deployment.DeepCopy(), mergePatch(`{"spec":{"replicas":1}}`)); err != nil {
		t.Fatal(err)
	}
	f.reconcile(release)
	f.eventually("helm-controller puts the replicas back", func() error {
		if got := *live().Spec.Replicas; got != *before.Spec.Replicas {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
	f.eventually("helm-controller reports the drift", func() error {
		if len(f.driftsOf(release)) == 0 {
			return errors.New("it does not")
		}
		return nil
	})

	f.followsAnArtifact(registry)
}

// startRegistry starts a registry of OCI artifacts, and returns its address.
func (f *flux) startRegistry() string {
	f.Helper()
	address := freeAddress(f.T)
	p, err := f.Environment.Run(f.name+"-registry", filepath.Join(f.folder, "registry"), "--port="+port(address))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = p.Kill() })
	return "localhost:" + port(address)
}

// pushes packages a chart as a release does, and pushes it to a registry.
func (f *flux) pushes(registry, folder, version string) {
	f.Helper()
	helm, packages := filepath.Join(f.folder, "argocd", "helm"), f.TempDir()
	if out, err := exec.CommandContext(f.Context(), helm, "package", folder, "--version="+version, "--destination="+packages).CombinedOutput(); err != nil {
		f.Fatalf("%v: %s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(packages, "*.tgz"))
	if err != nil || len(archives) != 1 {
		f.Fatal(archives, err)
	}
	f.eventually("the chart is pushed", func() error {
		if out, err := exec.CommandContext(f.Context(), helm, "push", "--plain-http", archives[0], "oci://"+registry+"/charts").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
}

// followsAnArtifact has a Sync follow an OCIRepository, whose artifact has the folder config of the repository, and another version of it.
func (f *flux) followsAnArtifact(registry string) {
	f.Helper()
	folder := f.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("apiVersion: v2\nname: nodes\nversion: 0.1.0\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	push := func(version, value string) {
		f.Helper()
		f.declare(value, "a")
		if err := os.RemoveAll(filepath.Join(folder, "config")); err != nil {
			f.Fatal(err)
		}
		if err := os.CopyFS(filepath.Join(folder, "config"), os.DirFS(filepath.Join(f.repo.dir, "config"))); err != nil {
			f.Fatal(err)
		}
		f.pushes(registry, folder, version)
	}
	push("0.1.0", "v1")
	repository := f.object("source.toolkit.fluxcd.io/v1", "OCIRepository", "nodes", map[string]any{
		"interval": "1h", "url": "oci://" + registry + "/charts/nodes", "insecure": true, "ref": map[string]any{"semver": ">=0.1.0"},
		"layerSelector": map[string]any{"mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "operation": "extract"},
	})
	if err := f.hand.Create(f.Context(), repository.DeepCopy()); err != nil {
		f.Fatal(err)
	}
	f.syncNamed(f.name, every("1h"), func(sync *v1alpha1.Sync) {
		sync.Spec.Source, sync.Spec.Path = v1alpha1.Source{}, "nodes/config"
		sync.Spec.SourceRef = &v1alpha1.CrossNamespaceSourceReference{Kind: "OCIRepository", Name: "nodes"}
	})
	f.holds("a", "v1")
	first := f.artifact(repository)
	f.applied(first)
	push("0.2.0", "v2")
	f.reconcile(repository)
	f.holds("a", "v2")
	second := f.artifact(repository)
	f.applied(second)
	if first == second || !strings.HasPrefix(second, "0.2.0@sha256:") {
		f.Errorf("the revisions are %q and %q", first, second)
	}
}

// appliesTheExample creates the objects of config/flux/examples/helmrelease.yaml, with another registry.
func (f *flux) appliesTheExample(url string) *unstructured.Unstructured {
	f.Helper()
	raw, err := os.ReadFile("../../../config/flux/examples/helmrelease.yaml")
	if err != nil {
		f.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(raw), "\n---\n") {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
			f.Fatal(err)
		}
		all = append(all, o)
	}
	source, release := all[0].Object["spec"].(map[string]any), all[1]
	source["url"], source["insecure"] = url, true
	for _, o := range all {
		if err := f.hand.Create(f.Context(), o.DeepCopy()); err != nil {
			f.Fatal(err)
		}
	}
	return release
}

// helmReleased waits until the chart is installed, by the only revision of the release.
func (f *flux) helmReleased(release *unstructured.Unstructured) {
	f.Helper()
	f.eventually("the HelmRelease is ready", func() error {
		now := f.liveObject(release)
		history, _, _ := unstructured.NestedSlice(now.Object, "status", "history")
		all, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		for _, c := range all {
			if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == "True" && len(history) == 1 {
				return nil
			}
		}
		return fmt.Errorf("history %v, conditions %v", history, all)
	})
}

// driftsOf are the events in which helm-controller reports that what is live differs from the chart.
func (f *flux) driftsOf(release *unstructured.Unstructured) (out []string) {
	f.Helper()
	var events corev1.EventList
	if err := f.hand.List(f.Context(), &events, client.InNamespace(release.GetNamespace())); err != nil {
		f.Fatal(err)
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Name == release.GetName() && strings.HasPrefix(e.Reason, "Drift") {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}
