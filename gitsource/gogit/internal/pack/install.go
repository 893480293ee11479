package pack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"

	"github.com/poolwright/poolwright/gitsource"
)

// installPack checks a received pack against the limits, completes it where it
// is thin, indexes it and gives index and pack their names, the pack last: a pack is
// read only when its index is whole.
func installPack(ctx context.Context, f *packFile, limits Limits) error {
	in, err := inspectPack(interruptible{ctx, f}, f.store.folder, limits)
	if err != nil || in.count == 0 {
		return err
	}
	if len(in.bases.order) > 0 {
		if f, err = in.bases.complete(f, in.count); err != nil {
			return err
		}
		defer f.discard()
	}
	return indexPack(ctx, f)
}

// interruptible is a file that cannot be read any more once ctx has ended: go-git has
// no other way to stop.
type interruptible struct {
	ctx context.Context
	io.ReadSeeker
}

// Read implements io.Reader.
func (r interruptible) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, interrupted(r.ctx)
	}
	return r.ReadSeeker.Read(p)
}

// interrupted is the error of work that its context ended.
func interrupted(ctx context.Context) error {
	return fmt.Errorf("%w: not finished in time: %w", gitsource.ErrUnreachable, ctx.Err())
}

// unreadable distinguishes a pack that is broken from one that nobody waits for any
// more.
func unreadable(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, interrupted(ctx))
	}
	return fmt.Errorf("%s: %w: %w", doing, gitsource.ErrCorrupt, err)
}

// maxChainBytes bounds what resolving one chain of deltas may hold in memory
// at once.
const maxChainBytes = 128 << 20

// inspection walks a pack once without keeping any object, so that a bomb is
// found before the indexer, which unpacks in memory, reads it.
type inspection struct {
	limits   Limits
	count    uint32
	bases    *bases
	unpacked int64
	refDelta int64
	// chain is, by offset, the bytes that resolving the object there needs.
	chain map[int64]int64
}

// packHeader is the length of a pack's header: a signature, a version, a count.
const packHeader = 12

// announced is the number of objects that a pack's header names.
func announced(header []byte) int64 { return int64(binary.BigEndian.Uint32(header[8:packHeader])) }

func inspectPack(f interruptible, folder string, limits Limits) (*inspection, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	s := packfile.NewScanner(f)
	_, count, err := s.Header()
	if err != nil {
		return nil, unreadable(f.ctx, "reading objects", err)
	}
	if int64(count) > int64(limits.Objects) {
		return nil, limits.tooManyObjects()
	}
	in := &inspection{
		limits: limits, count: count, bases: newBases(folder, limits), chain: make(map[int64]int64, min(count, 1<<12)),
	}
	for range count {
		h, err := s.NextObjectHeader()
		if err == nil {
			err = in.object(s, h)
		}
		switch {
		case errors.Is(err, gitsource.ErrLimit):
			return nil, err
		case err != nil:
			return nil, unreadable(f.ctx, "reading objects", err)
		}
	}
	if _, err := s.Checksum(); err != nil {
		return nil, unreadable(f.ctx, "reading objects", err)
	}
	return in, nil
}

func (in *inspection) object(s *packfile.Scanner, h *packfile.ObjectHeader) error {
	size := h.Length
	if size > in.limits.ObjectBytes {
		return in.tooLarge()
	}
	head := &prefix{}
	if _, _, err := s.NextObject(head); err != nil {
		return err
	}
	var parent int64
	if h.Type.IsDelta() {
		target, err := deltaTarget(head.b)
		if err != nil {
			return err
		}
		if target > in.limits.ObjectBytes {
			return in.tooLarge()
		}
		size += target
		if parent, err = in.parent(h, size); err != nil {
			return err
		}
	}
	in.chain[h.Offset] = parent + size
	if in.chain[h.Offset] > maxChainBytes {
		return fmt.Errorf("%w: a chain of deltas unpacks to more than %d MiB", gitsource.ErrLimit, maxChainBytes>>20)
	}
	in.unpacked += size
	if in.unpacked > in.limits.UnpackedBytes {
		return fmt.Errorf("%w: the newest tree unpacks to more than %d MiB", gitsource.ErrLimit, in.limits.UnpackedBytes>>20)
	}
	return nil
}

// parent is what resolving a delta's base needs.
func (in *inspection) parent(h *packfile.ObjectHeader, size int64) (int64, error) {
	if h.Type == plumbing.OFSDeltaObject {
		return in.chain[h.OffsetReference], nil
	}
	base, present, err := in.bases.size(h.Reference)
	if err != nil || present {
		return base, err
	}
	// The base is known by name only; all such deltas together are bounded as
	// if they were one chain.
	in.refDelta += size
	return in.refDelta, nil
}

func (in *inspection) tooLarge() error {
	return fmt.Errorf("%w: a file is larger than %d MiB; keep large files out of this repository", gitsource.ErrLimit, in.limits.ObjectBytes>>20)
}

// deltaTarget reads the second number of a delta: the size of its result.
func deltaTarget(b []byte) (int64, error) {
	_, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, errors.New("malformed delta")
	}
	target, m := binary.Uvarint(b[n:])
	if m <= 0 || target > 1<<62 {
		return 0, errors.New("malformed delta")
	}
	return int64(target), nil
}

// prefix keeps the first bytes written to it.
type prefix struct{ b []byte }

func (p *prefix) Write(b []byte) (int, error) {
	if length := 2*binary.MaxVarintLen64 - len(p.b); length > 0 {
		p.b = append(p.b, b[:min(length, len(b))]...)
	}
	return len(b), nil
}
