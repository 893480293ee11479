package gogit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/sandbox/signtest"
)

// verificationOf is whether a source has a revision verified.
func verificationOf(t *testing.T, s *Source, commit string) string {
	t.Helper()
	apply, correct := s.Verified(t.Context(), "main@sha1:"+commit)
	return fmt.Sprintf("apply %v, correct %v", apply, correct)
}

// TestARevisionThatWasNotAppliedIsGivenUpWithItsKey: it was fetched, by a key that was trusted then.
func TestARevisionThatWasNotAppliedIsGivenUpWithItsKey(t *testing.T) {
	for name, c := range map[string]struct {
		change func(srv *gitServer, by *signers, rob signtest.Key)
		want   error
	}{
		"the key is taken out":   {func(_ *gitServer, by *signers, rob signtest.Key) { by.files = signtest.Files(rob) }, gitsource.ErrCommitSignature},
		"the Secret is gone":     {func(_ *gitServer, by *signers, _ signtest.Key) { by.files, by.err = nil, errors.New("no such Secret") }, gitsource.ErrVerification},
		"there is no key":        {func(_ *gitServer, by *signers, _ signtest.Key) { by.files = nil }, gitsource.ErrVerification},
		"a key cannot be parsed": {func(_ *gitServer, by *signers, _ signtest.Key) { by.files = map[string][]byte{"a.asc": []byte("x")} }, gitsource.ErrVerification},
		"the key is taken out while the server is away": {func(srv *gitServer, by *signers, rob signtest.Key) {
			srv.Close()
			by.files = signtest.Files(rob)
		}, gitsource.ErrUnreachable},
	} {
		for _, restart := range []bool{false, true} {
			for _, verified := range []bool{true, false} {
				for _, mode := range []VerificationMode{VerifyHEAD, VerifyEveryCommit} {
					t.Run(fmt.Sprintf("%s, restart %v, the applied one verified %v, %s", name, restart, verified, mode), func(t *testing.T) {
						t.Parallel()
						srv, ada, rob, folder := newForge(t).givesAny(true), pgpKey(t), sshKey(t), t.TempDir()
						by := signedBy(ada, rob)
						in := func(c *Config) { c.Dir = folder }
						src := srv.source(Ref{}, in, by.in(mode))
						first := srv.signed(rob, "a.yaml", "one\n")
						by.takes(t, src)
						second := srv.signed(ada, "a.yaml", "two\n")
						mustFetch(t, src)
						if got := verificationOf(t, src, second) + "; " + verificationOf(t, src, first); got != "apply true, correct true; apply true, correct true" {
							t.Fatal(got)
						}
						by.verified = verified
						if restart {
							src = srv.source(Ref{}, in, by.in(mode))
						}
						c.change(srv, by, rob)
						present := ""
						if verified {
							present = first
						}
						for range 3 {
							keeps(t, src, c.want, present)
							if got := verificationOf(t, src, second); got != "apply false, correct false" {
								t.Errorf("of what was not applied: %s", got)
							}
							if got, want := verificationOf(t, src, first), fmt.Sprintf("apply false, correct %v", verified); got != want {
								t.Errorf("of what was applied: %s, want %s", got, want)
							}
							if snap, ok := src.Earlier(t.Context(), "main@sha1:"+second, ""); ok {
								t.Errorf("%s is present", snap.Revision)
							}
						}
						if snap, ok := src.Earlier(t.Context(), "main@sha1:"+first, ""); ok != verified || ok && content(t, snap.FS, "a.yaml") != "one\n" {
							t.Errorf("what was applied is present: %v", ok)
						}
					})
				}
			}
		}
	}
}

// TestARefusalStaysOverFetches: the newest commit is the one that was applied, by a key that is taken out.
func TestARefusalStaysOverFetches(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, mode := range []VerificationMode{VerifyHEAD, VerifyEveryCommit} {
			t.Run(fmt.Sprintf("%s, a lost cache %v", mode, lost), func(t *testing.T) {
				srv, ada, rob := newForge(t).givesAny(true), pgpKey(t), sshKey(t)
				by := signedBy(ada)
				src := srv.source(Ref{}, by.in(mode))
				first := srv.signed(ada, "a.yaml", "one\n")
				by.takes(t, src)
				by.files = signtest.Files(rob)
				if lost {
					src = srv.source(Ref{}, by.in(mode))
				}
				for range 3 {
					keeps(t, src, gitsource.ErrCommitSignature, first)
					if got := verificationOf(t, src, first); got != "apply false, correct true" {
						t.Error(got)
					}
				}
				by.files = signtest.Files(rob, ada)
				if got := by.takes(t, src); got != first || verificationOf(t, src, first) != "apply true, correct true" {
					t.Errorf("with the key again it is at %s", got)
				}
			})
		}
	}
}

// TestAVerifiedRevisionStaysWhileANewerIsRefused, also where it is not applied as a whole yet.
func TestAVerifiedRevisionStaysWhileANewerIsRefused(t *testing.T) {
	srv, ada := newForge(t).givesAny(true), pgpKey(t)
	by := signedBy(ada)
	src := srv.source(Ref{}, by.in(VerifyEveryCommit))
	srv.signed(ada, "a.yaml", "one\n")
	by.takes(t, src)
	second := srv.signed(ada, "a.yaml", "two\n")
	mustFetch(t, src)
	srv.push("a.yaml", "three\n")
	keeps(t, src, gitsource.ErrCommitSignature, second)
	if got := verificationOf(t, src, second); got != "apply true, correct true" {
		t.Error(got)
	}
	for _, other := range []string{"", "main@sha1:", "dev@sha1:" + second, "main@sha256:" + second, strings.Repeat("a", 40)} {
		if apply, correct := src.Verified(t.Context(), other); apply || correct {
			t.Errorf("%q is verified", other)
		}
	}
	if apply, correct := srv.source(Ref{}).Verified(t.Context(), "main@sha1:"+second); !apply || !correct {
		t.Error("without signatures it is not verified")
	}
}

// TestEveryCommitBeginsBehindWhatWasAttempted, where nothing was applied as a whole yet.
func TestEveryCommitBeginsBehindWhatWasAttempted(t *testing.T) {
	for name, recorded := range map[string]bool{"by the record": true, "in one life, before it is recorded": false} {
		t.Run(name, func(t *testing.T) {
			srv, ada := newForge(t), sshKey(t)
			by, base := signedBy(ada), ""
			in := func(c *Config) {
				by.in(VerifyEveryCommit)(c)
				c.BranchState = func(context.Context) (BranchState, error) { return BranchState{Base: base}, nil }
			}
			src := srv.source(Ref{}, in)
			first := srv.signed(ada, "a.yaml", "one\n")
			mustFetch(t, src)
			if recorded {
				base, src = first, srv.source(Ref{}, in)
			}
			srv.unsigned("a.yaml", "two\n")
			srv.signed(ada, "a.yaml", "three\n")
			if _, err := src.Fetch(t.Context()); !errors.Is(err, gitsource.ErrCommitSignature) || !strings.Contains(err.Error(), first) {
				t.Errorf("got %v", err)
			}
			// Another base, such as by the mode HEAD for a while: it is verified anew.
			base = srv.git("rev-parse", "HEAD~1")
			if snap, err := src.Fetch(t.Context()); err != nil || content(t, snap.FS, "a.yaml") != "three\n" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestARefusalIsVerifiedAnewWhereItsReasonIsGone counts what is requested, too: objects are not at each fetch.
func TestARefusalIsVerifiedAnewWhereItsReasonIsGone(t *testing.T) {
	srv, ada := newForge(t), sshKey(t)
	late := signtest.OpenPGP(t, signtest.Options{Made: signedAt.Add(24 * time.Hour)})
	by := signedBy(ada, late.Key)
	var failure error
	src := srv.source(Ref{}, by.in(VerifyHEAD), func(c *Config) {
		followed := c.BranchState
		c.BranchState = func(ctx context.Context) (BranchState, error) {
			if failure != nil {
				return BranchState{}, failure
			}
			return followed(ctx)
		}
	})
	srv.signed(ada, "a.yaml", "one\n")
	first := by.takes(t, src)
	second := srv.signed(late.Key, "a.yaml", "two\n")
	keeps(t, src, gitsource.ErrCommitSignature, first)
	if _, packs := srv.requests(func() { keeps(t, src, gitsource.ErrCommitSignature, first) }); packs != 0 {
		t.Errorf("objects were requested again %d times", packs)
	}
	by.now = signedAt.Add(25 * time.Hour)
	if got := by.takes(t, src); got != second {
		t.Errorf("once the key is valid it is at %s", got)
	}

	srv.signed(pgpKey(t), "a.yaml", "three\n")
	failure = errors.New("the API server is away")
	if _, err := src.Fetch(t.Context()); !errors.Is(err, gitsource.ErrCommitSignature) {
		t.Fatal(err)
	}
	failure = nil
	keeps(t, src, gitsource.ErrCommitSignature, second)
	by.files = signtest.Files(ada)
	third := srv.signed(ada, "a.yaml", "four\n")
	if got := by.takes(t, src); got != third {
		t.Errorf("at %s", got)
	}
}

func TestRefusedCredentialsAreReported(t *testing.T) {
	srv := newForge(t)
	srv.push("a.yaml", "one\n")
	refused := 0
	src := srv.source(Ref{}, func(c *Config) { c.CredentialsRefused = func() { refused++ } })
	mustFetch(t, src)
	if refused != 0 {
		t.Error("a fetch that succeeds counts as refused")
	}
	if _, err := srv.source(Ref{Branch: "none"}, func(c *Config) { c.CredentialsRefused = func() { refused++ } }).Fetch(t.Context()); !errors.Is(err, gitsource.ErrNotFound) || refused != 1 {
		t.Errorf("%v, %d times", err, refused)
	}
	srv.Close()
	if _, err := src.Fetch(t.Context()); !errors.Is(err, gitsource.ErrUnreachable) || refused != 1 {
		t.Errorf("%v, %d times", err, refused)
	}
}
