package rendercache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
)

const oneMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// worker renders in this process, and checks nothing against schemas.
type worker struct {
	proposal bool
	// limit refuses everything.
	limit bool
}

func (w worker) Render(ctx context.Context, files fs.FS, folder string, values substitute.Values) ([]byte, error) {
	if w.limit {
		return nil, state.Failf(state.Stalled, "LimitExceeded", "it is too much")
	}
	out, err := checked.Load(files, folder, values, nil, checked.Standards{
		CRDs:  func(func(string) bool) ([]*apiextensionsv1.CustomResourceDefinition, error) { return nil, nil },
		Types: catalog.Load,
	})
	if err != nil {
		return nil, err
	}
	return encoded(out), context.Cause(ctx)
}

func (w worker) Proposal() bool { return w.proposal }

// encoded is a folder's set as JSON.
func encoded(f checked.Folder) []byte {
	raw, err := json.Marshal(f.Set.Items())
	if err != nil {
		panic(err)
	}
	return raw
}

func (worker) Decode(encoded []byte) (checked.Folder, error) {
	var items []state.Item
	err := json.Unmarshal(encoded, &items)
	return checked.Folder{Declared: declared.Declared{Set: state.NewSet(items...)}}, err
}

// at is a tree with one manifest in the folder x.
func at(tree, content string) gitsource.Snapshot {
	return gitsource.Snapshot{TreeID: tree, FS: fstest.MapFS{"x/a.yaml": &fstest.MapFile{Data: []byte(content)}}}
}

func TestATreeThatDidNotChangeIsNotRenderedAgain(t *testing.T) {
	r, in := &Cache{}, worker{}
	nothing := func(tree string) gitsource.Snapshot { return gitsource.Snapshot{TreeID: tree, FS: fstest.MapFS{}} }
	load := func(s gitsource.Snapshot, folder string) (checked.Folder, error) {
		return r.Load(t.Context(), in, s, folder, substitute.Values{})
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

func TestTreesAreCachedWithTheValuesOfTheirVariables(t *testing.T) {
	r, in := &Cache{}, worker{}
	load := func(count string) string {
		values, err := substitute.NewValues(fluxexpr.Parse, nil, substitute.Public("spec.substitute", map[string]string{"count": count}))
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.Load(t.Context(), in, at("t", oneMap+"data: {count: 'n${count}'}\n"), "x", values)
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
	requested, release chan struct{}
}

func newBlockingFS() blockingFS {
	return blockingFS{at("", oneMap).FS.(fstest.MapFS), make(chan struct{}, 8), make(chan struct{})}
}

func (s blockingFS) ReadFile(name string) ([]byte, error) {
	s.requested <- struct{}{}
	<-s.release
	return s.MapFS.ReadFile(name)
}

type loadResult struct {
	loaded checked.Folder
	err    error
}

// requesting loads in the background.
func requesting(ctx context.Context, r *Cache, in Renderer, s gitsource.Snapshot) chan loadResult {
	out := make(chan loadResult, 1)
	go func() {
		loaded, err := r.Load(ctx, in, s, "x", substitute.Values{})
		out <- loadResult{loaded, err}
	}()
	return out
}

func TestASlowTreeIsRenderedOnceAndNoOtherWaitsForIt(t *testing.T) {
	r, in := &Cache{}, worker{}
	slow := newBlockingFS()
	first := requesting(t.Context(), r, in, gitsource.Snapshot{TreeID: "slow", FS: slow})
	<-slow.requested
	second := requesting(t.Context(), r, in, gitsource.Snapshot{TreeID: "slow", FS: faulty{}})
	// Another tree is rendered, and one that is remembered is found.
	for range 2 {
		if l, err := r.Load(t.Context(), in, at("quick", oneMap), "x", substitute.Values{}); err != nil || l.Set.Len() != 1 {
			t.Fatalf("another tree: %d objects, %v", l.Set.Len(), err)
		}
	}
	close(slow.release)
	for _, c := range []chan loadResult{first, second} {
		if got := <-c; got.err != nil || got.loaded.Set.Len() != 1 {
			t.Errorf("%d objects, %v", got.loaded.Set.Len(), got.err)
		}
	}
}

func TestAFollowedBranchDoesNotWaitForTheSameTreeAsAProposal(t *testing.T) {
	r := &Cache{}
	slow := newBlockingFS()
	ctx, cancel := context.WithCancel(t.Context())
	proposed := requesting(ctx, r, worker{proposal: true}, gitsource.Snapshot{TreeID: "t", FS: slow})
	<-slow.requested
	if l, err := r.Load(t.Context(), worker{}, at("t", oneMap), "x", substitute.Values{}); err != nil || l.Set.Len() != 1 {
		t.Errorf("the followed branch: %d objects, %v", l.Set.Len(), err)
	}
	cancel()
	close(slow.release)
	<-proposed
}

func TestWhoWaitsForAnotherIsNotFailedByWhatBefallsThat(t *testing.T) {
	r, in := &Cache{}, worker{}
	slow := newBlockingFS()
	ctx, cancel := context.WithCancel(t.Context())
	first := requesting(ctx, r, in, gitsource.Snapshot{TreeID: "t", FS: slow})
	<-slow.requested
	second := requesting(t.Context(), r, in, at("t", oneMap))
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
func hostileResult(salt int) []byte {
	return encoded(checked.Folder{Declared: declared.Declared{Set: state.NewSet(state.Item{
		Key:    state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: fmt.Sprint(salt)},
		Object: map[string]any{"data": map[string]any{"a": strings.Repeat("x", 1600<<10)}},
	})}})
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
			r := &Cache{budget: c.budget}
			before := heap()
			for i := range c.proposals {
				e := entry{task: task{entryKey: entryKey{tree: fmt.Sprint(i), path: "x"}}}
				if i%2 == 0 {
					e.encoded = hostileResult(i)
				} else {
					e.err = state.Failf(state.Stalled, "LimitExceeded", "%s", strings.Repeat("x", 10_000))
				}
				doing, mine := r.begin(e.task)
				if !mine {
					t.Fatal("another rendered it")
				}
				doing.entry = e
				r.end(e.task, doing)
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

func TestTheBudgetEvictsTheOldestFirst(t *testing.T) {
	entry := func(tree string) entry { return entry{task: task{entryKey: entryKey{tree: tree}}} }
	r := &Cache{budget: 3*entryBytes + 100}
	for _, tree := range []string{"a", "b", "c"} {
		r.keep(entry(tree))
	}
	if _, ok := r.find(entryKey{tree: "a"}); !ok {
		t.Fatal("one of three is gone")
	}
	r.keep(entry("d"))
	var got []string
	for _, k := range r.kept {
		got = append(got, k.tree)
	}
	if diff := cmp.Diff([]string{"c", "a", "d"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheFailureOfAProposalsRenderingIsNotTheFollowedBranchs(t *testing.T) {
	r := &Cache{}
	narrow := worker{proposal: true, limit: true}
	for range 2 {
		_, err := r.Load(t.Context(), narrow, at("t", oneMap), "x", substitute.Values{})
		if _, reason, _ := state.Classify(err); reason != "LimitExceeded" {
			t.Fatalf("the proposal: %v", err)
		}
	}
	for _, in := range []Renderer{worker{}, narrow} {
		// What was rendered once is remembered for both.
		if l, err := r.Load(t.Context(), in, at("t", oneMap), "x", substitute.Values{}); err != nil || l.Set.Len() != 1 {
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
	r, in := &Cache{}, worker{}
	for range 3 {
		_, err := r.Load(t.Context(), in, gitsource.Snapshot{TreeID: "t", FS: bomb{}}, "x", substitute.Values{})
		if _, ok := errors.AsType[*apply.PanicError](err); !ok {
			t.Fatalf("got %v", err)
		}
	}
	if d, err := r.Load(t.Context(), in, at("t", oneMap), "x", substitute.Values{}); err != nil || d.Set.Len() != 1 {
		t.Error("it was remembered:", err)
	}
}

func TestWhatAFolderHoldsIsKnownByItsFiles(t *testing.T) {
	tree := fstest.MapFS{"p/a.yaml": {Data: []byte("a")}, "p/sub/b.yaml": {Data: []byte("b")}, "q/kustomization.yaml": {Data: []byte("x")}}
	was := readFiles(t.Context(), tree, "./p/")
	if was.Kustomized || was.Digest == "" || was != readFiles(t.Context(), tree, "p") {
		t.Errorf("%+v", was)
	}
	if whole := readFiles(t.Context(), tree, ""); !whole.Kustomized || whole.Digest == was.Digest {
		t.Errorf("of the whole repository: %+v", whole)
	}
	tree["q/other.yaml"] = &fstest.MapFile{Data: []byte("other")}
	if is := readFiles(t.Context(), tree, "p"); is != was {
		t.Error("what lies beside it changed it")
	}
	tree["p/sub/b.yaml"] = &fstest.MapFile{Data: []byte("c")}
	if is := readFiles(t.Context(), tree, "p"); is == was {
		t.Error("a changed file below it did not change it")
	}
}
