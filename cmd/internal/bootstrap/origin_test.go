package bootstrap

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestWhatIsNotCommittedIsNamed(t *testing.T) {
	dir, repo := clone(t, "https://git.example.com/team/nodes.git", true)
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("clusters/dev/committed.yaml", "a: 1")
	write("clusters/dev/changed.yaml", "a: 1")
	write(".gitignore", "*.log\n")
	tree, err := repo.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.AddWithOptions(&git.AddOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Commit("Add", &git.CommitOptions{Author: &object.Signature{Name: "a", Email: "a@example.com", When: time.Unix(0, 0)}}); err != nil {
		t.Fatal(err)
	}
	if got, err := uncommitted(dir, "clusters/dev"); len(got) > 0 || err != nil {
		t.Errorf("all is committed: %v, %v", got, err)
	}
	write("clusters/dev/changed.yaml", "a: 22")
	write("clusters/dev/new.yaml", "a: 1")
	write("clusters/dev/some.log", "ignored")
	write("clusters/development.yaml", "elsewhere")
	got, err := uncommitted(dir, "clusters/dev")
	if d := cmp.Diff([]string{"clusters/dev/changed.yaml", "clusters/dev/new.yaml"}, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if got, err := uncommitted(dir, "."); len(got) != 3 || err != nil {
		t.Errorf("of the root: %v, %v", got, err)
	}
	if got, err := uncommitted(t.TempDir(), "."); got != nil || err != nil {
		t.Errorf("without Git: %v, %v", got, err)
	}
}

func TestASyncWaitsForItsSecret(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: "git"}}
	for name, c := range map[string]struct {
		named string
		has   []client.Object
		waits bool
	}{
		"it needs none":  {},
		"it is missing":  {named: "git", waits: true},
		"it is there":    {named: "git", has: []client.Object{secret}},
		"not that other": {named: "token", has: []client.Object{secret}, waits: true},
	} {
		var secrets []string
		if c.named != "" {
			secrets = referenced(v1alpha1.GitSource{SecretRef: &v1alpha1.SecretRef{Name: c.named}, ProxySecretRef: &v1alpha1.SecretRef{Name: c.named}})
		}
		b := &Bootstrap{req: Request{Namespace: "gpu", Sync: SyncRequest{Secret: c.named, secrets: secrets}}, direct: reconcilertest.InstalledClient(t, c.has...)}
		if got := b.WaitsFor(t.Context()); (got != "") != c.waits {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAWorktreesCopyIsReadToo(t *testing.T) {
	dir, _ := clone(t, "https://git.example.com/team/nodes.git", true)
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, err := readUpstream(dir)
	if d := cmp.Diff(upstream{address: "https://git.example.com/team/nodes.git", branch: "trunk"}, got, cmp.AllowUnexported(upstream{})); d != "" || err != nil {
		t.Error(d, err)
	}
}
