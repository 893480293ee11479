package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The docs have the resource https://github.com/poolwright/poolwright//config/default?ref=v0.1.0, of which
// kustomize clones the repository by itself. It must need nothing but what is in the clone.
func TestTheDefaultInstallationIsReachedByARemoteReference(t *testing.T) {
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
	overlay := t.TempDir()
	content := "resources: [\"file://" + repository + "//config/default?ref=v0.1.0\"]\nimages: [{name: poolwright, newName: registry.example.com/poolwright, newTag: v0.1.0}]\n"
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	remote, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		t.Fatal(err)
	}
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
