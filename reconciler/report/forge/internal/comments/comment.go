// Package comments keeps one comment of a pull request up to date, and fits texts into what a forge
// takes. It depends on no forge, and refuses to change a comment that is not our own.
// Start reading at Upsert.
package comments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// Item is a comment at a forge. IDs grow with age of the forge, so the
// smallest is the oldest.
type Item struct {
	ID   int64
	Mine bool // written by our own user
	Body string
	URL  string
}

// Thread is the comments of one pull request. Errors of responses are *forge.Error.
type Thread interface {
	// All reads every page. It may leave out comments that are not our own, or begin with another marker.
	All(ctx context.Context) ([]Item, error)
	Create(ctx context.Context, body string) (Item, error)
	Edit(ctx context.Context, id int64, body string) (Item, error)
	Delete(ctx context.Context, id int64) error
}

// Post keeps the comment of a pull request whose body and tail may have limit bytes.
func Post(ctx context.Context, in Thread, memory *Cache[Key, int64], number int, c forge.Comment, limit int) (forge.PostedComment, error) {
	key := Key{number, c.Marker}
	var last int64
	if c.Body != "" {
		// A tail alone is never written to a comment that was not read: what
		// stands above it would be lost.
		last = memory.Get(key)
	}
	kept, written, err := Upsert(ctx, in, c, limit, last)
	if err != nil {
		return forge.PostedComment{}, err
	}
	memory.Put(key, kept.ID)
	return forge.PostedComment{URL: kept.URL, Written: written}, nil
}

// rounds is how often a comment that disappears under our hands is tried.
const rounds = 3

// Upsert makes sure that exactly one own comment is as desired. After making one it lists
// them once more: whoever else made one at the same time does so too, both find the
// same oldest one, and the younger is deleted. The returned comment has no ID where
// there is none.
//
// Last is the ID that Upsert returned before, if this process has it, else 0. Forges serve lists from
// copies that lag behind; with it a comment that is not in the list yet is not made twice.
// It is for a comment with a body: what stands above a tail alone has to be read.
func Upsert(ctx context.Context, in Thread, want forge.Comment, limit int, last int64) (kept Item, written bool, err error) {
	var made []Item
	for range rounds {
		own, err := find(ctx, in, want.Marker, made)
		if err != nil {
			return Item{}, written, err
		}
		if len(own) == 0 {
			item, err := begin(ctx, in, want, limit, last)
			if err != nil || item.ID == 0 {
				return Item{}, written, err
			}
			last, made, written = 0, append(made, item), true
			continue
		}
		oldest := own[0]
		if now := text(want, oldest.Body, limit); !equal(oldest.Body, now) {
			edited, err := in.Edit(ctx, oldest.ID, now)
			if isNotFound(err) {
				made, last = nil, 0
				continue
			}
			if err != nil {
				return Item{}, written, err
			}
			written, oldest = true, edited
		}
		for _, other := range own[1:] {
			if err := in.Delete(ctx, other.ID); err != nil && !isNotFound(err) {
				return Item{}, written, err
			}
		}
		return oldest, written, nil
	}
	return Item{}, written, &forge.Error{Operation: "keeping a comment", Message: fmt.Sprintf("it was deleted %d times while it was written", rounds)}
}

// begin edits the comment of before, should only the list not show it, or
// makes one.
func begin(ctx context.Context, in Thread, want forge.Comment, limit int, last int64) (Item, error) {
	body := text(want, "", limit)
	if last != 0 {
		item, err := in.Edit(ctx, last, body)
		if !isNotFound(err) {
			return item, err
		}
	}
	if want.EditOnly || body == "" {
		return Item{}, nil
	}
	return in.Create(ctx, body)
}

// find lists our comments with the marker, oldest first, those included that
// were made just now.
func find(ctx context.Context, in Thread, marker forge.Marker, made []Item) ([]Item, error) {
	all, err := in.All(ctx)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(append(all, made...), func(c Item) bool { return !c.Mine || !marker.IsPrefixOf(c.Body) })
	slices.SortStableFunc(own, func(a, b Item) int { return cmp.Compare(a.ID, b.ID) })
	// Pages that shift while they are read show a comment twice.
	return slices.CompactFunc(own, func(a, b Item) bool { return a.ID == b.ID }), nil
}

// equal compares bodies as forges store them: some change line ends or trim.
func equal(a, b string) bool {
	normalized := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return normalized(a) == normalized(b)
}

func isNotFound(err error) bool {
	var response *forge.Error
	return errors.As(err, &response) && response.Code == http.StatusNotFound
}
