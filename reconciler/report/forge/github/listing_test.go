package github_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func list(t *testing.T, f forge.Forge, since forge.Listing) forge.Listing {
	t.Helper()
	listing, err := f.PullRequests(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return listing
}

func numbers(list []forge.PullRequest) []int {
	out := make([]int, len(list))
	for i, p := range list {
		out[i] = p.Number
	}
	return out
}

func count(from, to int) []int {
	out := []int{}
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

func TestAHundredPullRequestsWithoutChangeCostOneConditionalRequest(t *testing.T) {
	h := newHub(t)
	h.add(100)
	f := h.forge(t)
	listing := list(t, f, forge.Listing{})
	if diff := cmp.Diff(count(1, 100), numbers(listing.Open)); diff != "" || listing.Unchanged {
		t.Fatalf("unchanged %v: %s", listing.Unchanged, diff)
	}
	h.counted()
	for range 5 {
		h.change(func(time.Time) { h.clock = h.clock.Add(3 * time.Hour) }) // also when all was read long ago
		listing = list(t, f, listing)
		if got := h.counted(); len(got) != 1 || !strings.HasSuffix(got[0], " 304") || !listing.Unchanged {
			t.Fatalf("unchanged %v after %q", listing.Unchanged, got)
		}
	}
	if len(listing.Open) != 100 {
		t.Errorf("%d are left", len(listing.Open))
	}
}

func TestEveryPageIsRead(t *testing.T) {
	h := newHub(t)
	h.add(350)
	if got := list(t, h.forge(t), forge.Listing{}); !slices.Equal(numbers(got.Open), count(1, 350)) {
		t.Errorf("%d of 350: %v", len(got.Open), numbers(got.Open))
	}
}

func TestAChangeCostsOnePage(t *testing.T) {
	h := newHub(t)
	h.add(250)
	f := h.forge(t)
	listing := list(t, f, forge.Listing{})
	tests := []struct {
		name  string
		edit  func(now time.Time)
		check func(before, after forge.Listing) bool
	}{
		{"a forced push", func(now time.Time) { h.pulls[2].sha, h.pulls[2].updated = sha(77), now },
			func(_, l forge.Listing) bool { return l.Open[2].Head.SHA == sha(77) && len(l.Open) == 250 }},
		{"one that is closed", func(now time.Time) { h.pulls[9].open, h.pulls[9].updated = false, now },
			func(_, l forge.Listing) bool {
				return !slices.Contains(numbers(l.Open), 10) && len(l.Open) == 249 && len(l.Merged) == 0
			}},
		{"one that is merged", func(now time.Time) { h.pulls[4].open, h.pulls[4].merged, h.pulls[4].updated = false, now, now },
			func(_, l forge.Listing) bool {
				return len(l.Open) == 248 && len(l.Merged) == 1 && l.Merged[0].MergeCommit == sha(905) && !l.Merged[0].Merged.IsZero()
			}},
		{"one that is opened again", func(now time.Time) { h.pulls[9].open, h.pulls[9].updated = true, now },
			func(_, l forge.Listing) bool { return slices.Contains(numbers(l.Open), 10) && len(l.Open) == 249 }},
		{"the second change of a second", func(now time.Time) { h.pulls[9].sha, h.pulls[9].updated = sha(78), now.Add(-time.Second) },
			func(_, l forge.Listing) bool { return l.Open[8].Head.SHA == sha(78) }},
	}
	for _, tt := range tests {
		h.change(tt.edit)
		h.counted()
		after := list(t, f, listing)
		if got := h.counted(); after.Unchanged || !tt.check(listing, after) || len(got) > 3 {
			t.Errorf("%s: unchanged %v, open %v, merged %v, requests %q", tt.name, after.Unchanged, numbers(after.Open), numbers(after.Merged), got)
		}
		listing = after
	}
}

func TestWhatDoesNotConcernUsIsNoChange(t *testing.T) {
	h := newHub(t)
	h.add(3)
	f := h.forge(t)
	listing := list(t, f, forge.Listing{})
	h.change(func(now time.Time) { h.pulls[0].open, h.pulls[0].updated = false, now })
	listing = list(t, f, listing)
	h.change(func(now time.Time) { h.pulls[0].title, h.pulls[0].updated = "Never mind", now })
	if after := list(t, f, listing); !after.Unchanged {
		t.Errorf("a closed one's title is a change: %+v", after)
	}
}

func TestWhatIsClosedWhilePagesAreReadHidesNone(t *testing.T) {
	h := newHub(t)
	h.add(250)
	closed := false
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if q := r.URL.Query(); q.Get("state") == "open" && q.Get("page") == "2" && !closed {
			// Numbers 101 and 201 move to the page before.
			closed = true
			h.clock = h.clock.Add(time.Second)
			h.pulls[5].open, h.pulls[5].updated = false, h.clock
		}
		return false
	}
	got := list(t, h.forge(t), forge.Listing{})
	want := slices.DeleteFunc(count(1, 250), func(n int) bool { return n == 6 })
	if diff := cmp.Diff(want, numbers(got.Open)); diff != "" {
		t.Error(diff)
	}
}

func TestMoreChangesThanArePracticalAreReadInFull(t *testing.T) {
	h := newHub(t)
	h.add(1500)
	f := h.forge(t)
	listing := list(t, f, forge.Listing{})
	h.change(func(now time.Time) {
		h.clock = now.Add(10 * time.Minute)
		for _, p := range h.pulls {
			p.updated, p.open = h.clock, p.number%2 == 0
		}
	})
	if got := list(t, f, listing); len(got.Open) != 750 || got.Unchanged {
		t.Errorf("%d are open, unchanged %v", len(got.Open), got.Unchanged)
	}
}

func TestForksAndHostileResponsesAreDetected(t *testing.T) {
	h := newHub(t)
	h.add(4)
	h.change(func(time.Time) {
		h.pulls[0].headRepo = 200
		h.pulls[1].headRepo, h.pulls[1].login = 0, ""
		h.pulls[2].sha, h.pulls[2].branch = "../../x", "a`b\n<script>"
		h.pulls[3].sha = strings.ToUpper(sha(0xabc))
		h.pulls[3].draft = true
	})
	got := list(t, h.forge(t), forge.Listing{}).Open
	if !got[0].Fork || !got[1].Fork || got[2].Fork || got[3].Fork {
		t.Errorf("forks: %+v", got)
	}
	if got[2].Head.SHA != "" || got[2].Head.Name != "a`b\n<script>" || got[3].Head.SHA != sha(0xabc) || !got[3].Draft || got[0].MergeCommit != "" {
		t.Errorf("got %+v", got)
	}
}
