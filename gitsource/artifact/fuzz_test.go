package artifact

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

// FuzzArchive takes any bytes for an archive: it is refused with a reason, or a tree whose files can be read, within its
// limits; and nothing is written under a name of its own.
func FuzzArchive(f *testing.F) {
	for _, seed := range [][]byte{archive(f), archive(f, file("a/b", "1"), folder("c")), archive(f, file("../a", "1")), archive(f, file("a", "1"), file("./a", "2"))} {
		f.Add(seed, false)
		unpacked, err := unzip(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(unpacked, true)
	}
	f.Fuzz(func(t *testing.T, content []byte, compress bool) {
		if compress { // The fuzzer finds no checksum of gzip by itself.
			content = compressed(t, content)
		}
		s := store{dir: t.TempDir()}
		out, err := s.create()
		if err != nil {
			t.Fatal(err)
		}
		limits := Limits{UnpackedBytes: 1 << 16, Files: 64}.withDefaults()
		if err := repack(context.Background(), bytes.NewReader(content), out, limits); err != nil {
			if !errors.Is(err, gitsource.ErrUnsafe) && !errors.Is(err, gitsource.ErrLimit) && !errors.Is(err, gitsource.ErrCorrupt) {
				t.Errorf("unclassified: %v", err)
			}
			out.remove()
			return
		}
		v, err := s.add("r", "d", out, limits.FileBytes)
		if err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		err = fs.WalkDir(v.tree, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := v.tree.ReadFile(name)
			total += int64(len(b))
			if !d.Type().IsRegular() || !filepath.IsLocal(name) {
				t.Errorf("%q is %s", name, d.Type())
			}
			return err
		})
		if err != nil || total > limits.UnpackedBytes || len(v.tree.contents) > limits.Files {
			t.Errorf("%d files of %d bytes: %v", len(v.tree.contents), total, err)
		}
		if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
			t.Errorf("written: %v, %v", entries, err)
		}
	})
}

func unzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
