package gogit

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

func TestAReferenceIsResolvedWithoutATransfer(t *testing.T) {
	overEach(t, func(t *testing.T, begin func(*testing.T) *gitServer) {
		srv := begin(t)
		first := srv.push("a.yaml", "one\n")
		srv.git("tag", "-m", "release", "v1")
		srv.git("push", "-q", "origin", "v1")
		second := srv.push("a.yaml", "two\n")
		for name, c := range map[string]struct {
			ref  Ref
			want string
			err  error
		}{
			"the default branch":   {Ref{}, "main@sha1:" + second, nil},
			"an annotated tag":     {Ref{Tag: "v1"}, "v1@sha1:" + first, nil},
			"a commit":             {Ref{Commit: first}, "sha1:" + first, nil},
			"a branch that is not": {Ref{Branch: "other"}, "", gitsource.ErrNotFound},
			"a name of no branch":  {Ref{Branch: "a..b"}, "", gitsource.ErrInvalid},
		} {
			t.Run(name, func(t *testing.T) {
				config := srv.config(nil)
				config.Ref, config.Dir = c.ref, ""
				got, err := Resolve(t.Context(), config)
				if got != c.want || !errors.Is(err, c.err) {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		if _, packs := srv.counts(); srv.ssh == nil && packs != 0 {
			t.Errorf("%d transfers", packs)
		}
	})
}

func TestAResolutionThatIsRefusedNamesNoPassword(t *testing.T) {
	srv := newGitServer(t)
	srv.push("a.yaml", "one\n")
	srv.during(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, password, _ := r.BasicAuth()
		http.Error(w, "wrong: "+password, http.StatusUnauthorized)
	})
	_, err := Resolve(t.Context(), srv.config([]func(*Config){login("ada", "s3cret-token")}))
	if !errors.Is(err, gitsource.ErrUnauthorized) || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	if _, err := Resolve(t.Context(), Config{URL: "file:///etc"}); !errors.Is(err, gitsource.ErrInvalid) {
		t.Error(err)
	}
}
