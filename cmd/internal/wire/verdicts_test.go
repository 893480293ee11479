package wire

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// folder writes files, given as name, content, name, content …
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func clusterYAML(name, spec string) string {
	return "apiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec:\n  name: dev\n  region: eu-west-1\n  account: \"111122223333\"\n" + spec
}

func TestLintFindsWhatAWSWouldBeAskedInVain(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  []string
	}{
		"nothing": {[]string{"a.yaml", clusterYAML("a", "  interruptionQueue: {}\n")}, nil},
		"a tag that only AWS may set": {
			[]string{"a.yaml", clusterYAML("a", "  tags: {\"aws:foo\": bar}\n  interruptionQueue: {}\n")},
			[]string{"a.yaml:", "spec.tags", "aws:foo"},
		},
		"a second Cluster": {
			[]string{"a.yaml", clusterYAML("a", ""), "b.yaml", clusterYAML("b", "")},
			[]string{"b.yaml:1", "there is another Cluster", "a.yaml:1"},
		},
		"sizes out of order": {
			[]string{"a.yaml", clusterYAML("a", "  systemNodeGroups: [{name: s, minSize: 5, maxSize: 3}]\n")},
			[]string{"a.yaml:", "minSize 5 above maxSize 3"},
		},
		"a value that the schema refuses, in its line": {
			[]string{"a.yaml", clusterYAML("a", "  interruptionQueue:\n    retention: 5s\n")},
			[]string{"a.yaml:9", "retention must be between 1m and 336h"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			linted, err := Lint(t.Context(), folder(t, c.files...), variables.Input{})
			if err != nil {
				t.Fatal(err)
			}
			found := linted.Mistakes
			if (len(found) > 0) != (len(c.want) > 0) {
				t.Fatalf("findings: %v", found)
			}
			for _, word := range c.want {
				if !strings.Contains(found[0].String(), word) {
					t.Errorf("%q lacks %q", found[0], word)
				}
			}
		})
	}
}

func TestAClusterIsJudgedBeforeItsValuesReachAnyWorld(t *testing.T) {
	dir := folder(t, "a.yaml", clusterYAML("a", "  interruptionQueue:\n    retention: 5s\n"),
		"b.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 0}\n")
	for name, c := range map[string]struct {
		load     func(*admission.Refusals) reconciler.Loader
		admitted []string
		problems int
	}{
		"the controller leaves pools to the API server": {func(v *admission.Refusals) reconciler.Loader {
			return (&attempt{renders: &rendercache.Cache{}, children: newChildren()}).loader(".", &variables.Current{}, v)
		}, []string{"NodePool.karpenter.sh/p"}, 0},
		"a plan judges everything": {func(v *admission.Refusals) reconciler.Loader {
			return withSchemas(v, func(ctx context.Context, _ gitsource.Snapshot) (declared.Declared, error) { return load(ctx, dir) })
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			said := &admission.Refusals{}
			d, err := c.load(said)(t.Context(), gitsource.Snapshot{FS: os.DirFS(dir)})
			if err != nil {
				t.Fatal(err)
			}
			if d.Activate != nil {
				d.Activate()
			}
			if len(d.Problems) < c.problems || c.problems == 0 && len(d.Problems) > 0 {
				t.Errorf("problems of others than the Cluster: %v", d.Problems)
			}
			var got []string
			set, err := said.Want(t.Context(), kubernetes.Offline("dev"), crds.Live(t.Context(), nil), d.Set)
			if _, refused := errors.AsType[*targets.ProblemsError](err); err != nil && !refused {
				t.Fatal(err)
			}
			for _, item := range set.Items() {
				got = append(got, item.Key.String())
			}
			if diff := cmp.Diff(c.admitted, got); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			eks, _ := d.Set.Get(state.Key{Target: "cluster", Group: "poolwright.dev", Kind: "Cluster", Name: "a"})
			if of := said.Of(eks); len(of) != 1 || of[0].Origin.Line != 9 {
				t.Errorf("of the Cluster it says %v", of)
			}
		})
	}
}
