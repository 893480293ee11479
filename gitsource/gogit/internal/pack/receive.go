// Package pack stores the packs that a Git server sends: each is inspected before it is
// unpacked, completed where it is thin, and indexed. It refuses packs beyond their Limits and
// writes that are not granted, keeps no part of a pack that it refuses, and connects to
// nothing. Start reading at Store.Receive.
package pack

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"github.com/poolwright/poolwright/gitsource"
)

// Limits bound what one transfer may cost; sizes are in bytes.
type Limits struct {
	// PackBytes is the size of the pack as it is sent, and of its file.
	PackBytes int64
	// ObjectBytes is the size of any one object, unpacked.
	ObjectBytes int64
	// UnpackedBytes is the size of all objects.
	UnpackedBytes int64
	// Objects is their number.
	Objects int
}

// TooManyBytes is the error of a pack that has more than PackBytes, a gitsource.ErrLimit.
func (l Limits) TooManyBytes() error {
	return fmt.Errorf("%w: the newest tree takes more than %d MiB to transfer", gitsource.ErrLimit, l.PackBytes>>20)
}

func (l Limits) tooManyObjects() error {
	return fmt.Errorf("%w: the newest tree has more than %d objects", gitsource.ErrLimit, l.Objects)
}

// Receive writes a pack to a temporary file, checks and indexes it there,
// and gives it its name last. A pack that announces too many objects is not
// read further. An error of reading it is returned as it is; one of a pack that
// is broken is a gitsource.ErrCorrupt, of one beyond the limits a gitsource.ErrLimit, and of
// one beyond what the Store may grow by ErrFull.
func (s *Store) Receive(ctx context.Context, r io.Reader, limits Limits) error {
	f, err := s.create()
	if err != nil {
		return fmt.Errorf("writing the cache: %w", err)
	}
	defer f.discard()
	in := bufio.NewReader(io.LimitReader(r, limits.PackBytes+1))
	if head, err := in.Peek(packHeader); err == nil && announced(head) > int64(limits.Objects) {
		return limits.tooManyObjects()
	}
	w := &faultyWriter{w: f}
	n, err := io.Copy(w, in)
	switch {
	case w.err != nil:
		return fmt.Errorf("writing the cache: %w", w.err)
	case err != nil:
		return err
	case n > limits.PackBytes:
		return limits.TooManyBytes()
	}
	return installPack(ctx, f, limits)
}

// faultyWriter distinguishes a full disk from a broken connection.
type faultyWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (w *faultyWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}
