package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/variables"
)

const oneMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// at is a tree with one manifest in the folder x.
func at(tree, content string) gitsource.Snapshot {
	return gitsource.Snapshot{TreeID: tree, FS: fstest.MapFS{"x/a.yaml": &fstest.MapFile{Data: []byte(content)}}}
}

func TestATreeThatDidNotChangeIsNotRenderedAgain(t *testing.T) {
	r, in := &renders{}, &child.Runner{Semaphore: child.NewSemaphore()}
	nothing := func(tree string) gitsource.Snapshot { return gitsource.Snapshot{TreeID: tree, FS: fstest.MapFS{}} }
	load := func(s gitsource.Snapshot, folder string) (checked.Folder, error) {
		return r.load(t.Context(), in, s, folder, substitute.Values{})
	}
	first, err := load(at("t1", oneMap), "x")
	if err != nil || first.Set.Len() != 1 {
		t.Fatal(first.Set.Len(), err)
	}
	again, err := load(nothing("t1"), "x")
	if diff := cmp.Diff(first.Set.Items(), again.Set.Items()); err != nil || diff != "" {
		t.Errorf("the same tree was rendered again: %v\n%s", err, diff)
	}
	if other, err := load(at("t2", oneMap+"---\n"+strings.ReplaceAll(oneMap, "name: a", "name: b")), "x"); err != nil || other.Set.Len() != 2 {
		t.Error("another tree gave", other.Set.Len(), err)
	}
	if _, err := load(at("t2", oneMap), "gone"); err == nil {
		t.Error("another folder of the tree gave the first")
	}
	if _, err := load(gitsource.Snapshot{TreeID: "t2"}, "gone"); err == nil {
		t.Error("the error of a missing folder was forgotten")
	}
	if _, err := load(gitsource.Snapshot{TreeID: "t3", FS: faulty{}}, "x"); err == nil {
		t.Fatal("a broken source was read")
	}
	if d, err := load(at("t3", oneMap), "x"); err != nil || d.Set.Len() != 1 {
		t.Error("an error that passes was remembered: ", err)
	}
}

func TestTreesAreRememberedWithTheValuesOfTheirVariables(t *testing.T) {
	r, in := &renders{}, &child.Runner{Semaphore: child.NewSemaphore()}
	load := func(count string) string {
		values, err := substitute.NewValues(fluxexpr.Parse, nil, substitute.Plain("spec.substitute", map[string]string{"count": count}))
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.load(t.Context(), in, at("t", oneMap+"data: {count: 'n${count}'}\n"), "x", values)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(l.Set.Items()[0].Object["data"])
	}
	if first, second, again := load("1"), load("2"), load("1"); first == second || first != again {
		t.Errorf("%s\n%s\n%s", first, second, again)
	}
}

// faulty is a source that cannot be read.
type faulty struct{}

func (faulty) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("input/output error")}
}

// blockingFS is a source of which each read waits for the test.
type blockingFS struct {
	fstest.MapFS
	asked, release chan struct{}
}

func newBlockingFS() blockingFS {
	return blockingFS{at("", oneMap).FS.(fstest.MapFS), make(chan struct{}, 8), make(chan struct{})}
}

func (s blockingFS) ReadFile(name string) ([]byte, error) {
	s.asked <- struct{}{}
	<-s.release
	return s.MapFS.ReadFile(name)
}

type answer struct {
	loaded checked.Folder
	err    error
}

// asking loads in the background.
func asking(ctx context.Context, r *renders, in *child.Runner, s gitsource.Snapshot) chan answer {
	out := make(chan answer, 1)
	go func() {
		loaded, err := r.load(ctx, in, s, "x", substitute.Values{})
		out <- answer{loaded, err}
	}()
	return out
}

func TestASlowTreeIsRenderedOnceAndNoOtherWaitsForIt(t *testing.T) {
	slots := child.NewSemaphore()
	r, in := &renders{}, &child.Runner{Semaphore: slots}
	slow := newBlockingFS()
	first := asking(t.Context(), r, in, gitsource.Snapshot{TreeID: "slow", FS: slow})
	<-slow.asked
	second := asking(t.Context(), r, in, gitsource.Snapshot{TreeID: "slow", FS: faulty{}})
	// Another tree is rendered, and one that is remembered is found.
	for range 2 {
		if l, err := r.load(t.Context(), in, at("quick", oneMap), "x", substitute.Values{}); err != nil || l.Set.Len() != 1 {
			t.Fatalf("another tree: %d objects, %v", l.Set.Len(), err)
		}
	}
	close(slow.release)
	for _, c := range []chan answer{first, second} {
		if got := <-c; got.err != nil || got.loaded.Set.Len() != 1 {
			t.Errorf("%d objects, %v", got.loaded.Set.Len(), got.err)
		}
	}
}

func TestAFollowedBranchDoesNotWaitForTheSameTreeAsAProposal(t *testing.T) {
	slots := child.NewSemaphore()
	r := &renders{}
	slow := newBlockingFS()
	ctx, cancel := context.WithCancel(t.Context())
	proposed := asking(ctx, r, &child.Runner{Semaphore: slots, Proposal: true}, gitsource.Snapshot{TreeID: "t", FS: slow})
	<-slow.asked
	if l, err := r.load(t.Context(), &child.Runner{Semaphore: slots}, at("t", oneMap), "x", substitute.Values{}); err != nil || l.Set.Len() != 1 {
		t.Errorf("the followed branch: %d objects, %v", l.Set.Len(), err)
	}
	cancel()
	close(slow.release)
	<-proposed
}

func TestWhoWaitsForAnotherIsNotFailedByWhatBefallsThat(t *testing.T) {
	r, in := &renders{}, &child.Runner{Semaphore: child.NewSemaphore()}
	slow := newBlockingFS()
	ctx, cancel := context.WithCancel(t.Context())
	first := asking(ctx, r, in, gitsource.Snapshot{TreeID: "t", FS: slow})
	<-slow.asked
	second := asking(t.Context(), r, in, at("t", oneMap))
	cancel()
	close(slow.release)
	if got := <-first; got.err == nil {
		t.Error("the first was rendered though its context had ended")
	}
	if got := <-second; got.err != nil || got.loaded.Set.Len() != 1 {
		t.Errorf("the second: %d objects, %v", got.loaded.Set.Len(), got.err)
	}
}

// hostileResult is a large answer of a child, and no other's.
func hostileResult(salt int) child.Rendered {
	return written(checked.Folder{Set: state.NewSet(state.Item{
		Key:    state.Key{Target: "cluster", Kind: "ConfigMap", Name: fmt.Sprint(salt)},
		Object: map[string]any{"data": map[string]any{"a": strings.Repeat("x", 1600<<10)}},
	})})
}

func TestAThousandHostileProposalsLeaveTheMemoryAsItWas(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const most = 32 << 20 // of the 64 MiB that all that pull requests leave may take
	for name, c := range map[string]struct {
		proposals int
		budget    int64
		within    bool
	}{
		"within the budget": {1000, 0, true},
		"a hundred without a budget, which this test would find": {100, 1 << 40, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &renders{budget: c.budget}
			before := heap()
			for i := range c.proposals {
				e := rendered{asked: folderAt{tree: fmt.Sprint(i), path: "x"}}
				if i%2 == 0 {
					e.out = hostileResult(i)
				} else {
					e.err = state.Failf(state.Fix, "LimitExceeded", "%s", strings.Repeat("x", 10_000))
				}
				doing, mine := r.begin(task{folderAt: e.asked})
				if !mine {
					t.Fatal("another rendered it")
				}
				doing.rendered = e
				r.end(task{folderAt: e.asked}, doing)
			}
			grew := int64(heap()) - int64(before)
			t.Logf("%d proposals: %d MiB more, %d are remembered", c.proposals, grew>>20, len(r.kept))
			if (grew <= most) != c.within {
				t.Errorf("the heap grew by %d MiB", grew>>20)
			}
			runtime.KeepAlive(r)
		})
	}
}

func TestTheBudgetForgetsTheOldestFirst(t *testing.T) {
	entry := func(tree string) rendered { return rendered{asked: folderAt{tree: tree}} }
	r := &renders{budget: 3*entryBytes + 100}
	for _, tree := range []string{"a", "b", "c"} {
		r.keep(entry(tree))
	}
	if _, ok := r.find(folderAt{tree: "a"}); !ok {
		t.Fatal("one of three is gone")
	}
	r.keep(entry("d"))
	var got []string
	for _, k := range r.kept {
		got = append(got, k.asked.tree)
	}
	if diff := cmp.Diff([]string{"c", "a", "d"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAChildThatCannotBeStartedIsForAnotherTry(t *testing.T) {
	a := &attempt{renders: &renders{}, children: children{followed: &child.Runner{Path: "/nowhere/at/all", Semaphore: child.NewSemaphore()}}}
	load := a.loader("x", &variables.Current{}, &verdicts{})
	_, err := load(t.Context(), at("t", oneMap))
	if class, _, _ := state.Classify(err); class != state.Retry {
		t.Fatalf("%s: %v", class, err)
	}
	a.children.followed = &child.Runner{Semaphore: child.NewSemaphore()}
	if d, err := load(t.Context(), at("t", oneMap)); err != nil || d.Set.Len() != 1 {
		t.Errorf("once it can be: %d objects, %v", d.Set.Len(), err)
	}
}

func TestAFollowedClusterIsJudgedByItsSchemaInTheChild(t *testing.T) {
	a := &attempt{renders: &renders{}, children: children{followed: &child.Runner{Semaphore: child.NewSemaphore()}}}
	said := &verdicts{}
	load := a.loader("x", &variables.Current{}, said)
	for range 2 { // rendered, and remembered
		d, err := load(t.Context(), at("t", clusterYAML("a", "  interruptionQueue:\n    retention: 5s\n")))
		if err != nil || len(d.Problems) > 0 {
			t.Fatal(d.Problems, err)
		}
		eks, _ := d.Set.Get(state.Key{Target: "cluster", Group: "poolwright.dev", Kind: "Cluster", Name: "a"})
		d.Activate()
		if found := said.of(eks); len(found) != 1 || found[0].Origin.Line != 9 {
			t.Errorf("of the Cluster it says %v", found)
		}
		said.set(nil, nil)
	}
}

func TestWhyAProposalCannotBeRenderedSaysNothingOfAFollowedBranch(t *testing.T) {
	r, slots := &renders{}, child.NewSemaphore()
	narrow := &child.Runner{Semaphore: slots, Proposal: true, Limits: child.Limits{Decoded: 1}}
	for range 2 {
		_, err := r.load(t.Context(), narrow, at("t", oneMap), "x", substitute.Values{})
		if _, reason, _ := state.Classify(err); reason != "LimitExceeded" {
			t.Fatalf("the proposal: %v", err)
		}
	}
	for _, in := range []*child.Runner{{Semaphore: slots}, narrow} {
		// What was rendered once is remembered for both.
		if l, err := r.load(t.Context(), in, at("t", oneMap), "x", substitute.Values{}); err != nil || l.Set.Len() != 1 {
			t.Errorf("%d objects, %v", l.Set.Len(), err)
		}
	}
	if len(r.kept) != 1 {
		t.Errorf("%d are remembered of one tree", len(r.kept))
	}
}

// bomb is a tree whose reading panics.
type bomb struct{}

func (bomb) Open(string) (fs.File, error) {
	panic("a decoder's fault")
}

// Those who wait for the same folder are not left waiting, and nobody's process ends.
func TestAPanicWhileAFolderIsRenderedIsAnError(t *testing.T) {
	r, in := &renders{}, &child.Runner{Semaphore: child.NewSemaphore()}
	for range 3 {
		_, err := r.load(t.Context(), in, gitsource.Snapshot{TreeID: "t", FS: bomb{}}, "x", substitute.Values{})
		if _, ok := errors.AsType[*apply.PanicError](err); !ok {
			t.Fatalf("got %v", err)
		}
	}
	if d, err := r.load(t.Context(), in, at("t", oneMap), "x", substitute.Values{}); err != nil || d.Set.Len() != 1 {
		t.Error("it was remembered:", err)
	}
}
