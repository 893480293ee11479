package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/resmap"
)

// The docs have the resource https://github.com/poolwright/poolwright//config/default?ref=v0.1.0, of which
// kustomize clones the repository by itself. It must need nothing but what is in the clone.
func TestTheDefaultInstallationIsReachedByARemoteReference(t *testing.T) {
	repository := released(t)
	remote := overlaid(t, "resources: [\"file://"+repository+"//config/default?ref=v0.1.0\"]\nimages: [{name: poolwright, newName: registry.example.com/poolwright, newTag: v0.1.0}]\n")
	local := build(t)
	if remote.Size() != local.Size() || local.Size() < 20 {
		t.Errorf("%d objects, and %d without the reference", remote.Size(), local.Size())
	}
	for i, object := range local.Resources() {
		want, got := object.MustYaml(), remote.Resources()[i].MustYaml()
		if object.GetKind() == "Deployment" {
			want = strings.Replace(want, "image: poolwright:dev\n", "image: registry.example.com/poolwright:v0.1.0\n", 1)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-local +remote):\n%s", object.GetKind(), object.GetName(), diff)
		}
	}
}

// docs/howto/monitoring.md has both.
func TestMonitoringAndItsComponentAreReachedByRemoteReferences(t *testing.T) {
	repository := released(t)
	remote := overlaid(t, "resources: [\"file://"+repository+"//config/monitoring?ref=v0.1.0\"]\ncomponents: [\"file://"+repository+"//config/monitoring/karpenter-job?ref=v0.1.0\"]\nlabels: [{pairs: {release: prometheus}}]\n")
	for _, object := range remote.Resources() {
		if object.GetLabels()["release"] != "prometheus" || object.GetNamespace() != "poolwright-system" {
			t.Errorf("%s %s is in %s with %v", object.GetKind(), object.GetName(), object.GetNamespace(), object.GetLabels())
		}
		if object.GetKind() == "ServiceMonitor" && !strings.Contains(object.MustYaml(), "replacement: karpenter") {
			t.Errorf("the job is not changed:\n%s", object.MustYaml())
		}
	}
	if remote.Size() != 2+len(dashboards(t)) {
		t.Errorf("there are %d objects", remote.Size())
	}
}

// released is a repository with this folder at the tag v0.1.0, and without it since.
func released(t *testing.T) string {
	t.Helper()
	repository := t.TempDir()
	if err := os.CopyFS(filepath.Join(repository, "config"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=main"},
		{"add", "."},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=Release"},
		{"tag", "v0.1.0"},
		{"rm", "-r", "--quiet", "config"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message=Go on"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repository
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return repository
}

// overlaid renders a kustomization with this content.
func overlaid(t *testing.T, content string) resmap.ResMap {
	t.Helper()
	overlay := t.TempDir()
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return kustomized(t, overlay)
}
