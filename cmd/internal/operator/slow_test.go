package operator

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// slowFolder keeps every limit and takes some five seconds of processor time: each patch
// is tried on each object.
func slowFolder() fstest.MapFS {
	var objects, patches strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&objects, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {", i)
		for n := range 60 {
			fmt.Fprintf(&objects, "k%d: '', ", n)
		}
		objects.WriteString("z: ''}\n")
	}
	for range 450 {
		patches.WriteString("- {target: {kind: ConfigMap}, patch: '[{op: add, path: /data/b, value: b}]'}\n")
	}
	return fstest.MapFS{
		"x/kustomization.yaml": {Data: []byte("resources: [b.yaml]\npatches:\n" + patches.String())},
		"x/b.yaml":             {Data: []byte(objects.String())},
	}
}

// TestASlowFolderEndsByItselfAndBlamesNoOther has two Syncs follow folders that take
// longer than the limit, and a third, whose folder is in order, come after them.
func TestASlowFolderEndsByItselfAndBlamesNoOther(t *testing.T) {
	const cpu = time.Second
	r, slots := &rendercache.Cache{}, child.NewSemaphore()
	in := &child.Runner{Semaphore: slots, Limits: child.Limits{CPU: cpu}}
	var slow []chan loadResult
	for i := range 2 {
		slow = append(slow, requesting(t.Context(), r, in, gitsource.Snapshot{TreeID: fmt.Sprint("slow", i), FS: slowFolder()}))
	}
	begin := time.Now()
	l, err := r.Load(t.Context(), in, at("quick", oneMap), "x", substitute.Values{})
	if err != nil || l.Set.Len() != 1 {
		t.Fatalf("the folder in order: %d objects, %v", l.Set.Len(), err)
	}
	t.Logf("the folder in order was rendered after %s", time.Since(begin).Round(time.Millisecond))
	for _, c := range slow {
		got := <-c
		if class, reason, _ := state.Classify(got.err); class != state.Stalled || reason != "LimitExceeded" {
			t.Errorf("a slow folder: %s %s, %v", class, reason, got.err)
		}
	}
}

// TestABombOnAFollowedBranchEndsOnlyItsChild is about a tree that no limit by name holds:
// what it takes is the child's, and the controller stays as it was.
func TestABombOnAFollowedBranchEndsOnlyItsChild(t *testing.T) {
	files := fstest.MapFS{}
	for d := range 10 {
		files[fmt.Sprintf("x/%d.yaml", d)] = &fstest.MapFile{Data: []byte(fmt.Sprintf(
			"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w%d}\nspec: {x: [%s]}\n", d, strings.TrimSuffix(strings.Repeat("{a: 0},", 60_000), ",")))}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	a := &app{renders: &rendercache.Cache{}, children: children{followed: &child.Runner{Semaphore: child.NewSemaphore(), Limits: child.Limits{Memory: 256 << 20}}}}
	load := a.loader(a.children.followed, "x", &variables.Current{}, &validation.Errors{})
	var total runtime.MemStats
	runtime.ReadMemStats(&total)
	allocated := total.TotalAlloc
	_, err := load(t.Context(), gitsource.Snapshot{TreeID: "t", FS: files})
	runtime.ReadMemStats(&total)
	if class, reason, _ := state.Classify(err); class != state.Stalled || reason != "LimitExceeded" {
		t.Errorf("%s %s: %v", class, reason, err)
	}
	grew, allocated := heap()-before, total.TotalAlloc-allocated
	t.Logf("the controller's heap: %d KiB more, %d MiB allocated: %v", grew>>10, allocated>>20, err)
	if grew > 4<<20 || allocated > 64<<20 {
		t.Errorf("the controller's heap: %d MiB more, %d MiB allocated", grew>>20, allocated>>20)
	}
}
