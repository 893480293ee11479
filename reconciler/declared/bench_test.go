package declared

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// many is a tree of n ConfigMaps, twenty to a file, plain or as a
// kustomization.
func many(n int, kustomize bool) fstest.MapFS {
	fsys := fstest.MapFS{}
	var names []string
	for at := 0; at < n; at += 20 {
		var b strings.Builder
		for i := at; i < min(at+20, n); i++ {
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: o%d\n  namespace: default\n  labels: {app.kubernetes.io/name: o%d}\ndata:\n  key: value-%d\n  text: |\n    some lines\n    of text\n", i, i, i)
		}
		name := fmt.Sprintf("f%d.yaml", at)
		names = append(names, name)
		fsys["x/"+name] = &fstest.MapFile{Data: []byte(b.String())}
	}
	if kustomize {
		fsys["x/kustomization.yaml"] = &fstest.MapFile{Data: []byte("labels:\n- pairs: {team: infra}\nresources: [" + strings.Join(names, ", ") + "]\n")}
	}
	return fsys
}

func BenchmarkLoad(b *testing.B) {
	for _, kustomize := range []bool{false, true} {
		for _, n := range []int{200, 2000} {
			b.Run(fmt.Sprintf("kustomize=%v/objects=%d", kustomize, n), func(b *testing.B) {
				fsys := many(n, kustomize)
				b.ReportAllocs()
				for b.Loop() {
					if d, err := Load(fsys, "x", Options{}); err != nil || d.Set.Len() != n {
						b.Fatal(d.Set.Len(), err)
					}
				}
			})
		}
	}
}

// TestLoadingCostsWhatIsDeclared holds a floor under the cost of plain
// manifests, counted in memory because seconds depend on the machine: ten times
// the objects may take at most twelve times as much.
func TestLoadingCostsWhatIsDeclared(t *testing.T) {
	measure := func(n int) uint64 {
		fsys := many(n, false)
		return allocations(func() {
			if d, err := Load(fsys, "x", Options{}); err != nil || d.Set.Len() != n {
				t.Fatal(d.Set.Len(), err)
			}
		})
	}
	measure(100)
	if small, large := measure(200), measure(2000); large > 12*small {
		t.Errorf("200 objects take %d KiB, 2,000 take %d KiB", small>>10, large>>10)
	}
}
