package pack

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
)

// bases are the objects that are present that a thin pack describes changes to, in the
// order in which it names them.
type bases struct {
	folder  string // of the packs
	limits  Limits
	objects *objects.Store
	sizes   map[plumbing.Hash]int64
	order   []plumbing.Hash
	total   int64
}

func newBases(folder string, limits Limits) *bases {
	return &bases{folder: folder, limits: limits, sizes: map[plumbing.Hash]int64{}}
}

// size returns how large a base is; false when it is not present.
func (b *bases) size(id plumbing.Hash) (int64, bool, error) {
	if n, ok := b.sizes[id]; ok {
		return n, true, nil
	}
	if b.objects == nil {
		b.objects = objects.Open(filepath.Dir(filepath.Dir(b.folder)))
	}
	if present, err := b.objects.Contains(id); err != nil || !present {
		return 0, false, err
	}
	n, err := b.objects.Size(id)
	if err != nil {
		return 0, false, err
	}
	b.sizes[id] = n
	b.order = append(b.order, id)
	if b.total += n; b.total > b.limits.UnpackedBytes || n > b.limits.ObjectBytes {
		return 0, false, fmt.Errorf("%w: the changes concern more than %d MiB of files", gitsource.ErrLimit, b.limits.UnpackedBytes>>20)
	}
	return n, true, nil
}

// complete writes a thin pack of count objects anew, with the bases in front
// of it, so that it stands on its own.
func (b *bases) complete(thin *packFile, count uint32) (*packFile, error) {
	end, err := thin.Seek(-sha1.Size, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("reading the cache: %w", err)
	}
	f, err := thin.store.create()
	if err != nil {
		return nil, fmt.Errorf("writing the cache: %w", err)
	}
	out := bufio.NewWriter(f)
	sum := sha1.New()
	err = b.write(io.MultiWriter(out, sum), io.NewSectionReader(thin, packHeader, end-packHeader), count)
	if err == nil {
		err = finish(out, sum)
	}
	if err != nil {
		f.discard()
		return nil, err
	}
	return f, nil
}

func finish(out *bufio.Writer, sum hash.Hash) error {
	_, err := out.Write(sum.Sum(nil))
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return fmt.Errorf("writing the cache: %w", err)
	}
	return nil
}

func (b *bases) write(w io.Writer, body io.Reader, count uint32) error {
	header := []byte("PACK\x00\x00\x00\x02")
	header = binary.BigEndian.AppendUint32(header, count+uint32(len(b.order)))
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("writing the cache: %w", err)
	}
	for _, id := range b.order {
		kind, content, err := b.objects.ReadAny(id, b.limits.ObjectBytes)
		if err != nil {
			return err
		}
		if err := writeUndeltified(w, kind, content); err != nil {
			return fmt.Errorf("writing the cache: %w", err)
		}
	}
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("writing the cache: %w", err)
	}
	return nil
}

// writeUndeltified writes one object as a pack holds it: its type and length in
// groups of bits, the lowest first, then its content.
func writeUndeltified(w io.Writer, kind plumbing.ObjectType, content []byte) error {
	n := uint64(len(content))
	head := []byte{byte(kind)<<4 | byte(n&0x0f)}
	for n >>= 4; n > 0; n >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(n&0x7f))
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	_, err := w.Write(append(head, packed.Bytes()...))
	return err
}
