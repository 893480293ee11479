package pack

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

func indexPack(ctx context.Context, f *packFile) error {
	index := new(idxfile.Writer)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("reading the cache: %w", err)
	}
	parser, err := packfile.NewParser(packfile.NewScanner(interruptible{ctx, f}), index)
	if err != nil {
		return unreadable(ctx, "indexing objects", err)
	}
	sum, err := parser.Parse()
	if err != nil {
		return unreadable(ctx, "indexing objects", err)
	}
	if err := writeIndex(index, f.store, fmt.Sprintf("pack-%s.idx", sum)); err != nil {
		return fmt.Errorf("writing the cache: %w", err)
	}
	if err := f.rename(fmt.Sprintf("pack-%s.pack", sum)); err != nil {
		return fmt.Errorf("writing the cache: %w", err)
	}
	return nil
}

func writeIndex(index *idxfile.Writer, to *Store, name string) error {
	idx, err := index.Index()
	if err != nil {
		return err
	}
	f, err := to.create()
	if err != nil {
		return err
	}
	defer f.discard()
	w := bufio.NewWriter(f)
	if _, err := idxfile.NewEncoder(w).Encode(idx); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.rename(name)
}
