package gogit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/sandbox/signtest"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
)

// signedAt is when the keys of these tests are made, and used.
var signedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// signers are the public keys that a Sync has, at a time, and what was applied.
type signers struct {
	files map[string][]byte
	err   error
	now   time.Time
	// applied is as a Sync's status has it.
	applied  string
	verified bool
	// accepted is the move of a branch that a person accepts.
	accepted string
}

func signedBy(keys ...signtest.Key) *signers {
	return &signers{files: signtest.Files(keys...), now: signedAt}
}

func (g *signers) in(mode VerificationMode) func(*Config) {
	return func(c *Config) {
		c.Verification = &Verification{Mode: mode, Keys: func(context.Context) (map[string][]byte, error) { return g.files, g.err }, Now: func() time.Time { return g.now }}
		c.BranchState = func(context.Context) (BranchState, error) {
			return BranchState{Commit: g.applied, Applied: g.applied, Base: g.applied, Verified: g.verified, AllowsForcePush: func(to string) bool { return to == g.accepted }}, nil
		}
	}
}

// takes fetches, and records what came as a Sync's status does once it is applied.
func (g *signers) takes(t *testing.T, s *Source) string {
	t.Helper()
	g.applied, g.verified = mustFetch(t, s).Commit, true
	return g.applied
}

// keeps fails unless a fetch is refused for a reason and the last snapshot is still that of a commit.
func keeps(t *testing.T, s *Source, want error, commit string) {
	t.Helper()
	snap, err := s.Fetch(t.Context())
	if !errors.Is(err, want) {
		t.Fatalf("got %v (snapshot %q), want %v", err, snap.Revision, want)
	}
	last, ok := s.Last(t.Context())
	if ok != (commit != "") || last.Commit != commit {
		t.Errorf("the last snapshot is %q, want %q", last.Commit, commit)
	}
}

// sign replaces HEAD by a commit that is the same and signed.
func (s *gitServer) sign(key signtest.Key) string {
	s.t.Helper()
	return s.replace(string(key.Commit([]byte(s.git("cat-file", "commit", "HEAD") + "\n"))))
}

// replace replaces HEAD by a commit with that content.
func (s *gitServer) replace(content string) string {
	s.t.Helper()
	id := s.input(content, "hash-object", "-t", "commit", "-w", "--stdin")
	s.git("reset", "-q", "--hard", id)
	return id
}

// unsigned commits files.
func (s *gitServer) unsigned(files ...string) string {
	s.t.Helper()
	s.write(files...)
	s.git("add", "-A")
	s.git("commit", "-q", "--allow-empty", "-m", "change")
	return s.git("rev-parse", "HEAD")
}

// signed commits files, signs that and pushes it to main.
func (s *gitServer) signed(key signtest.Key, files ...string) string {
	s.t.Helper()
	s.unsigned(files...)
	id := s.sign(key)
	s.update("main")
	return id
}

// tag pushes an annotated tag, which is signed where there is a key.
func (s *gitServer) tag(name, at string, key *signtest.Key) string {
	s.t.Helper()
	content := fmt.Sprintf("object %s\ntype commit\ntag %s\ntagger a <a@example.com> 1767225600 +0000\n\nrelease\n", s.git("rev-parse", at), name)
	if key != nil {
		content = string(key.Tag([]byte(content)))
	}
	id := s.input(content, "hash-object", "-t", "tag", "-w", "--stdin")
	s.git("push", "-q", "--force", "origin", id+":refs/tags/"+name)
	return id
}

func pgpKey(t *testing.T) signtest.Key {
	return signtest.OpenPGP(t, signtest.Options{Made: signedAt}).Key
}

func sshKey(t *testing.T) signtest.Key {
	return signtest.SSH(t, sshtest.NewKey(t, sshtest.ED25519).Signer)
}

func TestOnlySignedRevisionsAreFollowed(t *testing.T) { overEach(t, onlySignedRevisionsAreFollowed) }

func onlySignedRevisionsAreFollowed(t *testing.T, begin func(*testing.T) *gitServer) {
	for _, mode := range []VerificationMode{VerifyHEAD, VerifyEveryCommit} {
		t.Run(string(mode), func(t *testing.T) {
			srv, ada, rob, eve := begin(t).offers(true, true), pgpKey(t), sshKey(t), pgpKey(t)
			by := signedBy(ada, rob)
			src := srv.source(Ref{}, by.in(mode))
			srv.push("a.yaml", "zero\n")
			keeps(t, src, gitsource.ErrCommitSignature, "")
			srv.git("reset", "-q", "--hard")
			srv.signed(ada, "a.yaml", "one\n")
			by.takes(t, src)
			second := srv.signed(rob, "a.yaml", "two\n")
			if got := by.takes(t, src); got != second {
				t.Errorf("at %s", got)
			}
			for name, commit := range map[string]func(){
				"unsigned":           func() { srv.unsigned("a.yaml", "three\n"); srv.update("main") },
				"by a foreign key":   func() { srv.signed(eve, "a.yaml", "three\n") },
				"of another content": func() { srv.signed(ada, "a.yaml", "three\n"); srv.tampered("a.yaml", "evil\n") },
			} {
				commit()
				keeps(t, src, gitsource.ErrCommitSignature, second)
				_, packs := srv.counts()
				keeps(t, src, gitsource.ErrCommitSignature, second)
				if _, again := srv.counts(); again != packs && !srv.listsByConnection() {
					t.Errorf("%s: objects were requested again", name)
				}
				srv.git("reset", "-q", "--hard", second)
			}
			if snap, _ := src.Last(t.Context()); content(t, snap.FS, "a.yaml") != "two\n" {
				t.Error("another content stays in force")
			}
			third := srv.signed(ada, "a.yaml", "three\n")
			if got := by.takes(t, src); got != third {
				t.Errorf("at %s", got)
			}
		})
	}
}

// listsByConnection reports whether a connection is counted as a request, as by ssh.
func (s *gitServer) listsByConnection() bool { return s.ssh != nil }

// tampered has main lead to a commit with another tree, and the signature of the one before.
func (s *gitServer) tampered(files ...string) {
	s.t.Helper()
	signed := s.git("cat-file", "commit", "HEAD") + "\n"
	tree := s.git("rev-parse", "HEAD^{tree}")
	s.unsigned(files...)
	s.replace(strings.Replace(signed, tree, s.git("rev-parse", "HEAD^{tree}"), 1))
	s.update("main")
}

// TestEveryCommitSinceWhatWasAppliedHasToBeSigned also with servers that can do little, and after the cache is lost.
func TestEveryCommitSinceWhatWasAppliedHasToBeSigned(t *testing.T) {
	for name, c := range map[string]struct {
		move     func(srv *gitServer, key signtest.Key)
		accepted bool
	}{
		"one commit more":         {func(s *gitServer, k signtest.Key) { s.signed(k, "b.yaml", "1") }, true},
		"sixty commits more":      {func(s *gitServer, k signtest.Key) { s.many(60, k) }, true},
		"an unsigned one below":   {func(s *gitServer, k signtest.Key) { s.unsigned("b.yaml", "1"); s.signed(k, "c.yaml", "2") }, false},
		"an unsigned one far off": {func(s *gitServer, k signtest.Key) { s.unsigned("b.yaml", "1"); s.many(60, k) }, false},
		"a merge of a signed branch": {func(s *gitServer, k signtest.Key) {
			s.side(k, "HEAD", true)
			s.merge(k)
		}, true},
		"a merge whose second parent is unsigned": {func(s *gitServer, k signtest.Key) {
			s.side(k, "HEAD", false)
			s.merge(k)
		}, false},
		"a merge that is unsigned itself": {func(s *gitServer, k signtest.Key) {
			s.side(k, "HEAD", true)
			s.git("merge", "-q", "--no-ff", "-m", "merge", "side")
			s.update("main")
		}, false},
		"a branch from below, which is merged": {func(s *gitServer, k signtest.Key) {
			s.side(k, "HEAD~2", true)
			s.merge(k)
		}, true},
		"an unsigned branch from below, which is merged": {func(s *gitServer, k signtest.Key) {
			s.side(k, "HEAD~2", false)
			s.merge(k)
		}, false},
	} {
		for _, generous := range []bool{true, false} {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, a server that can do much: %v, a lost cache: %v", name, generous, lost), func(t *testing.T) {
					t.Parallel()
					srv, key := newGitServer(t).offers(generous, generous).givesAny(generous), sshKey(t)
					by := signedBy(key)
					// What is below was committed before signatures were required.
					srv.push("a.yaml", "zero\n")
					srv.commits(5, "begin")
					old := srv.signed(key, "a.yaml", "one\n")
					src := srv.source(Ref{}, by.in(VerifyEveryCommit))
					by.takes(t, src)
					c.move(srv, key)
					tip := srv.gitIn(filepath.Join(srv.root, "repo.git"), "rev-parse", "main")
					if lost {
						src = srv.source(Ref{}, by.in(VerifyEveryCommit))
					}
					if c.accepted {
						if got := by.takes(t, src); got != tip {
							t.Errorf("at %s", got)
						}
						return
					}
					keeps(t, src, gitsource.ErrCommitSignature, old)
					head := srv.source(Ref{}, by.in(VerifyHEAD))
					if _, err := head.Fetch(t.Context()); name != "a merge that is unsigned itself" && err != nil {
						t.Errorf("with the newest alone: %v", err)
					}
				})
			}
		}
	}
}

// many pushes signed commits.
func (s *gitServer) many(n int, key signtest.Key) {
	s.t.Helper()
	for i := range n {
		s.unsigned(fmt.Sprintf("m%d.yaml", i), "x")
		s.sign(key)
	}
	s.update("main")
}

// side makes a branch with one commit, and goes back.
func (s *gitServer) side(key signtest.Key, from string, signed bool) {
	s.t.Helper()
	s.git("checkout", "-q", "-b", "side", from)
	s.unsigned("side.yaml", "x")
	if signed {
		s.sign(key)
	}
	s.git("checkout", "-q", "main")
}

// merge pushes a signed merge of side.
func (s *gitServer) merge(key signtest.Key) {
	s.t.Helper()
	s.git("merge", "-q", "--no-ff", "-m", "merge", "side")
	s.sign(key)
	s.update("main")
}

func TestSignedTags(t *testing.T) { overEach(t, signedTags) }

func signedTags(t *testing.T, begin func(*testing.T) *gitServer) {
	srv, ada, eve := begin(t).offers(true, true), pgpKey(t), pgpKey(t)
	by := signedBy(ada)
	srv.push("a.yaml", "zero\n")
	unsigned := srv.git("rev-parse", "HEAD")
	signed := srv.signed(ada, "a.yaml", "one\n")
	v1 := srv.tag("v1", signed, &ada)
	srv.tag("unsigned", signed, nil)
	srv.tag("foreign", signed, &eve)
	srv.tag("loose", unsigned, &ada)
	srv.git("push", "-q", "origin", signed+":refs/tags/light", v1+":refs/tags/v2")
	for name, want := range map[string]map[VerificationMode]error{
		"v1":       {VerifyTag: nil, VerifyTagAndHEAD: nil, VerifyHEAD: nil, VerifyEveryCommit: nil},
		"unsigned": {VerifyTag: gitsource.ErrTagSignature, VerifyTagAndHEAD: gitsource.ErrTagSignature, VerifyHEAD: nil},
		"foreign":  {VerifyTag: gitsource.ErrTagSignature, VerifyTagAndHEAD: gitsource.ErrTagSignature, VerifyHEAD: nil},
		"light":    {VerifyTag: gitsource.ErrTagSignature, VerifyTagAndHEAD: gitsource.ErrTagSignature, VerifyHEAD: nil},
		"loose":    {VerifyTag: nil, VerifyTagAndHEAD: gitsource.ErrCommitSignature, VerifyHEAD: gitsource.ErrCommitSignature},
		// The tag v1 under the name of another.
		"v2": {VerifyTag: gitsource.ErrTagSignature, VerifyTagAndHEAD: gitsource.ErrTagSignature, VerifyHEAD: nil},
	} {
		for mode, err := range want {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				if _, got := srv.source(Ref{Tag: name}, by.in(mode)).Fetch(t.Context()); !errors.Is(got, err) || err == nil && got != nil {
					t.Errorf("got %v, want %v", got, err)
				}
			})
		}
	}
	t.Run("a tag that is moved", func(t *testing.T) {
		src := srv.source(Ref{Tag: "v1"}, by.in(VerifyTagAndHEAD))
		by.takes(t, src)
		for name, move := range map[string]func(){
			"to a commit":         func() { srv.git("push", "-q", "--force", "origin", unsigned+":refs/tags/v1") },
			"to an unsigned tag":  func() { srv.tag("v1", unsigned, nil) },
			"to a foreign tag":    func() { srv.tag("v1", signed, &eve) },
			"to an older content": func() { srv.tag("v1", signed+"^", nil) },
		} {
			move()
			t.Run(name, func(t *testing.T) {
				keeps(t, src, gitsource.ErrTagSignature, signed)
				keeps(t, srv.source(Ref{Tag: "v1"}, by.in(VerifyTagAndHEAD)), gitsource.ErrTagSignature, signed)
			})
		}
		next := srv.signed(ada, "a.yaml", "two\n")
		srv.tag("v1", next, &ada)
		if got := by.takes(t, src); got != next {
			t.Errorf("at %s", got)
		}
	})
}

// TestKeysAreReadBeforeEachFetch changes what the Secret has.
func TestKeysAreReadBeforeEachFetch(t *testing.T) {
	srv, ada, rob := newForge(t), pgpKey(t), sshKey(t)
	by := signedBy(ada, rob)
	src := srv.source(Ref{}, by.in(VerifyHEAD))
	first := srv.signed(ada, "a.yaml", "one\n")
	by.takes(t, src)
	by.files = signtest.Files(rob)
	keeps(t, src, gitsource.ErrCommitSignature, first)
	by.files = signtest.Files(ada, rob)
	if lists, packs := srv.requests(func() { by.takes(t, src) }); lists != 1 || packs != 0 {
		t.Errorf("with the key again it costs %d lists, %d packs", lists, packs)
	}
	by.now = signedAt.Add(-time.Hour)
	if got := by.takes(t, src); got != first {
		t.Errorf("what was verified is verified anew at another time: %s", got)
	}
	by.now = signedAt

	by.files = signtest.Files(rob)
	second := srv.signed(ada, "a.yaml", "two\n")
	keeps(t, src, gitsource.ErrCommitSignature, first)
	by.files = signtest.Files(rob, ada)
	if got := by.takes(t, src); got != second {
		t.Errorf("with the key it is at %s", got)
	}
	for name, change := range map[string]func(){
		"they cannot be read":  func() { by.err = errors.New("no such Secret") },
		"there are none":       func() { by.err, by.files = nil, nil },
		"one cannot be parsed": func() { by.files = map[string][]byte{"a.asc": []byte(password)} },
	} {
		change()
		lists, _ := srv.requests(func() { keeps(t, src, gitsource.ErrVerification, second) })
		if lists != 0 {
			t.Errorf("%s: the server was requested %d times", name, lists)
		}
	}
}

func TestAKeyMayExpireOrBeRevokedBetweenTwoFetches(t *testing.T) {
	srv := newForge(t)
	key := signtest.OpenPGP(t, signtest.Options{Made: signedAt, Lifetime: 24 * time.Hour})
	by := signedBy(key.Key)
	src := srv.source(Ref{}, by.in(VerifyHEAD))
	first := srv.signed(key.Key, "a.yaml", "one\n")
	by.takes(t, src)
	by.now = signedAt.Add(25 * time.Hour)
	srv.signed(key.Key, "a.yaml", "two\n")
	keeps(t, src, gitsource.ErrCommitSignature, first)
	// What was applied was verified. It stays in force, even where the cache is lost.
	keeps(t, srv.source(Ref{}, by.in(VerifyHEAD)), gitsource.ErrCommitSignature, first)
	by.verified = false
	keeps(t, srv.source(Ref{}, by.in(VerifyHEAD)), gitsource.ErrCommitSignature, "")

	by.now, by.verified = signedAt, true
	key.Revoke(signedAt, 2)
	by.files = signtest.Files(key.Key)
	keeps(t, src, gitsource.ErrCommitSignature, first)
}

func TestAForcePushHasToBeSignedFirst(t *testing.T) {
	srv, key := newForge(t), sshKey(t)
	by := signedBy(key)
	src := srv.source(Ref{}, by.in(VerifyEveryCommit))
	srv.signed(key, "a.yaml", "one\n")
	old := srv.signed(key, "a.yaml", "two\n")
	by.takes(t, src)
	srv.git("reset", "-q", "--hard", "HEAD~1")
	srv.unsigned("a.yaml", "other\n")
	srv.update("main")
	keeps(t, src, gitsource.ErrCommitSignature, old)
	by.accepted = srv.git("rev-parse", "HEAD")
	keeps(t, src, gitsource.ErrCommitSignature, old)

	next := srv.sign(key)
	srv.update("main")
	by.accepted = ""
	keeps(t, src, gitsource.ErrNotFastForward, old)
	by.accepted = next
	if got := by.takes(t, src); got != next {
		t.Errorf("at %s", got)
	}
}

// TestOnlyVerifiedRevisionsOutliveARestart: neither what was fetched before signatures were required nor
// what was refused is in force afterwards.
func TestOnlyVerifiedRevisionsOutliveARestart(t *testing.T) {
	srv, key := newForge(t).givesAny(true), pgpKey(t)
	by, folder := signedBy(key), t.TempDir()
	in := func(c *Config) { c.Dir = folder }
	loose := srv.push("a.yaml", "zero\n")
	unsigned := srv.source(Ref{}, in)
	mustFetch(t, unsigned)
	by.applied = loose
	src := srv.source(Ref{}, in, by.in(VerifyHEAD))
	if snap, ok := src.Last(t.Context()); ok {
		t.Errorf("%s was never verified", snap.Commit)
	}
	keeps(t, src, gitsource.ErrCommitSignature, "")

	first := srv.signed(key, "a.yaml", "one\n")
	before := mustFetch(t, src)
	by.applied, by.verified = first, true
	srv.push("a.yaml", "two\n")
	refused := srv.git("rev-parse", "HEAD")
	keeps(t, src, gitsource.ErrCommitSignature, first)
	srv.Close()
	again := srv.source(Ref{}, in, by.in(VerifyHEAD))
	if snap, ok := again.Last(t.Context()); !ok || snap.Commit != first {
		t.Errorf("after a restart %q is in force", snap.Commit)
	}
	if _, ok := again.Earlier(t.Context(), before.Revision, ""); !ok {
		t.Error("what was applied is not present")
	}
	for _, commit := range []string{refused, loose} {
		if _, ok := again.Earlier(t.Context(), "main@sha1:"+commit, ""); ok {
			t.Errorf("%s may be applied", commit)
		}
	}
	if _, ok := srv.source(Ref{}, in, by.in(VerifyEveryCommit)).Last(t.Context()); ok {
		t.Error("what was verified in another mode is in force")
	}
}

// TestACommitIsReadAsItWasSigned moves the signature, which nobody signed, before the parents: Git and go-git read
// no parents behind it.
func TestACommitIsReadAsItWasSigned(t *testing.T) {
	srv, key := newForge(t), sshKey(t)
	by := signedBy(key)
	srv.signed(key, "a.yaml", "one\n")
	src := srv.source(Ref{}, by.in(VerifyHEAD))
	first := by.takes(t, src)
	srv.signed(key, "a.yaml", "two\n")
	object := srv.git("cat-file", "commit", "HEAD") + "\n"
	from, to := strings.Index(object, "gpgsig "), strings.Index(object, "-----END")
	to += strings.Index(object[to:], "\n") + 1
	made := object[from:to]
	object = strings.Replace(object[:from]+object[to:], "parent ", made+"parent ", 1)
	srv.replace(object)
	if parents := srv.git("log", "-1", "--format=%P"); parents != "" {
		t.Fatalf("Git reads parents %s", parents)
	}
	srv.update("main")
	keeps(t, src, gitsource.ErrCommitSignature, first)
}

func TestModesOfVerificationThatAreRefused(t *testing.T) {
	srv := newGitServer(t)
	for mode, refs := range map[VerificationMode][]Ref{
		"": {{}}, "head": {{}}, VerifyTag: {{}, {Commit: strings.Repeat("ab", 20)}}, VerifyTagAndHEAD: {{Branch: "main"}}, VerifyEveryCommit: {{Commit: strings.Repeat("ab", 20)}},
	} {
		for _, ref := range refs {
			c := srv.config([]func(*Config){signedBy().in(mode)})
			c.Ref = ref
			if _, err := New(c); !errors.Is(err, gitsource.ErrInvalid) {
				t.Errorf("%q of %s: %v", mode, ref, err)
			}
		}
	}
}

// TestSignatureErrorsHaveAReason is what a Sync reports of them, and whether a person has to act.
func TestSignatureErrorsHaveAReason(t *testing.T) {
	type result struct {
		Reason string
		Fix    bool
	}
	got := map[string]result{}
	for name, err := range map[string]error{"commit": gitsource.ErrCommitSignature, "tag": gitsource.ErrTagSignature, "keys": gitsource.ErrVerification} {
		reason, fix := gitsource.Reason(fmt.Errorf("fetching: %w", err))
		got[name] = result{reason, fix}
	}
	want := map[string]result{"commit": {"InvalidCommitSignature", true}, "tag": {"InvalidTagSignature", true}, "keys": {"VerificationError", false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
