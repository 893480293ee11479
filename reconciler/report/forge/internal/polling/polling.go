// Package polling keeps a listing of pull requests up to date with as few
// requests as can be: it decides the order in which pages are requested, and depends on
// no forge.
//
// Sorted by change, newest first and in every state, the first page of a
// repository's pull requests differs whenever any of them has changed. So one
// request, conditional where the forge supports that, shows that nothing did; and when
// something did, pages are read only back to what was read before. The package refuses
// to trust that forever: with a change, all open pull requests are read again once an
// hour. Start reading at Next.
package polling

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Item is a pull request and whether it is open.
type Item struct {
	forge.PullRequest
	Open bool
}

// Query is a request for one page.
type Query struct {
	// Recent requests pull requests in every state, the last changed first; otherwise for
	// the open ones, oldest first.
	Recent bool
	Number int // from 1
	// ETag is the validator of the page as it was last read; may be empty.
	ETag string
}

// Page is a forge's response.
type Page struct {
	Items []Item
	// Next is the number of the next page, 0 at the end.
	Next int
	// ETag is this page's validator; empty where the forge has none.
	ETag string
	// Unchanged is true where the page still has the validator Query.ETag; Items is empty.
	Unchanged bool
}

// Source reads a page.
type Source func(context.Context, Query) (Page, error)

const (
	// fullAge is after what time a change makes all open ones be read again.
	fullAge = time.Hour
	// overlap is read once more below the newest change that was read, because forges date
	// some changes a little late.
	overlap = 2 * time.Minute
	// recentPages bounds how far changes are followed back; more of them are
	// cheaper to learn by reading all.
	recentPages = 10
	// mergedPages bounds how far merged ones are read at the start.
	mergedPages = 3
	mergedAge   = 30 * 24 * time.Hour
	// mergedCount is how many merged ones are kept of each base branch, mergedTotal of
	// all: of a busy branch none may push out those of one with few.
	mergedCount = 50
	mergedTotal = 1000
	// openPages is a bound against a forge whose pages never end.
	openPages = 200
	attempts  = 3
)

// Next is the listing that follows since.
func Next(ctx context.Context, since forge.Listing, now time.Time, from Source) (forge.Listing, error) {
	source := from.bounded
	if since.Cursor.Full.IsZero() {
		return full(ctx, since, now, source)
	}
	first, err := source(ctx, Query{Recent: true, Number: 1, ETag: since.Cursor.ETag})
	if err != nil {
		return forge.Listing{}, err
	}
	if first.Unchanged {
		since.Unchanged = true
		return since, nil
	}
	changed, reached, err := back(ctx, first, since.Cursor.Updated.Add(-overlap), recentPages, source)
	if err != nil {
		return forge.Listing{}, err
	}
	next := forge.Listing{Cursor: nextCursor(first, since.Cursor.Updated, now)}
	next.Cursor.Full = since.Cursor.Full
	next.Open, next.Merged = apply(since, changed, now)
	next.Unchanged = slices.Equal(next.Open, since.Open) && slices.Equal(next.Merged, since.Merged)
	if !reached || !next.Unchanged && now.Sub(since.Cursor.Full) > fullAge {
		return full(ctx, since, now, source)
	}
	return next, nil
}

// textBytes is the most that is kept of a title, name or address. Forges allow
// less; what claims to be one may send pages full of one title, and the listing
// stays in memory.
const textBytes = 1024

// bounded is the source without texts that are too long.
func (s Source) bounded(ctx context.Context, q Query) (Page, error) {
	page, err := s(ctx, q)
	for i := range page.Items {
		Bound(&page.Items[i].PullRequest)
	}
	return page, err
}

// Bound cuts the title, names and address of a pull request to 1024 bytes each.
func Bound(p *forge.PullRequest) {
	for _, text := range []*string{&p.Title, &p.Author, &p.URL, &p.Head.Name, &p.Base.Name} {
		if len(*text) > textBytes {
			*text = strings.Clone(strings.ToValidUTF8((*text)[:textBytes], ""))
		}
	}
}

// back reads on from a page of recent changes to those before the time.
// It does not reach them when there are too many.
func back(ctx context.Context, page Page, until time.Time, most int, source Source) (out []Item, reached bool, err error) {
	for number := 1; ; number++ {
		out = append(out, page.Items...)
		last := len(page.Items) - 1
		if last < 0 || page.Next == 0 || page.Items[last].Updated.Before(until) {
			return out, true, nil
		}
		if number == most {
			return out, false, nil
		}
		if page, err = source(ctx, Query{Recent: true, Number: page.Next}); err != nil {
			return nil, false, err
		}
	}
}

// full reads everything. Pages shift while they are read when a pull request
// is closed meanwhile, and one would be missed: so the newest changes are read
// before and after, and have to be the same. A repository that never rests is
// taken as it was read, and read in full again the next time.
func full(ctx context.Context, since forge.Listing, now time.Time, source Source) (forge.Listing, error) {
	for attempt := 1; ; attempt++ {
		first, err := source(ctx, Query{Recent: true, Number: 1})
		if err != nil {
			return forge.Listing{}, err
		}
		recent, _, err := back(ctx, first, now.Add(-mergedAge), mergedPages, source)
		if err != nil {
			return forge.Listing{}, err
		}
		open, pages, err := allOpen(ctx, source)
		if err != nil {
			return forge.Listing{}, err
		}
		next := forge.Listing{Open: open, Cursor: nextCursor(first, time.Time{}, now)}
		_, next.Merged = apply(forge.Listing{Merged: since.Merged}, recent, now)
		next.Unchanged = since.Cursor != (forge.Cursor{}) && slices.Equal(next.Open, since.Open) && slices.Equal(next.Merged, since.Merged)
		if pages <= 1 {
			return next, nil
		}
		// One that was closed and opened again within a second shows no difference. The next
		// listing reads the newest changes without condition.
		next.Cursor.ETag = ""
		again, err := source(ctx, Query{Recent: true, Number: 1, ETag: first.ETag})
		if err != nil {
			return forge.Listing{}, err
		}
		if (again.Unchanged || slices.Equal(again.Items, first.Items)) && !crowded(first, now) {
			return next, nil
		}
		if attempt == attempts {
			next.Cursor.Full = time.Time{}
			return next, nil
		}
	}
}

func allOpen(ctx context.Context, source Source) (out []forge.PullRequest, pages int, err error) {
	for number := 1; number != 0; pages++ {
		if pages == openPages {
			return nil, pages, &forge.Error{
				Operation: "listing open pull requests", Message: fmt.Sprintf("there are more than %d pages", openPages), Remedy: "close those that are not needed",
			}
		}
		page, err := source(ctx, Query{Number: number})
		if err != nil {
			return nil, pages, err
		}
		for _, item := range page.Items {
			if item.Open {
				out = append(out, item.PullRequest)
			}
		}
		number = page.Next
	}
	slices.SortStableFunc(out, func(a, b forge.PullRequest) int { return a.Number - b.Number })
	// One that moved to a later page while pages were read is there twice.
	return slices.CompactFunc(out, func(a, b forge.PullRequest) bool { return a.Number == b.Number }), pages, nil
}

// apply brings changes, newest first, into a listing.
func apply(before forge.Listing, changed []Item, now time.Time) (open, merged []forge.PullRequest) {
	current := map[int]bool{}
	for _, item := range changed {
		if current[item.Number] {
			continue
		}
		current[item.Number] = true
		switch {
		case item.Open:
			open = append(open, item.PullRequest)
		case !item.Merged.IsZero():
			merged = append(merged, item.PullRequest)
		}
	}
	stays := func(list, more []forge.PullRequest) []forge.PullRequest {
		for _, p := range more {
			if !current[p.Number] {
				list = append(list, p)
			}
		}
		return list
	}
	open, merged = stays(open, before.Open), stays(merged, before.Merged)
	slices.SortFunc(open, func(a, b forge.PullRequest) int { return a.Number - b.Number })
	slices.SortFunc(merged, func(a, b forge.PullRequest) int {
		if c := b.Merged.Compare(a.Merged); c != 0 {
			return c
		}
		return b.Number - a.Number
	})
	merged = slices.DeleteFunc(merged, func(p forge.PullRequest) bool { return now.Sub(p.Merged) > mergedAge })
	into := map[string]int{}
	merged = slices.DeleteFunc(merged, func(p forge.PullRequest) bool {
		into[p.Base.Name]++
		return into[p.Base.Name] > mergedCount
	})
	return open, merged[:min(len(merged), mergedTotal)]
}

// nextCursor notes where the next listing goes on after this page of recent changes.
func nextCursor(page Page, updated, now time.Time) forge.Cursor {
	out := forge.Cursor{ETag: page.ETag, Updated: updated, Full: now}
	if len(page.Items) > 0 && page.Items[0].Updated.After(updated) {
		out.Updated = page.Items[0].Updated
	}
	if crowded(page, now) {
		out.ETag = ""
	}
	return out
}

// crowded reports a page of recent changes that proves nothing by staying as it
// is. Forges date changes to the second: where a whole page is of one second,
// and that second may not be over, one more change in it may show on a later
// page only.
func crowded(page Page, now time.Time) bool {
	last := len(page.Items) - 1
	return page.Next != 0 && last >= 0 && page.Items[0].Updated.Equal(page.Items[last].Updated) &&
		now.Sub(page.Items[last].Updated) < overlap
}
