package reconciler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/state"
)

// verifying is a source that refuses revisions after it has returned them.
type verifying struct {
	keeping
	// apply are those that may be applied, held is the one from which drift may be corrected.
	apply map[string]bool
	held  string
}

func (a *verifying) Verified(_ context.Context, revision string) (apply, correct bool) {
	return a.apply[revision], a.apply[revision] || revision == a.held
}

// filesOf is a snapshot of a revision, with the id of its files.
func filesOf(revision string) gitsource.Snapshot {
	return gitsource.Snapshot{Revision: revision, TreeID: "files of " + revision}
}

func (a *verifying) Fetch(context.Context) (gitsource.Snapshot, error) {
	return filesOf(a.revision), a.err
}

func (a *verifying) Last(context.Context) (gitsource.Snapshot, bool) {
	return filesOf(a.held), a.held != ""
}

func (a *verifying) Earlier(ctx context.Context, revision, treeID string) (gitsource.Snapshot, bool) {
	if _, ok := a.Verified(ctx, revision); !ok {
		return gitsource.Snapshot{}, false
	}
	snapshot, ok := a.keeping.Earlier(ctx, revision, treeID)
	return filesOf(snapshot.Revision), ok && treeID == filesOf(revision).TreeID
}

// revocation is a Loop of which r1 is applied as a whole, and r2, which is newer, in part: "new" could not be made.
type revocation struct {
	*dependent
	from *verifying
}

func newRevocation(t *testing.T) *revocation {
	t.Helper()
	d := newDependent("r1", nil)
	r := &revocation{dependent: d, from: &verifying{keeping: *d.source, apply: map[string]bool{"r1": true, "r2": true, "r3": true}}}
	revs := revisions{"r1": things("a", "1", "left", "1"), "r2": things("a", "2", "new", "2")}
	r.Loop = reconciler.NewLoop(r.from, revs.load, reconciler.NamedTarget{Name: "memory", Target: d.recorded}).ResumesFrom("r1", filesOf("r1").TreeID).
		WithDependencyCheck(func(context.Context, string, string) error { return d.waits })
	r.run(t)
	r.has(t, "a", "1", "left", "1")
	return r
}

var errRefused = fmt.Errorf("%w: commit r2", gitsource.ErrCommitSignature)

// TestARefusedRevisionIsNotApplied, in any state in which it may be: fetched, planned, or with another that waits
// or cannot be loaded.
func TestARefusedRevisionIsNotApplied(t *testing.T) {
	for name, stale := range map[string]struct {
		source   error
		revision string
		waits    error
	}{
		"it is refused":                    {errRefused, "r2", nil},
		"the source cannot be reached":     {gitsource.ErrUnreachable, "r2", nil},
		"a newer one cannot be loaded":     {nil, "r3", nil},
		"a newer one waits":                {nil, "r3", errWaits},
		"it is refused, and one has waits": {errRefused, "r2", errWaits},
	} {
		for _, planned := range []bool{true, false} {
			for _, held := range []string{"r1", ""} {
				t.Run(fmt.Sprintf("%s, planned %v, held %q", name, planned, held), func(t *testing.T) {
					r := newRevocation(t)
					r.from.revision = "r2"
					if planned {
						r.run(t)
					} else if _, err := r.Fetch(t.Context()); err != nil {
						t.Fatal(err)
					}
					delete(r.objects, "new")
					delete(r.recorded.applied, "new")
					r.objects["a"], r.recorded.applied["a"], r.writes = "edited", "1", nil
					r.objects["more"], r.recorded.applied["more"] = "1", "1"

					r.from.apply, r.from.held = map[string]bool{"r3": true}, held
					r.from.err, r.from.revision, r.waits = stale.source, stale.revision, stale.waits
					for range 2 {
						result, err := r.Fetch(t.Context())
						if held != "" && (err != nil || result.TreeID != filesOf("r1").TreeID) {
							t.Fatalf("Fetch = %q with the files %q, %v", result.Revision, result.TreeID, err)
						}
						if err == nil {
							result, err = r.RunFetched(t.Context(), result, reconciler.Options{})
						}
						if held == "" && err == nil || held != "" && (err != nil || result.Revision != "r1" || result.TreeID != filesOf("r1").TreeID || !result.OnlyDrift || result.SourceError == nil) {
							t.Fatalf("RunOnce = %q, only drift %v, stale %v, %v", result.Revision, result.OnlyDrift, result.SourceError, err)
						}
						_, err = r.CorrectDrift(t.Context(), []state.Key{key("a"), key("new")}, reconciler.Options{})
						if (err == nil) != (held != "") {
							t.Errorf("correcting drift: %v", err)
						}
					}
					want := []string{"update a"}
					if held == "" {
						want = nil
					}
					if diff := cmp.Diff(want, r.writes); diff != "" {
						t.Errorf("writes (-want +got):\n%s", diff)
					}

					// Once it is verified again it is applied, and prunes.
					r.from.apply, r.from.err, r.from.revision, r.waits = map[string]bool{"r2": true}, nil, "r2", nil
					if result, err := r.RunOnce(t.Context(), reconciler.Options{}); err != nil || result.OnlyDrift || result.SourceError != nil {
						t.Fatalf("only drift %v, stale %v, %v", result.OnlyDrift, result.SourceError, err)
					}
					r.has(t, "a", "2", "new", "2")
				})
			}
		}
	}
}

// TestAVerifiedRevisionGoesOnWhileANewerIsRefused as where the source cannot be read.
func TestAVerifiedRevisionGoesOnWhileANewerIsRefused(t *testing.T) {
	r := newRevocation(t)
	delete(r.objects, "left")
	r.from.err = errRefused
	result, err := r.RunOnce(t.Context(), reconciler.Options{})
	if err != nil || !errors.Is(result.SourceError, gitsource.ErrCommitSignature) || result.OnlyDrift || result.Revision != "r1" || result.TreeID != filesOf("r1").TreeID {
		t.Fatalf("%q, only drift %v, stale %v, %v", result.Revision, result.OnlyDrift, result.SourceError, err)
	}
	r.has(t, "a", "1", "left", "1")
}
