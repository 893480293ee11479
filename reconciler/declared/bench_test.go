package declared

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"
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

// BenchmarkOneKustomization compares what an object takes in a large kustomization and in a small
// one: rendered as a whole, each of 10,000 takes thirty times as long as each of 200.
func BenchmarkOneKustomization(b *testing.B) {
	const small = 200
	for _, n := range []int{2000, 10_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			few, all := many(small, true), many(n, true)
			load := func(fsys fstest.MapFS, n int) time.Duration {
				begin := time.Now()
				if d, err := Load(fsys, "x", Options{}); err != nil || d.Set.Len() != n {
					b.Fatal(d.Set.Len(), err)
				}
				return time.Since(begin)
			}
			var ofFew, ofAll time.Duration
			for b.Loop() {
				for range n / small {
					ofFew += load(few, small)
				}
				ofAll += load(all, n)
			}
			b.ReportMetric(float64(ofAll)/float64(ofFew), "x-of-small")
			b.ReportMetric(float64(ofAll.Milliseconds())/float64(b.N), "ms-of-all")
		})
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
