package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// eachItem reads all pages of a list.
func eachItem[T any](ctx context.Context, f *Forge, path string, query url.Values, do func(T) error) error {
	number := 1
	for range maxPages {
		next, err := readPage(ctx, f, path, query, number, pageSize, do)
		if err != nil || next == 0 {
			return err
		}
		number = next
	}
	return fmt.Errorf("more than %d pages", maxPages)
}

// readPage reads a page of a list, and returns the number of the next, 0 at the end. Where the
// response is too long, it reads the same items in smaller pages: the description of a merge request and the
// text of a note may have a million characters each, and anybody can write them.
func readPage[T any](ctx context.Context, f *Forge, path string, query url.Values, number, size int, do func(T) error) (next int, err error) {
	query.Set("page", strconv.Itoa(number))
	query.Set("per_page", strconv.Itoa(size))
	var list []T
	next, err = f.call(ctx, http.MethodGet, path, query, nil, &list)
	if errors.Is(err, rest.ErrTooLong) && size > 1 {
		return readParts(ctx, f, path, query, number, size, do)
	}
	if err != nil {
		return 0, err
	}
	for _, item := range list {
		if err := do(item); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// readParts reads a page as two or five smaller ones.
func readParts[T any](ctx context.Context, f *Forge, path string, query url.Values, number, size int, do func(T) error) (next int, err error) {
	parts := 5
	if size%2 == 0 {
		parts = 2
	}
	for part := range parts {
		next, err = readPage(ctx, f, path, query, (number-1)*parts+part+1, size/parts, do)
		if err != nil || next == 0 {
			return 0, err
		}
	}
	return number + 1, nil
}
