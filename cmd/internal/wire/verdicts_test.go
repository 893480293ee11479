package wire

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/state"
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
		load     func(*verdicts) reconciler.Loader
		admitted []string
		problems int
	}{
		"the controller leaves pools to the API server": {func(v *verdicts) reconciler.Loader {
			return (&attempt{renders: &renders{}, children: newChildren()}).loader(".", &variables.Current{}, v)
		}, []string{"NodePool.karpenter.sh/p"}, 0},
		"a plan judges everything": {func(v *verdicts) reconciler.Loader {
			return v.listening(func(ctx context.Context, _ gitsource.Snapshot) (declared.Declared, error) { return load(ctx, dir) })
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			said := &verdicts{}
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
			for _, item := range admit(d.Set, said.of).Items() {
				got = append(got, item.Key.String())
			}
			if diff := cmp.Diff(c.admitted, got); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			eks, _ := d.Set.Get(state.Key{Target: "cluster", Group: "poolwright.dev", Kind: "Cluster", Name: "a"})
			if of := said.of(eks); len(of) != 1 || of[0].Origin.Line != 9 {
				t.Errorf("of the Cluster it says %v", of)
			}
		})
	}
}

// What a child refuses of each side is what the worlds are told when they are asked about it,
// also of a side that is merged.
func TestTheClustersOfAStepAreRefusedSideBySide(t *testing.T) {
	cluster := func(retention string) state.Item {
		return state.Item{Key: state.Key{Target: "cluster", Group: "poolwright.dev", Kind: "Cluster", Name: "a"}, Version: "v1alpha1",
			Object: map[string]any{"spec": map[string]any{"retention": retention}}}
	}
	refusing := func(item state.Item, message string) checked.Folder {
		l := loaded(item)
		if message != "" {
			l.Clusters = map[state.Key][]state.Problem{item.Key: {{Message: message}}}
		}
		return l
	}
	for name, c := range map[string]struct {
		parted, base, head checked.Folder
		want               []string
	}{
		"the head brings it":  {refusing(cluster("1h"), ""), refusing(cluster("1h"), ""), refusing(cluster("5s"), "head"), []string{"", "head"}},
		"the head mends it":   {refusing(cluster("5s"), "old"), refusing(cluster("5s"), "old"), refusing(cluster("1h"), ""), []string{"old", ""}},
		"the base brought it": {refusing(cluster("1h"), ""), refusing(cluster("5s"), "base"), refusing(cluster("1h"), ""), []string{"base", "base"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := steps{parted: c.parted, base: c.base, head: c.head}.proposer()
			asked := &refusals{said: p.said}
			p.worlds = []reconciler.World{{Name: "aws", Target: asked}}
			sync := &v1alpha1.Sync{}
			sync.Spec.Prune = new(true)
			if _, err := p.tell(t.Context(), proposal{Comparison: between(), base: "main", path: "p", sync: sync}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, asked.got); diff != "" {
				t.Errorf("the worlds were told (-want +got):\n%s", diff)
			}
		})
	}
}

// refusals is a world that asks what is refused of the Cluster it is given.
type refusals struct {
	stillWorld
	said *verdicts
	got  []string
}

func (r *refusals) Want(_ context.Context, declared state.Set) (state.Set, error) {
	for _, item := range declared.Items() {
		message := ""
		for _, o := range r.said.of(item) {
			message += o.Message
		}
		r.got = append(r.got, message)
	}
	return declared, nil
}

func TestOfSeveralClustersNoneIsAdmitted(t *testing.T) {
	pass := func(state.Item) []state.Problem { return nil }
	declares := func(name string) state.Item {
		return state.Item{
			Key:     state.Key{Target: "cluster", Group: "poolwright.dev", Kind: "Cluster", Name: name},
			Version: "v1alpha1", Object: map[string]any{"spec": map[string]any{}}, Origin: state.Origin{File: name + ".yaml", Line: 1},
		}
	}
	if got := admit(state.NewSet(declares("a")), pass).Len(); got != 1 {
		t.Errorf("of one, %d", got)
	}
	if got := admit(state.NewSet(declares("a"), declares("b")), pass).Len(); got != 0 {
		t.Errorf("of two, %d", got)
	}
}
