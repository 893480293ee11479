package child

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
)

// inKustomizations is a tree of n objects, 20 to a file, in kustomizations of 200.
func inKustomizations(n int) fstest.MapFS {
	files := fstest.MapFS{}
	for at := 0; at < n; at += 200 {
		names := []string{}
		for file := at; file < at+200; file += 20 {
			names = append(names, fmt.Sprintf("f%d.yaml", file))
			files[fmt.Sprintf("x/u%d/f%d.yaml", at, file)] = manifestsOf(file, "v1")
		}
		files[fmt.Sprintf("x/u%d/kustomization.yaml", at)] = &fstest.MapFile{
			Data: []byte("labels:\n- pairs: {team: infra}\nresources: [" + strings.Join(names, ", ") + "]\n")}
	}
	return files
}

func manifestsOf(first int, value string) *fstest.MapFile {
	var text strings.Builder
	for i := first; i < first+20; i++ {
		text.WriteString(manifestOf(i, value))
	}
	return &fstest.MapFile{Data: []byte(text.String())}
}

func manifestOf(i int, value string) string {
	meta := fmt.Sprintf("metadata: {name: o%d, namespace: default, labels: {app.kubernetes.io/name: o%d}}\n", i, i)
	switch {
	case i%20 < 14:
		return "---\napiVersion: v1\nkind: ConfigMap\n" + meta + fmt.Sprintf("data: {a: \"%d\", b: %s, c: more}\n", i, value)
	case i%20 < 16:
		return "---\napiVersion: apps/v1\nkind: Deployment\n" + meta + "spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: 'r/i:1', ports: [{containerPort: 80}]}]}}}\n"
	case i%20 < 18:
		return "---\napiVersion: v1\nkind: ServiceAccount\n" + meta
	}
	return "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n" + meta + "rules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"
}

// BenchmarkOneChange compares what a change of one object takes with what all of them took, in a
// child and in this process.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{200, 2000, 10_000} {
		b.Run(fmt.Sprintf("objects=%d", n), func(b *testing.B) {
			files := inKustomizations(n)
			r := &Runner{Limits: Limits{Output: 32 << 20, Decoded: 192 << 20}, Builds: (&buildcache.Cache{}).Folder("f")}
			var first, change usage
			for i := 0; b.Loop(); i++ {
				r.Builds = (&buildcache.Cache{}).Folder("f")
				first.add(b, r, files, n)
				files["x/u0/f0.yaml"] = manifestsOf(0, fmt.Sprint("changed", i))
				change.add(b, r, files, n)
			}
			for name, u := range map[string]usage{"first": first, "change": change} {
				b.ReportMetric(float64(u.wall.Milliseconds())/float64(b.N), "ms-"+name)
				b.ReportMetric(float64(u.child.Milliseconds())/float64(b.N), "cpu-ms-child-"+name)
				b.ReportMetric(float64(u.own.Milliseconds())/float64(b.N), "cpu-ms-parent-"+name)
			}
		})
	}
}

// usage is what a load took.
type usage struct{ wall, own, child time.Duration }

func (u *usage) add(b *testing.B, r *Runner, files fstest.MapFS, n int) {
	b.Helper()
	began, own, child := time.Now(), processorTime(b, syscall.RUSAGE_SELF), processorTime(b, syscall.RUSAGE_CHILDREN)
	if l, err := r.Load(b.Context(), files, "x", substitute.Values{}); err != nil || l.Set.Len() != n {
		b.Fatal(l.Set.Len(), l.Problems, err)
	}
	u.wall += time.Since(began)
	u.own += processorTime(b, syscall.RUSAGE_SELF) - own
	u.child += processorTime(b, syscall.RUSAGE_CHILDREN) - child
}

func processorTime(b *testing.B, of int) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(of, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
