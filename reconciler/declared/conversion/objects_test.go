package conversion_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/declared/manifest"
	"github.com/poolwright/poolwright/reconciler/state"
)

// written are the objects of files as they are written: declared.Load converts them.
func written(fsys fstest.MapFS) (state.Set, error) {
	tree := manifest.NewTree(fsys, manifest.Limits{})
	var items []state.Item
	for _, name := range slices.Sorted(maps.Keys(fsys)) {
		docs, problems, err := tree.Parse(name, fsys[name].Data)
		if err != nil || len(problems) > 0 {
			return state.Set{}, fmt.Errorf("%v %w", problems, err)
		}
		for _, doc := range docs {
			objects, problems := doc.Objects()
			if len(problems) > 0 {
				return state.Set{}, fmt.Errorf("%v", problems)
			}
			for _, o := range objects {
				item, err := o.Checked()
				if err != nil {
					return state.Set{}, err
				}
				items = append(items, item)
			}
		}
	}
	return state.NewSet(items...), nil
}

func load(t *testing.T, fsys fstest.MapFS) []state.Item {
	t.Helper()
	set, err := written(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return set.Items()
}

func contents(items []state.Item) map[string]any {
	out := map[string]any{}
	for _, i := range items {
		out[i.Key.String()+" "+i.Version] = i.Object
	}
	return out
}

// What the loop makes of a repository as it is written, and what it makes of the
// files that convert writes, are the same.
func TestObjectsAndFilesComeToTheSame(t *testing.T) {
	folders, err := filepath.Glob("testdata/*/in")
	if err != nil || len(folders) == 0 {
		t.Fatal(err, folders)
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			before := fstest.MapFS{}
			if err := fstestCopy(before, folder); err != nil {
				t.Fatal(err)
			}
			agree(t, before)
		})
	}
}

func fstestCopy(to fstest.MapFS, folder string) error {
	return filepath.WalkDir(folder, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		rel, relErr := filepath.Rel(folder, name)
		if relErr != nil {
			return relErr
		}
		to[filepath.ToSlash(rel)] = &fstest.MapFile{Data: content}
		return err
	})
}

func agree(t *testing.T, before fstest.MapFS) {
	t.Helper()
	r := converter(t, before, conversion.Options{})
	items, changes, problems, err := conversion.Objects(load(t, before), conversion.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Blocked() != (len(problems) > 0) {
		t.Errorf("files: %s\nobjects: %v", report(r), problems)
	}
	if r.Blocked() {
		return
	}
	if diff := cmp.Diff(contents(load(t, after(before, r))), contents(items)); diff != "" {
		t.Errorf("(-files +objects):\n%s", diff)
	}
	// Objects know no lines of fields, so that equal changes of one are one.
	reported := func(changes []conversion.Change) map[string]bool {
		out := map[string]bool{}
		for _, c := range changes {
			if !strings.Contains(c.Text, "formatted anew") && !strings.Contains(c.Text, "aliases") {
				out[c.Grade.String()+" "+c.Object+" "+c.Text] = true
			}
		}
		return out
	}
	if diff := cmp.Diff(reported(r.Changes), reported(changes)); diff != "" {
		t.Errorf("changes (-files +objects):\n%s", diff)
	}
	again, _, problems, err := conversion.Objects(items, conversion.Options{})
	if err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	if diff := cmp.Diff(contents(items), contents(again)); diff != "" {
		t.Errorf("a second conversion changes objects (-first +second):\n%s", diff)
	}
}

func TestWhatTheLoopCannotConvertIsAProblemAndLeftOut(t *testing.T) {
	was := load(t, repo("a.yaml", template+alphaRest+"  launchTemplate: x\n---\n"+oldPool+oldRef+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"))
	items, changes, problems, err := conversion.Objects(was, conversion.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 1 || problems[0].Origin != (state.Origin{File: "a.yaml", Line: 1}) || !strings.HasPrefix(problems[0].Message, "AWSNodeTemplate/c: Karpenter v1 takes no launch templates") {
		t.Errorf("problems %v", problems)
	}
	var kinds []string
	for _, i := range items {
		kinds = append(kinds, i.Key.Kind+" "+i.Version+" "+i.Origin.String())
	}
	slices.Sort(kinds)
	if diff := cmp.Diff([]string{"ConfigMap v1 a.yaml:16", "NodePool v1 a.yaml:10"}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range changes {
		if c.Blocks {
			t.Errorf("a problem is among the changes: %s", c)
		}
	}
}

func TestItemsThatNeedNothingAreHandedThrough(t *testing.T) {
	before := load(t, repo("a.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 5, x: 1.5, y: null, z: [], template: {}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"))
	items, changes, problems, err := conversion.Objects(before, conversion.Options{})
	if err != nil || len(changes) > 0 || len(problems) > 0 {
		t.Fatal(changes, problems, err)
	}
	for i := range before {
		before[i].Object["seen"] = true
		if items[i].Object["seen"] != true {
			t.Errorf("%s was copied", items[i].Key)
		}
	}
}

func TestObjectsAreNotChangedInPlace(t *testing.T) {
	before := load(t, repo("a.yaml", oldPool+oldRef+"  labels: {karpenter.sh/provisioner-name: p}\n"))
	was := maps.Clone(contents(before))
	if _, _, _, err := conversion.Objects(before, conversion.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(was, contents(load(t, repo("a.yaml", oldPool+oldRef+"  labels: {karpenter.sh/provisioner-name: p}\n")))); diff != "" {
		t.Errorf("(-was +is):\n%s", diff)
	}
}

func TestTheLoopReportsWhatItsClusterRefuses(t *testing.T) {
	was := load(t, repo("a.yaml", "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec: {amiSelectorTerms: [{alias: al2@latest}]}\n---\napiVersion: poolwright.dev/v1alpha1\nkind: Cluster\nmetadata: {name: dev}\nspec: {version: \"1.33\"}\n"))
	_, changes, problems, err := conversion.Objects(was, conversion.Options{})
	if err != nil || len(problems) > 0 || len(changes) != 1 || changes[0].Grade != conversion.Manual || !strings.Contains(changes[0].Text, "alias al2@latest is refused at Kubernetes 1.33") {
		t.Error(changes, problems, err)
	}
}

func BenchmarkObjectsOfARepositoryThatNeedsNothing(b *testing.B) {
	var items []state.Item
	for i := range 2000 {
		items = append(items, state.Item{
			Key:    state.Key{Target: "kubernetes", Group: "apps", Kind: "Deployment", Namespace: "x", Name: fmt.Sprint(i)},
			Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{"karpenter.sh/nodepool": "gpu"}, "containers": []any{map[string]any{"name": "a", "image": "b", "args": []any{"c", "d", "e"}}}}}}},
		})
	}
	for b.Loop() {
		if _, changes, _, err := conversion.Objects(items, conversion.Options{}); err != nil || len(changes) > 0 {
			b.Fatal(changes, err)
		}
	}
}

func TestASmallRepositoryDoesNotGrowWithoutEnd(t *testing.T) {
	var tags, pools strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&tags, "    t%d: x\n", i)
	}
	for i := range 200 {
		pools.WriteString("---\n" + strings.Replace(betaPool, "{name: p}", fmt.Sprintf("{name: p%d}", i), 1) + fmt.Sprintf("  template: {spec: {nodeClassRef: {name: c}, kubelet: {maxPods: %d}}}\n", i+1))
	}
	for name, c := range map[string]struct{ text, want string }{
		"copies of a large class": {betaClass + "  amiFamily: AL2\n" + betaRest + "  tags:\n" + tags.String() + pools.String(), "the copies hold more than 500000 values already; let pools share"},
		"terms with many tags": {
			strings.Replace(betaClass, "spec:\n", "spec:\n  amiFamily: AL2\n  role: r\n  securityGroupSelectorTerms: [{id: sg-1}]\n  subnetSelectorTerms:\n  - tags:\n", 1) + strings.ReplaceAll("      a: 1,2,3\n"+tags.String(), "    t", "      t"),
			"spec.subnetSelectorTerms has more than 20 tags",
		},
	} {
		t.Run(name, func(t *testing.T) {
			items, _, problems, err := conversion.Objects(load(t, repo("a.yaml", c.text)), conversion.Options{})
			if err != nil || len(problems) == 0 || !strings.Contains(problems[0].Message, c.want) {
				t.Errorf("%d items, %.300v, %v", len(items), problems, err)
			}
		})
	}
}
