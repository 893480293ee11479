package comments_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
)

// board is a pull request's comments; what happens next is decided by hooks.
type board struct {
	items  []comments.Item
	next   int64
	before func(call string) error
}

func (b *board) call(name string) error {
	if b.before == nil {
		return nil
	}
	return b.before(name)
}

func (b *board) All(context.Context) ([]comments.Item, error) {
	return slices.Clone(b.items), b.call("all")
}

func (b *board) Create(_ context.Context, body string) (comments.Item, error) {
	if err := b.call("create"); err != nil {
		return comments.Item{}, err
	}
	b.next++
	b.items = append(b.items, comments.Item{ID: b.next, Mine: true, Body: body})
	return b.items[len(b.items)-1], nil
}

func (b *board) find(id int64) (int, error) {
	i := slices.IndexFunc(b.items, func(c comments.Item) bool { return c.ID == id })
	if i < 0 {
		return 0, &forge.Error{Code: http.StatusNotFound}
	}
	return i, nil
}

func (b *board) Edit(_ context.Context, id int64, body string) (comments.Item, error) {
	if err := b.call("edit"); err != nil {
		return comments.Item{}, err
	}
	i, err := b.find(id)
	if err != nil {
		return comments.Item{}, err
	}
	b.items[i].Body = body
	return b.items[i], nil
}

func (b *board) Delete(_ context.Context, id int64) error {
	if err := b.call("delete"); err != nil {
		return err
	}
	i, err := b.find(id)
	if err == nil {
		b.items = slices.Delete(b.items, i, i+1)
	}
	return err
}

const marker = forge.Marker("<!-- m -->")

const text = string(marker) + "\nnew"

var desired = forge.Comment{Marker: marker, Body: "new"}

// most is more than any of these comments has.
const most = 1000

func TestACrashAfterAnyCallLeavesOneCommentInTheEnd(t *testing.T) {
	crash := errors.New("crash")
	starts := map[string][]comments.Item{
		"nothing":     nil,
		"an old one":  {{ID: 1, Mine: true, Body: string(marker) + "\nold"}},
		"two of ours": {{ID: 2, Mine: true, Body: string(marker)}, {ID: 1, Mine: true, Body: string(marker) + "\nold"}},
		"a person's":  {{ID: 1, Body: string(marker) + "\nforged"}},
	}
	for name, start := range starts {
		for at := 1; at < 10; at++ {
			b := &board{items: slices.Clone(start), next: 10}
			n := 0
			b.before = func(string) error {
				if n++; n == at {
					return crash
				}
				return nil
			}
			_, _, err := comments.Upsert(t.Context(), b, desired, most, 0)
			crashed := errors.Is(err, crash)
			if err != nil && !crashed {
				t.Fatal(err)
			}
			b.before = nil
			if _, _, err := comments.Upsert(t.Context(), b, desired, most, 0); err != nil {
				t.Fatal(err)
			}
			ours := slices.DeleteFunc(slices.Clone(b.items), func(c comments.Item) bool { return !c.Mine })
			if len(ours) != 1 || ours[0].Body != text || name == "two of ours" && ours[0].ID != 1 {
				t.Errorf("%s, crash at call %d: %+v", name, at, b.items)
			}
			if name == "a person's" && (b.items[0].Mine || b.items[0].Body != start[0].Body) {
				t.Errorf("a person's comment was touched: %+v", b.items)
			}
			if !crashed {
				break
			}
		}
	}
}

func TestACommentThatIsDeletedWhileItIsEditedIsMadeAgain(t *testing.T) {
	b := &board{items: []comments.Item{{ID: 1, Mine: true, Body: string(marker) + "\nold"}}, next: 10}
	b.before = func(call string) error {
		if call == "edit" {
			b.items, b.before = nil, nil
		}
		return nil
	}
	kept, written, err := comments.Upsert(t.Context(), b, desired, most, 0)
	if err != nil || !written || kept.ID != 11 || len(b.items) != 1 {
		t.Errorf("%+v, %v, %v: %+v", kept, written, err, b.items)
	}
}

func TestAForgeThatLosesWhatItTakesIsAnError(t *testing.T) {
	b := &board{}
	lists := 0
	b.before = func(call string) error {
		if call == "all" {
			if lists++; lists > 10 {
				t.Fatal("it tries for ever")
			}
		}
		if call == "edit" {
			return &forge.Error{Code: http.StatusNotFound}
		}
		return nil
	}
	b.items = []comments.Item{{ID: 5, Mine: true, Body: string(marker)}}
	var known *forge.Error
	if _, _, err := comments.Upsert(t.Context(), b, desired, most, 0); !errors.As(err, &known) || known.Permanent() {
		t.Errorf("got %v", err)
	}
}
