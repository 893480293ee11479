package declared

import (
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/reconciler/state"
)

// tree builds a file system from names and contents.
func tree(files ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i+1 < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1]), Mode: 0o644}
	}
	return m
}

const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: gpu
spec:
  weight: 10
  limits: {cpu: "100"}
`

func load(t *testing.T, fs fstest.MapFS, folder string) Declared {
	t.Helper()
	d, err := Load(fs, folder, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func origins(d Declared) map[string]string {
	out := map[string]string{}
	for _, i := range d.Set.Items() {
		out[i.Key.String()] = i.Origin.String()
	}
	return out
}

func TestKustomizationWithABaseElsewhereInTheRepository(t *testing.T) {
	d := load(t, tree(
		"base/kustomization.yaml", "resources: [pools.yaml]\nconfigMapGenerator:\n- name: settings\n  literals: [a=b]\n",
		"base/pools.yaml", "# first comes a comment\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: other\n---\n"+pool,
		"clusters/dev/kustomization.yaml", "namePrefix: dev-\nresources:\n- ../../base\npatches:\n- path: ../../patch.yaml\n",
		"patch.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec: {weight: 20}\n",
	), "clusters/dev")
	if len(d.Problems) > 0 {
		t.Fatal(d.Problems)
	}
	for key, origin := range origins(d) {
		t.Log(key, origin)
	}
	i, ok := d.Set.Get(state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "dev-gpu"})
	if !ok || i.Origin.String() != "base/pools.yaml:8" {
		t.Fatalf("%v %+v", ok, i)
	}
	if w := i.Object["spec"].(map[string]any)["weight"]; w != int64(20) {
		t.Fatalf("weight %T %v", w, w)
	}
	if _, has := i.Object["metadata"].(map[string]any)["annotations"]; has {
		t.Error("the origin annotation is left behind")
	}
}

func TestAFileThatIsIncludedTwiceIsReported(t *testing.T) {
	base := []string{"x/base/kustomization.yaml", "resources: [../pools/pool.yaml]\n"}
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"by two kustomizations": {
			append([]string{"x/pools/kustomization.yaml", "resources: [pool.yaml]\n", "x/pools/pool.yaml", pool}, base...),
			"x/pools/pool.yaml:1: NodePool.karpenter.sh/gpu is declared twice, once by x/base/kustomization.yaml and once by x/pools/kustomization.yaml, which both include this file; choose the folder of one of them instead",
		},
		"by a kustomization and as it is": {
			append([]string{"x/pools/pool.yaml", pool}, base...),
			"x/pools/pool.yaml:1: NodePool.karpenter.sh/gpu is declared twice, once by the file itself and once by x/base/kustomization.yaml, which includes it; choose the folder of that kustomization instead",
		},
		"not at all, in a list in one line": {
			[]string{"x/a.yaml", `{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Node, metadata: {name: one}}, {apiVersion: v1, kind: Node, metadata: {name: one}}]}`},
			"x/a.yaml:1: Node/one is declared twice, first in x/a.yaml:1; remove one",
		},
	} {
		if _, got := problemsOf(tree(c.files...), "x", Options{}); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestTheRootIsNotCalledADot(t *testing.T) {
	for folder, want := range map[string]string{
		".":   "stalled NoManifests: the folder declares no object; put manifests or a kustomization.yaml into it, or correct the path",
		"sub": `stalled NoManifests: folder "sub" declares no object; put manifests or a kustomization.yaml into it, or correct the path`,
	} {
		if _, got := problemsOf(tree("sub/README.md", "x"), folder, Options{}); !strings.EqualFold(got, want) {
			t.Errorf("%s: %s", folder, got)
		}
	}
}

func allocations(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
