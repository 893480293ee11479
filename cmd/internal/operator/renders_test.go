package operator

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

const oneMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// at is a tree with one manifest in the folder x.
func at(tree, content string) gitsource.Snapshot {
	return gitsource.Snapshot{TreeID: tree, FS: fstest.MapFS{"x/a.yaml": &fstest.MapFile{Data: []byte(content)}}}
}

type loadResult struct {
	loaded checked.Folder
	err    error
}

// requesting loads in the background.
func requesting(ctx context.Context, r *rendercache.Cache, in *child.Runner, s gitsource.Snapshot) chan loadResult {
	out := make(chan loadResult, 1)
	go func() {
		loaded, err := r.Load(ctx, in, s, "x", substitute.Values{})
		out <- loadResult{loaded, err}
	}()
	return out
}

func TestAChildThatCannotBeStartedIsForAnotherTry(t *testing.T) {
	a := &app{renders: &rendercache.Cache{}, children: children{followed: &child.Runner{Path: "/nowhere/at/all", Semaphore: child.NewSemaphore()}}}
	load := a.loader(a.children.followed, "x", &variables.Current{}, &validation.Errors{})
	_, err := load(t.Context(), at("t", oneMap))
	if class, _, _ := state.Classify(err); class != state.Retry {
		t.Fatalf("%s: %v", class, err)
	}
	a.children.followed.Path = ""
	if d, err := load(t.Context(), at("t", oneMap)); err != nil || d.Set.Len() != 1 {
		t.Errorf("once it can be: %d objects, %v", d.Set.Len(), err)
	}
}

func TestAFollowedClusterIsValidatedByItsSchemaInTheChild(t *testing.T) {
	a := &app{renders: &rendercache.Cache{}, children: children{followed: &child.Runner{Semaphore: child.NewSemaphore()}}}
	got := &validation.Errors{}
	load := a.loader(a.children.followed, "x", &variables.Current{}, got)
	for range 2 { // rendered, and remembered
		d, err := load(t.Context(), at("t", reconcilertest.ClusterFile("a", "  interruptionQueue:\n    retention: 5s\n")))
		if err != nil || len(d.Problems) > 0 {
			t.Fatal(d.Problems, err)
		}
		eks, _ := d.Set.Get(state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "a"})
		d.BeforeDesired()
		if found := got.Of(eks); len(found) != 1 || found[0].Origin.Line != 9 {
			t.Errorf("of the Cluster it says %v", found)
		}
		got.Set(nil, nil)
	}
}
