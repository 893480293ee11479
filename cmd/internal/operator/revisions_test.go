package operator

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// unchangedSource is a source that never changes.
type unchangedSource struct{ gitsource.Snapshot }

func (s unchangedSource) Fetch(context.Context) (gitsource.Snapshot, error) { return s.Snapshot, nil }

// swelling is a folder of 20 objects with so many maps in each, which take fifty times
// their text once they are decoded.
func swelling(tree string, maps int) gitsource.Snapshot {
	var out strings.Builder
	for i := range 20 {
		fmt.Fprintf(&out, "apiVersion: v1\nkind: Foo\nmetadata: {name: c%d}\nspec: [%s]\n---\n", i, strings.TrimSuffix(strings.Repeat("{a: 1},", maps), ","))
	}
	s := at(tree, out.String())
	s.Revision = "main@sha1:" + tree
	return s
}

// Sources, children, renderings, Loops and bounds are the product's own.
func TestSyncsOfSwellingTreesShareOneCache(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it decodes large trees")
	}
	// The control needs fewer to go beyond.
	for name, c := range map[string]struct {
		syncs  int
		cached *reconciler.RevisionCache
		beyond bool
	}{
		"with the bounds": {syncs: 20, cached: newChildren().revisions},
		"without them":    {syncs: 5, cached: reconciler.NewRevisionCache(math.MaxInt64, math.MaxInt64), beyond: true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &app{renders: &rendercache.Cache{}, children: newChildren()}
			a.children.revisions, a.children.followed.Semaphore = c.cached, child.NewSemaphore()
			var loops []*reconciler.Loop
			var peak int64
			tree := swelling("t", 8000)
			before := liveHeap()
			for range c.syncs {
				loop := reconciler.NewLoop(unchangedSource{tree}, a.loader(a.children.followed, "x", &variables.Current{}, &validation.Errors{}),
					reconciler.NamedTarget{Name: "kubernetes", Target: emptyTarget{}}).WithRevisionCache(a.children.revisions)
				loops = append(loops, loop)
				for range 2 {
					if result, err := loop.RunOnce(t.Context(), reconciler.Options{}); err != nil || len(result.Plan.Changes) != 20 {
						t.Fatal(len(result.Plan.Changes), err)
					}
				}
				peak = max(peak, liveHeap()-before-a.renders.Bytes())
			}
			t.Logf("%d Syncs hold %d MiB beside %d KiB of renderings", c.syncs, peak>>20, a.renders.Bytes()>>10)
			if (peak > cachedRevisions) != c.beyond {
				t.Errorf("the heap grew by %d MiB", peak>>20)
			}
			runtime.KeepAlive(loops)
		})
	}
}

// What the Syncs take of the controller's memory, beside Karpenter, its caches and what a
// garbage collection leaves behind, for which a third stays.
func TestTheControllerHasRoomForTheRevisionsOfSyncs(t *testing.T) {
	const (
		workers      = 4
		firstLoads   = 2
		runsOfCached = workers * cachedRevisions / 8
	)
	raw, err := os.ReadFile("../../../config/manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), "name: GOMEMLIMIT\n              value: ")
	value, _, _ := strings.Cut(after, "MiB\n")
	limit, err := strconv.Atoi(value)
	if err != nil {
		t.Fatal(err)
	}
	if need := rendercache.MaxBytes + cachedRevisions + runsOfCached + uncachedRevisions + firstLoads*followedDecoded; need > limit<<20*2/3 {
		t.Errorf("the Syncs take %d MiB of GOMEMLIMIT=%dMiB", need>>20, limit)
	}
}
