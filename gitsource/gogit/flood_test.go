package gogit

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/poolwright/poolwright/gitsource"
)

func TestComparisonsAndReadersRunAtOnce(t *testing.T) { overEach(t, comparisonsAndReadersRunAtOnce) }

func comparisonsAndReadersRunAtOnce(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t).offers(true, true)
	srv.push("a.yaml", "one\n")
	srv.commits(12, "old")
	srv.update("main")
	const pulls = 8
	srv.pulls(pulls)
	mergeBase := strings.Fields(srv.git("rev-list", "--first-parent", "main"))
	r := srv.repository()
	var all sync.WaitGroup
	for i := range pulls {
		for range 2 {
			all.Go(func() {
				c, err := r.Compare(context.Background(), mainRef, fmt.Sprintf("refs/pull/%d/head", i+1))
				if err != nil || c.MergeBase.Commit != mergeBase[i] {
					t.Errorf("pull request %d: %s, %v", i+1, c.MergeBase.Commit, err)
					return
				}
				if got := content(t, c.Head.FS, "pull.yaml"); got != fmt.Sprintf("%03d", i) {
					t.Errorf("pull request %d holds %q", i+1, got)
				}
				readAll(t, c.Base.FS)
				if yes, err := r.Contains(context.Background(), mainRef, mergeBase[0], mergeBase[i]); err != nil || !yes {
					t.Errorf("Contains: %v, %v", yes, err)
				}
			})
		}
	}
	all.Wait()
}

func TestContainsRequestsOnlyWhatItLacks(t *testing.T) { overEach(t, containsRequestsOnlyWhatItLacks) }

func containsRequestsOnlyWhatItLacks(t *testing.T, begin func(*testing.T) *gitServer) {
	srv := begin(t).offers(true, true)
	first := srv.push("a.yaml", "one\n")
	srv.topic("topic", "main")
	side := srv.files("b.yaml", "b\n")
	srv.git("checkout", "-q", "main")
	srv.commits(80, "more")
	old := srv.git("rev-parse", "HEAD")
	srv.update("main")
	r := srv.repository()
	check := func(commit, ancestor string, want bool, lists, packs int) {
		t.Helper()
		gotLists, gotPacks := srv.requests(func() {
			got, err := r.Contains(t.Context(), mainRef, commit, ancestor)
			if err != nil || got != want {
				t.Errorf("Contains(%s, %s) = %v, %v", commit, ancestor, got, err)
			}
		})
		if gotLists != lists || gotPacks != packs {
			t.Errorf("it took %d lists and %d transfers, want %d and %d", gotLists, gotPacks, lists, packs)
		}
	}
	check(old, old, true, 1, 1)
	check(old, old, true, 0, 0)
	check(old, srv.git("rev-parse", old+"~20"), true, 0, 0)
	check(old, first, true, 1, 1)
	check(first, old, false, 0, 0)
	srv.git("merge", "-q", "--no-edit", "topic")
	merge := srv.git("rev-parse", "HEAD")
	srv.update("main")
	check(merge, side, true, 1, 1)
	check(old, merge, false, 0, 0)
	check(old, side, false, 0, 0)
	check(merge, old, true, 0, 0)
	if _, err := r.Contains(t.Context(), mainRef, strings.Repeat("ab", 20), old); !errors.Is(err, gitsource.ErrNotFound) {
		t.Error(err)
	}
	check(merge, strings.Repeat("ab", 20), false, 0, 0)
	if _, err := r.Contains(t.Context(), "refs/heads/none", strings.Repeat("ab", 20), old); !errors.Is(err, gitsource.ErrNotFound) {
		t.Error(err)
	}
	srv.Close()
	check(merge, side, true, 0, 0)
	if _, err := r.Contains(t.Context(), mainRef, strings.Repeat("ab", 20), old); !errors.Is(err, gitsource.ErrUnreachable) {
		t.Error(err)
	}
}

func TestAHostileServerCannotHoldUpOrFlood(t *testing.T) {
	packet := func(band byte, b []byte) []byte {
		return append(fmt.Appendf(nil, "%04x%c", len(b)+5, band), b...)
	}
	only := func(f http.HandlerFunc) func(http.ResponseWriter, *http.Request, http.Handler) {
		return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if !strings.HasSuffix(r.URL.Path, "git-upload-pack") {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			f(w, r)
		}
	}
	endless := func(count uint32) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "00000008NAK\n")
			_, _ = w.Write(packet(1, binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), count)))
			junk := packet(1, make([]byte, 60000))
			for {
				if _, err := w.Write(junk); err != nil {
					return
				}
			}
		}
	}
	empty := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := sha1.Sum(empty)
	for name, c := range map[string]struct {
		server func(http.ResponseWriter, *http.Request, http.Handler)
		want   error
	}{
		"it sends nothing":              {only(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), gitsource.ErrUnreachable},
		"it announces too many commits": {only(endless(20_001)), gitsource.ErrLimit},
		"it sends without end":          {only(endless(10)), gitsource.ErrLimit},
		"it sends nothing and calls it all": {only(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append([]byte("00000008NAK\n"), packet(1, append(empty, sum[:]...))...))
		}), gitsource.ErrCorrupt},
		"it sends something else": {only(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>"+password) }), gitsource.ErrCorrupt},
		"it fails":                {only(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, password, http.StatusInternalServerError) }), gitsource.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newForge(t)
			onePull(srv)
			srv.during(c.server)
			// Git's own server may be slow to answer; only one that says nothing is given up.
			longTimeout := func(*Config) {}
			if errors.Is(c.want, gitsource.ErrUnreachable) {
				longTimeout = impatient
			}
			r := srv.repository(longTimeout, login("git", password), func(c *Config) { c.Limits.PackBytes = 4 << 20 })
			leavesNothingBehind(t, r, c.want)
			srv.during(nil)
			if !errors.Is(c.want, gitsource.ErrLimit) { // a refused pair is not asked for again
				patient := srv.repository(login("git", password), func(c *Config) { c.Dir = r.cache.Folder() })
				mustCompare(t, patient, mainRef, pullRef)
			}
		})
	}
}

// leavesNothingBehind compares with a hostile server: it fails soon, and keeps nothing.
func leavesNothingBehind(t *testing.T, r *Repository, want error) {
	t.Helper()
	begin := time.Now()
	t.Log(compareFails(t, r, mainRef, pullRef, want))
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("it took %s", d)
	}
	if left, _ := filepath.Glob(filepath.Join(r.cache.Folder(), "gen-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
