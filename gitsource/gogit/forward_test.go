package gogit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
)

// recorded is what is known of a branch outside of any cache, and what a person accepts.
type recorded struct {
	commit   string
	accepted string
}

func (m *recorded) of(c *Config) {
	c.BranchState = func(context.Context) (BranchState, error) {
		return BranchState{Commit: m.commit, AllowsForcePush: func(to string) bool { return to == m.accepted }}, nil
	}
}

// takes fetches, and remembers what came as a Sync's status does.
func (m *recorded) takes(t *testing.T, s *Source) string {
	t.Helper()
	m.commit = mustFetch(t, s).Commit
	return m.commit
}

// givesAny sets whether the server gives out commits that no reference leads to any more.
func (s *gitServer) givesAny(yes bool) *gitServer {
	s.gitIn(filepath.Join(s.root, "repo.git"), "config", "uploadpack.allowAnySHA1InWant", strconv.FormatBool(yes))
	return s
}

// moves are ways of a branch from one commit to another.
func moves() map[string]struct {
	move    func(*gitServer)
	forward bool
} {
	force := func(s *gitServer) { s.git("push", "-q", "--force", "origin", "HEAD:main") }
	return map[string]struct {
		move    func(*gitServer)
		forward bool
	}{
		"one commit more":    {func(s *gitServer) { s.push("a.yaml", "two\n") }, true},
		"eighty commits":     {func(s *gitServer) { s.commits(80, "more"); force(s) }, true},
		"a merge of a topic": {func(s *gitServer) { s.lanes(1) }, true},
		"sixty merges":       {func(s *gitServer) { s.lanes(60) }, true},
		"a merge in which it is the second parent": {func(s *gitServer) {
			s.git("checkout", "-q", "-b", "side", "HEAD~1")
			s.git("commit", "-q", "--allow-empty", "-m", "side")
			s.git("merge", "-q", "-m", "merge", "main")
			force(s)
		}, true},
		"back to its parent":  {func(s *gitServer) { s.git("reset", "-q", "--hard", "HEAD~1"); force(s) }, false},
		"an amended commit":   {func(s *gitServer) { s.git("commit", "-q", "--amend", "-m", "other words"); force(s) }, false},
		"a branch from below": {func(s *gitServer) { s.git("reset", "-q", "--hard", "HEAD~1"); s.commits(60, "other"); force(s) }, false},
		"unrelated history": {func(s *gitServer) {
			s.git("checkout", "-q", "--orphan", "new")
			s.git("rm", "-q", "-rf", ".")
			s.push("b.yaml", "two\n")
			force(s)
		}, false},
		"unrelated history that was merged with what was before, as the guide has it": {func(s *gitServer) {
			before := s.git("rev-parse", "HEAD")
			s.git("checkout", "-q", "--orphan", "new")
			s.git("rm", "-q", "-rf", ".")
			s.push("b.yaml", "two\n")
			force(s)
			s.git("merge", "-q", "--strategy", "ours", "--allow-unrelated-histories", "-m", "Go on from what was before", before)
			s.git("push", "-q", "origin", "HEAD:main")
		}, true},
		"what was before, merged over unrelated history": {func(s *gitServer) {
			before := s.git("rev-parse", "HEAD")
			s.git("checkout", "-q", "--orphan", "new")
			s.git("rm", "-q", "-rf", ".")
			s.push("b.yaml", "two\n")
			force(s)
			now := s.git("rev-parse", "HEAD")
			s.git("checkout", "-q", "--detach", before)
			s.git("merge", "-q", "--strategy", "ours", "--allow-unrelated-histories", "-m", "Return to what was before", now)
			s.git("push", "-q", "origin", "HEAD:main")
		}, true},
	}
}

func TestABranchIsFollowedForwardOnly(t *testing.T) { overEach(t, aBranchIsFollowedForwardOnly) }

func aBranchIsFollowedForwardOnly(t *testing.T, begin func(*testing.T) *gitServer) {
	for _, generous := range []bool{true, false} {
		for name, tt := range moves() {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, a server that can do much: %v, a lost cache: %v", name, generous, lost), func(t *testing.T) {
					t.Parallel()
					srv, known := begin(t).offers(generous, generous).givesAny(generous), &recorded{}
					srv.push("a.yaml", "zero\n")
					srv.commits(3, "begin")
					srv.update("main")
					src := srv.source(Ref{}, known.of)
					old := known.takes(t, src)
					tt.move(srv)
					tip := srv.gitIn(filepath.Join(srv.root, "repo.git"), "rev-parse", "main")
					if lost {
						src = srv.source(Ref{}, known.of)
					}
					snap, err := src.Fetch(t.Context())
					if tt.forward {
						if err != nil || snap.Commit != tip {
							t.Fatalf("commit %s, %v", snap.Commit, err)
						}
						readAll(t, snap.FS)
						return
					}
					moved, ok := errors.AsType[*gitsource.NotFastForwardError](err)
					if !ok || !errors.Is(err, gitsource.ErrNotFastForward) {
						t.Fatal(err)
					}
					if diff := cmp.Diff(&gitsource.NotFastForwardError{Branch: "main", From: old, To: tip}, moved); diff != "" {
						t.Error(diff)
					}
					known.waits(t, srv, src, lost && !generous)
					known.accepted = tip
					if got := known.takes(t, src); got != tip {
						t.Errorf("accepted, and at %s", got)
					}
				})
			}
		}
	}
}

// waits looks at a source whose branch was moved, which is held until it is confirmed: what was followed stays, also
// after a restart, and nothing is transferred for it again.
func (m *recorded) waits(t *testing.T, srv *gitServer, src *Source, lost bool) {
	t.Helper()
	packs := srv.transfers()
	if _, err := src.Fetch(t.Context()); !errors.Is(err, gitsource.ErrNotFastForward) {
		t.Error(err)
	}
	if !lost && srv.transfers() > packs {
		t.Error("objects were asked for again")
	}
	again := srv.source(Ref{}, m.of, func(c *Config) { c.Dir = src.cache.Folder() })
	for _, s := range []*Source{src, again} {
		snap, ok := s.Last(t.Context())
		if ok == lost {
			t.Fatalf("there is a last snapshot: %v", ok)
		}
		if !lost {
			if snap.Commit != m.commit {
				t.Errorf("the last snapshot is %s", snap.Commit)
			}
			readAll(t, snap.FS)
		}
	}
}

func TestAWayForwardOfOneCommitCostsNothing(t *testing.T) {
	overEach(t, aWayForwardOfOneCommitCostsNothing)
}

func aWayForwardOfOneCommitCostsNothing(t *testing.T, begin func(*testing.T) *gitServer) {
	srv, known := begin(t).offers(true, true), &recorded{}
	srv.push("a.yaml", "one\n")
	src := srv.source(Ref{}, known.of)
	known.takes(t, src)
	srv.push("a.yaml", "two\n")
	if lists, packs := srv.requests(func() { known.takes(t, src) }); lists != 1 || packs != 1 {
		t.Errorf("%d lists, %d packs", lists, packs)
	}
}

func TestABranchThatComesBackIsFollowedAgain(t *testing.T) {
	srv, known := newForge(t), &recorded{}
	srv.push("a.yaml", "one\n")
	good := srv.push("a.yaml", "two\n")
	src := srv.source(Ref{}, known.of)
	known.takes(t, src)
	srv.git("push", "-q", "--force", "origin", "HEAD~1:main")
	fails(t, src, gitsource.ErrNotFastForward)
	srv.git("push", "-q", "--force", "origin", good+":main")
	if got := known.takes(t, src); got != good {
		t.Errorf("at %s", got)
	}
	next := srv.push("a.yaml", "three\n")
	if got := known.takes(t, src); got != next {
		t.Errorf("at %s", got)
	}
}

func TestWhatCannotBeFoundOutWaits(t *testing.T) {
	srv, known := newForge(t), &recorded{}
	srv.push("a.yaml", "one\n")
	src := srv.source(Ref{}, known.of, func(c *Config) { c.Limits.Commits = 60 })
	old := known.takes(t, src)
	srv.commits(200, "more")
	srv.update("main")
	_, err := src.Fetch(t.Context())
	moved, ok := errors.AsType[*gitsource.NotFastForwardError](err)
	if !ok || moved.From != old || !errors.Is(moved.Unknown, gitsource.ErrLimit) {
		t.Fatalf("got %v", err)
	}
	known.accepted = moved.To
	if got := known.takes(t, src); got != moved.To {
		t.Errorf("accepted, and at %s", got)
	}
}

func TestACommitThatTheServerHasDroppedStillBlocksTheMove(t *testing.T) {
	overEach(t, aCommitThatTheServerHasDroppedStillBlocksTheMove)
}

func aCommitThatTheServerHasDroppedStillBlocksTheMove(t *testing.T, begin func(*testing.T) *gitServer) {
	srv, known := begin(t).offers(true, true), &recorded{}
	srv.push("a.yaml", "one\n")
	known.commit = srv.push("a.yaml", "two\n")
	srv.git("commit", "-q", "--amend", "-m", "other words")
	srv.git("push", "-q", "--force", "origin", "HEAD")
	srv.gitIn(filepath.Join(srv.root, "repo.git"), "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now")
	src := srv.source(Ref{}, known.of)
	fails(t, src, gitsource.ErrNotFastForward)
	if _, ok := src.Last(t.Context()); ok {
		t.Error("there is a last snapshot, and nobody has it")
	}
	known.accepted = srv.git("rev-parse", "HEAD")
	if got := known.takes(t, src); got != known.accepted {
		t.Errorf("at %s", got)
	}
}

func TestOnlyBranchesAreFollowedForwardOnly(t *testing.T) {
	srv := newForge(t)
	first := srv.push("a.yaml", "one\n")
	second := srv.push("a.yaml", "two\n")
	srv.git("tag", "v1", first)
	srv.git("push", "-q", "origin", "v1")
	known := &recorded{commit: second}
	for _, ref := range []Ref{{Tag: "v1"}, {Commit: first}} {
		if snap := mustFetch(t, srv.source(ref, known.of)); snap.Commit != first {
			t.Errorf("%s is at %s", ref, snap.Commit)
		}
	}
	unset := srv.source(Ref{})
	mustFetch(t, unset)
	srv.git("push", "-q", "--force", "origin", first+":main")
	if snap := mustFetch(t, unset); snap.Commit != first {
		t.Errorf("without a memory it is at %s", snap.Commit)
	}
}

// A replica that led long ago has a cache of then. What was followed since must not be
// undone with it, whether the server is away or the branch was put back there.
func TestACacheOfLongAgoIsNotGoneBackTo(t *testing.T) {
	srv, known := newForge(t).givesAny(true), &recorded{}
	first := srv.push("a.yaml", "one\n")
	dir := t.TempDir()
	in := func(c *Config) { c.Dir = dir }
	known.takes(t, srv.source(Ref{}, known.of, in))
	known.commit = srv.push("a.yaml", "two\n") // Another replica followed it.

	src := srv.source(Ref{}, known.of, in)
	if snap, ok := src.Last(t.Context()); ok {
		t.Errorf("%s would be gone back to", snap.Commit)
	}
	srv.git("push", "-q", "--force", "origin", first+":main")
	fails(t, src, gitsource.ErrNotFastForward)
	if snap, ok := src.Last(t.Context()); !ok || snap.Commit != known.commit {
		t.Errorf("%s stays in force", snap.Commit)
	}

	ahead := srv.source(Ref{}, in, func(c *Config) { c.Dir = t.TempDir() })
	srv.git("push", "-q", "--force", "origin", known.commit+":main")
	mustFetch(t, ahead)
	known.commit = first // As where the status could not be written before the end.
	if snap, ok := srv.source(Ref{}, known.of, func(c *Config) { c.Dir = ahead.cache.Folder() }).Last(t.Context()); !ok {
		t.Errorf("%s is ahead of what is known, and not used", snap.Commit)
	}
	known.commit = ""
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	mustFetch(t, srv.source(Ref{}, known.of, in))
}

// A branch that stays at an earlier commit is followed from there afterwards.
func TestABranchStaysAtACommitUntilItIsFollowedAgain(t *testing.T) {
	srv, known := newForge(t), &recorded{}
	dir := t.TempDir()
	in := func(c *Config) { c.Dir = dir }
	first := srv.push("a.yaml", "one\n")
	second := srv.push("a.yaml", "two\n")
	if got := known.takes(t, srv.source(Ref{}, known.of, in)); got != second {
		t.Fatalf("it is at %s", got)
	}
	stays := srv.source(Ref{Branch: "main", Commit: first}, known.of, in)
	if snap, ok := stays.Last(t.Context()); ok {
		t.Errorf("while the server is away it would be at %s", snap.Commit)
	}
	if snap, ok := stays.Earlier(t.Context(), "main@sha1:"+second, ""); ok {
		t.Errorf("it would go back to %s", snap.Commit)
	}
	if got := known.takes(t, stays); got != first {
		t.Errorf("it is at %s", got)
	}
	third := srv.push("a.yaml", "three\n")
	if got := known.takes(t, stays); got != first {
		t.Errorf("with a newer commit on the branch it is at %s", got)
	}
	again := srv.source(Ref{Branch: "main", Commit: first}, known.of, in)
	if snap, ok := again.Last(t.Context()); !ok || snap.Commit != first || snap.Revision != "main@sha1:"+first {
		t.Errorf("after a restart it is at %s, %v", snap.Revision, ok)
	}
	if got := known.takes(t, srv.source(Ref{}, known.of, in)); got != third {
		t.Errorf("followed again it is at %s", got)
	}
	// Where the branch was moved meanwhile, it is not followed without a confirmation.
	known.takes(t, srv.source(Ref{Branch: "main", Commit: second}, known.of, in))
	srv.git("push", "-q", "--force", "origin", first+":main")
	fails(t, srv.source(Ref{}, known.of, in), gitsource.ErrNotFastForward)
}
