package polling_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/polling"
)

// model is a forge whose times have whole seconds, with small pages.
type model struct {
	random    *rand.Rand
	pulls     []polling.Item
	clock     time.Time
	tags      bool // it knows conditional requests
	busy      bool // people go on working between pages
	requested int
	fail      int // the request that fails, counted from 1
}

const pageSize = 4

// step is something that a person does.
func (m *model) step() {
	if m.random.IntN(3) == 0 {
		m.clock = m.clock.Add(time.Duration(m.random.IntN(1500)) * time.Second)
	}
	now := m.clock.Truncate(time.Second)
	if len(m.pulls) == 0 || m.random.IntN(4) == 0 {
		m.pulls = append(m.pulls, polling.Item{Open: true, PullRequest: forge.PullRequest{Number: len(m.pulls) + 1, Updated: now}})
		return
	}
	p := &m.pulls[m.random.IntN(len(m.pulls))]
	p.Updated = now
	switch m.random.IntN(4) {
	case 0:
		p.Head.SHA = fmt.Sprintf("%040x", m.random.Uint64())
	case 1:
		p.Title += "!"
	case 2:
		p.Open = !p.Open && p.Merged.IsZero()
	case 3:
		if p.Open {
			p.Open, p.Merged, p.MergeCommit = false, now, "made"
		}
	}
}

func (m *model) source(_ context.Context, q polling.Query) (polling.Page, error) {
	if m.requested++; m.requested == m.fail {
		return polling.Page{}, errors.New("down")
	}
	if m.busy && m.random.IntN(3) == 0 {
		m.step()
	}
	found := slices.Clone(m.pulls)
	if q.Recent {
		slices.SortStableFunc(found, func(a, b polling.Item) int { return b.Updated.Compare(a.Updated) })
	} else {
		found = slices.DeleteFunc(found, func(p polling.Item) bool { return !p.Open })
	}
	from := min(len(found), (q.Number-1)*pageSize)
	page := polling.Page{Items: found[from:min(len(found), from+pageSize)]}
	if from+pageSize < len(found) {
		page.Next = q.Number + 1
	}
	if m.tags {
		page.ETag = fmt.Sprintf("%d %+v", page.Next, page.Items)
		if q.ETag == page.ETag {
			return polling.Page{ETag: q.ETag, Unchanged: true}, nil
		}
	}
	return page, nil
}

func (m *model) open() []forge.PullRequest {
	var out []forge.PullRequest
	for _, p := range m.pulls {
		if p.Open {
			out = append(out, p.PullRequest)
		}
	}
	return out
}

func (m *model) merged() int {
	n := 0
	for _, p := range m.pulls {
		if !p.Merged.IsZero() && m.clock.Sub(p.Merged) <= 30*24*time.Hour {
			n++
		}
	}
	return min(n, 50)
}

func TestWhateverHappensTheListingFollows(t *testing.T) {
	for seed := range uint64(300) {
		m := &model{random: rand.New(rand.NewPCG(seed, 1)), clock: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), tags: seed%2 == 0}
		for range m.random.IntN(60) {
			m.step()
		}
		var listing forge.Listing
		for round := range 30 {
			m.busy = m.random.IntN(2) == 0
			if m.random.IntN(10) == 0 {
				m.fail = m.requested + 1 + m.random.IntN(4)
			}
			for range m.random.IntN(4) {
				m.step()
			}
			if next, err := polling.Next(t.Context(), listing, m.clock, m.source); err == nil {
				listing = next
			}
			if round%5 != 4 {
				continue
			}
			// People rest: one poll later the truth is known, and then there is
			// no change.
			m.busy, m.fail = false, 0
			for i := range 3 {
				next, err := polling.Next(t.Context(), listing, m.clock, m.source)
				if err != nil {
					t.Fatal(err)
				}
				listing = next
				if diff := cmp.Diff(m.open(), listing.Open); diff != "" {
					t.Fatalf("seed %d, round %d, poll %d: %s", seed, round, i, diff)
				}
				if i > 1 && !listing.Unchanged {
					t.Fatalf("seed %d, round %d: at rest, yet changed", seed, round)
				}
			}
		}
		if len(listing.Merged) > m.merged() {
			t.Errorf("seed %d: %d are merged, and %d are told", seed, m.merged(), len(listing.Merged))
		}
	}
}

func TestAPollAtRestIsOneRequest(t *testing.T) {
	for _, tags := range []bool{true, false} {
		m := &model{random: rand.New(rand.NewPCG(1, 1)), clock: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), tags: tags}
		for range 200 {
			m.step()
		}
		m.clock = m.clock.Add(time.Hour)
		listing, err := polling.Next(t.Context(), forge.Listing{}, m.clock, m.source)
		if err != nil {
			t.Fatal(err)
		}
		m.clock, m.requested = m.clock.Add(24*time.Hour), 0
		listing, err = polling.Next(t.Context(), listing, m.clock, m.source)
		if err != nil || !listing.Unchanged {
			t.Errorf("unchanged %v, %v", listing.Unchanged, err)
		}
		if tags && m.requested != 1 || m.requested > 2 {
			t.Errorf("%d requests, tags %v", m.requested, tags)
		}
	}
}

func TestPagesWithoutEndAreAnError(t *testing.T) {
	endless := func(_ context.Context, q polling.Query) (polling.Page, error) {
		return polling.Page{Next: q.Number + 1}, nil
	}
	var known *forge.Error
	if _, err := polling.Next(t.Context(), forge.Listing{}, time.Now(), endless); !errors.As(err, &known) {
		t.Error("it ended")
	}
}

func TestARepositoryThatNeverRestsIsReadAgainNextTime(t *testing.T) {
	n := 0
	restless := func(_ context.Context, q polling.Query) (polling.Page, error) {
		n++
		item := polling.Item{Open: true, PullRequest: forge.PullRequest{Number: q.Number, Title: fmt.Sprint(n)}}
		return polling.Page{Items: []polling.Item{item}, Next: (q.Number + 1) % 3}, nil
	}
	listing, err := polling.Next(t.Context(), forge.Listing{}, time.Now(), restless)
	if err != nil || len(listing.Open) != 2 || !listing.Cursor.Full.IsZero() || n > 20 {
		t.Errorf("%d requests: %+v, %v", n, listing, err)
	}
}

func TestTextsOfAPullRequestThatAreTooLongAreCut(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	source := func(_ context.Context, q polling.Query) (polling.Page, error) {
		p := forge.PullRequest{Number: 1, Title: long, Author: long, URL: "x" + long, Head: forge.Branch{Name: long}, Base: forge.Branch{Name: "main"}}
		return polling.Page{Items: []polling.Item{{PullRequest: p, Open: true}}}, nil
	}
	listing, err := polling.Next(t.Context(), forge.Listing{}, time.Now(), source)
	if err != nil || len(listing.Open) != 1 {
		t.Fatalf("got %d, %v", len(listing.Open), err)
	}
	p := listing.Open[0]
	for _, text := range []string{p.Title, p.Author, p.URL, p.Head.Name} {
		if len(text) > 1024 || len(text) < 1020 || !utf8.ValidString(text) {
			t.Errorf("%d bytes, valid %v", len(text), utf8.ValidString(text))
		}
	}
	if p.Base.Name != "main" {
		t.Errorf("the base is %q", p.Base.Name)
	}
}

func TestMergesIntoOneBranchPushOutNoneOfAnother(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var items []polling.Item
	for n := 2000; n > 0; n-- {
		// One in forty goes into a branch of its own, all others into a busy one.
		base := "busy"
		if n%40 == 0 {
			base = "quiet"
		}
		at := now.Add(time.Duration(n-2000) * time.Minute)
		items = append(items, polling.Item{PullRequest: forge.PullRequest{Number: n, Base: forge.Branch{Name: base}, Updated: at, Merged: at}})
	}
	source := func(context.Context, polling.Query) (polling.Page, error) { return polling.Page{Items: items}, nil }
	listing, err := polling.Next(t.Context(), forge.Listing{}, now, source)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]int{}
	for _, p := range listing.Merged {
		kept[p.Base.Name]++
	}
	if diff := cmp.Diff(map[string]int{"busy": 50, "quiet": 50}, kept); diff != "" {
		t.Error(diff)
	}
	if first, last := listing.Merged[0].Number, listing.Merged[len(listing.Merged)-1].Number; first != 2000 || last != 40 {
		t.Errorf("from #%d to #%d", first, last)
	}
	for i := range items {
		items[i].Base.Name = fmt.Sprint(i)
	}
	if listing, err = polling.Next(t.Context(), forge.Listing{}, now, source); err != nil || len(listing.Merged) != 1000 {
		t.Errorf("%d of as many branches, %v", len(listing.Merged), err)
	}
}
