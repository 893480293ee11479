package preview

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// TestMain registers the kinds.
func TestMain(m *testing.M) {
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// branches makes a repository of three commits, each of which adds files: where main and
// topic parted, and one on each.
func branches(t *testing.T, mergeBase, base, head map[string]string) gitsource.Comparison {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	commit := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		git("add", "-A")
		git("commit", "-q", "-m", "change")
	}
	git("init", "-q", "-b", "main")
	commit(mergeBase)
	git("checkout", "-q", "-b", "topic")
	commit(head)
	git("checkout", "-q", "main")
	commit(base)
	local, err := gogit.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	between, err := local.Compare(t.Context(), "main", "topic")
	if err != nil {
		t.Fatal(err)
	}
	return between
}

func configMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\ndata: {v: " + value + "}\n"
}

func TestAMergeOfTwoSidesFilesIsRenderedAsGitMakesIt(t *testing.T) {
	const list = "resources: [a.yaml, b.yaml]\n"
	plain := map[string]string{"p/kustomization.yaml": list, "p/a.yaml": configMap("a", "one"), "p/b.yaml": configMap("b", "one")}
	for name, tt := range map[string]struct {
		base, head map[string]string
		changes    []string
		after      string // what a becomes, among other things
		guards     []string
		problems   int
	}{
		"each side its own file, without a warning": {
			map[string]string{"p/a.yaml": configMap("a", "base")}, map[string]string{"p/b.yaml": configMap("b", "head")},
			[]string{"update b"}, "", nil, 0,
		},
		"a kustomization that reaches what the other side changed": {
			map[string]string{"p/a.yaml": configMap("a", "base")}, map[string]string{"p/kustomization.yaml": list + "namePrefix: x-\n"},
			[]string{"create x-a", "create x-b", "delete a", "delete b"}, "base", nil, 0,
		},
		"a file that both changed has a warning": {
			map[string]string{"p/a.yaml": configMap("a", "base")}, map[string]string{"p/a.yaml": configMap("a", "one") + "# a remark\n", "p/b.yaml": configMap("b", "head")},
			[]string{"update b"}, "", []string{"merge"}, 0,
		},
		"what each side declares for itself is declared twice": {
			map[string]string{"p/a.yaml": configMap("a", "one") + "---\n" + configMap("c", "same")}, map[string]string{"p/b.yaml": configMap("b", "one") + "---\n" + configMap("c", "same")},
			nil, "", []string{"lint"}, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			between := branches(t, plain, tt.base, tt.head)
			p := steps{}.proposer()
			p.Renderer = inProcess{}
			out, _, err := p.Preview(t.Context(), RevisionRange{Comparison: between, BaseName: "main", Path: "p", Sync: &v1alpha1.Sync{Spec: v1alpha1.SyncSpec{Prune: new(true)}}})
			if err != nil {
				t.Fatal(err)
			}
			var guards []string
			for _, g := range out.GuardResults {
				if g.Result != "ok" && !strings.HasPrefix(g.Rule, "guard.") {
					guards = append(guards, g.Rule)
				}
			}
			if diff := cmp.Diff(tt.guards, guards); diff != "" {
				t.Errorf("guards (-want +got):\n%s\n%+v", diff, out.GuardResults)
			}
			if diff := cmp.Diff(append([]string{}, tt.changes...), changeLines(out)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if len(out.Problems) != tt.problems {
				t.Errorf("problems: %+v", out.Problems)
			}
			var text strings.Builder
			if err := out.JSON(&text); err != nil || !strings.Contains(text.String(), tt.after) {
				t.Errorf("%v, nothing of %q: %s", err, tt.after, text.String())
			}
		})
	}
}
