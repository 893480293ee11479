package artifact

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"

	"github.com/poolwright/poolwright/gitsource"
)

const (
	// maxDepth is how deeply folders may nest.
	maxDepth = 64
	// maxName is the longest name of a file, its folders included, in bytes.
	maxName = 4096
)

// repack reads an archive of Flux, a tar compressed by gzip, and writes its files as a zip, of which
// they can be read in any order. It refuses what no tree of Git is, and what two readers could take
// differently.
func repack(ctx context.Context, from io.Reader, to io.Writer, limits Limits) error {
	unpacked, err := gzip.NewReader(from)
	if err != nil {
		return fmt.Errorf("%w: it is not compressed by gzip: %w", gitsource.ErrCorrupt, err)
	}
	defer unpacked.Close()
	r := &repacker{
		tar: tar.NewReader(&limitedReader{ctx: ctx, from: unpacked, left: limits.UnpackedBytes, limit: limits.UnpackedBytes}),
		zip: zip.NewWriter(to), limits: limits, files: map[string]bool{}, folders: map[string]bool{},
	}
	for {
		header, err := r.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return corrupt(err)
		}
		if err := r.entry(header); err != nil {
			return err
		}
	}
	if err := r.zip.Close(); err != nil {
		return storageError(err)
	}
	return nil
}

// corrupt is an error of reading an archive that is none of ours.
func corrupt(err error) error {
	for _, known := range []error{gitsource.ErrLimit, gitsource.ErrUnreachable, gitsource.ErrStorage} {
		if errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: the archive cannot be read: %w", gitsource.ErrCorrupt, err)
}

type repacker struct {
	tar    *tar.Reader
	zip    *zip.Writer
	limits Limits
	// bytes is what the sizes of the files add up to, names what the lengths of all names do.
	bytes, names int64
	// files and folders are what was found, by name; folders are those of files, too.
	files, folders map[string]bool
}

// entry takes one entry of the archive.
func (r *repacker) entry(header *tar.Header) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		return nil // As git archive writes one, with the commit.
	}
	name, err := nameOf(header)
	if err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return r.folder(name)
	case tar.TypeReg:
		return r.file(name, header)
	case tar.TypeSymlink, tar.TypeLink:
		return unsafe(name, "is a link: source-controller writes none, but for an OCIRepository that copies its layer; set operation: extract in spec.layerSelector of that")
	}
	return unsafe(name, "is neither a file nor a folder")
}

// folder records a folder. Without a file in it, it is no part of the tree, as in Git.
func (r *repacker) folder(name string) error {
	for at := name; at != "." && !r.folders[at]; at = path.Dir(at) {
		if r.files[at] {
			return unsafe(at, "is there twice, as a file and as a folder")
		}
		if err := r.add(r.folders, at); err != nil {
			return err
		}
	}
	return nil
}

// add records a file or a folder. Folders count although the archive may have no entries of them: each costs
// memory for as long as the tree is read.
func (r *repacker) add(to map[string]bool, name string) error {
	to[name] = true
	if r.names += int64(len(name)); r.names > r.limits.NameBytes {
		return fmt.Errorf("%w: the names in the archive have more than %d MiB", gitsource.ErrLimit, r.limits.NameBytes>>20)
	}
	if len(r.files)+len(r.folders) > r.limits.Files {
		return fmt.Errorf("%w: the archive has more than %d files and folders", gitsource.ErrLimit, r.limits.Files)
	}
	return nil
}

func (r *repacker) file(name string, header *tar.Header) error {
	if r.files[name] || r.folders[name] || name == "." {
		return unsafe(name, "is there twice")
	}
	if err := r.folder(path.Dir(name)); err != nil {
		return err
	}
	// A sparse file takes less in the archive than its size.
	if r.bytes += header.Size; r.bytes > r.limits.UnpackedBytes {
		return unpacksTo(r.limits.UnpackedBytes)
	}
	if err := r.add(r.files, name); err != nil {
		return err
	}
	mode := fs.FileMode(0o444)
	if header.FileInfo().Mode()&0o100 != 0 {
		mode = 0o555
	}
	entry := &zip.FileHeader{Name: name, Method: zip.Store}
	entry.SetMode(mode)
	w, err := r.zip.CreateHeader(entry)
	if err != nil {
		return storageError(err)
	}
	if _, err := io.Copy(w, r.tar); err != nil {
		return corrupt(err)
	}
	return nil
}

// nameOf is the name of an entry, from the root of the tree.
func nameOf(header *tar.Header) (string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(header.Name, "./"), "/")
	switch {
	case name == "" || name == ".":
		if header.Typeflag == tar.TypeDir {
			return ".", nil
		}
		return "", unsafe(header.Name, "has no name")
	case len(name) > maxName || strings.Count(name, "/") >= maxDepth:
		return "", fmt.Errorf("%w: a name in the archive has more than %d bytes or %d folders", gitsource.ErrLimit, maxName, maxDepth)
	case !fs.ValidPath(name) || strings.ContainsFunc(name, func(c rune) bool { return c == '\\' || unicode.IsControl(c) }):
		return "", unsafe(header.Name, "is no name of a file in a tree")
	}
	return name, nil
}

func unsafe(name, why string) error {
	return fmt.Errorf("%w: in the archive %q %s", gitsource.ErrUnsafe, name[:min(len(name), maxName)], why)
}

// limitedReader ends a stream that unpacks to more than its limit, or takes longer than its context.
type limitedReader struct {
	ctx         context.Context
	from        io.Reader
	left, limit int64
}

// Read implements io.Reader.
func (b *limitedReader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", gitsource.ErrUnreachable, err)
	}
	if b.left <= 0 {
		return 0, unpacksTo(b.limit)
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

func unpacksTo(limit int64) error {
	return fmt.Errorf("%w: the archive unpacks to more than %d MiB", gitsource.ErrLimit, limit>>20)
}
