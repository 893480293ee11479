package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

// pack builds a pack file from headers and already deflated contents.
func pack(objects ...[]byte) []byte {
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, []uint32{2, uint32(len(objects))})
	for _, o := range objects {
		b.Write(o)
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

func FuzzPack(f *testing.F) {
	// One honest pack of a blob and of a delta onto it, made by Git.
	f.Add([]byte("x\x9c\x03\x00\x00\x00\x00\x01"))
	dir := f.TempDir()
	for i := range 3 {
		text := strings.Repeat(fmt.Sprintf("line %d\n", i/2), 200) + strings.Repeat("y", i)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte(text), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", "git init -q . && git hash-object -w 0 1 2 | git pack-objects --stdout -q")
	cmd.Dir = dir
	if out, err := cmd.Output(); err == nil && len(out) > 32 {
		f.Add(out[12 : len(out)-20])
	}
	limits := Limits{PackBytes: 256 << 20, ObjectBytes: 1 << 20, UnpackedBytes: 4 << 20, Objects: 100}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, b := range [][]byte{body, pack(body), pack(body, nil), pack(body, nil, nil)} {
			folder := filepath.Join(t.TempDir(), "objects", "pack")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			file, err := NewStore(folder, func(int64) error { return nil }, 1<<30).create()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = file.Write(b)
			err = installPack(t.Context(), file, limits)
			file.discard()
			if err != nil && !errors.Is(err, gitsource.ErrCorrupt) && !errors.Is(err, gitsource.ErrLimit) {
				t.Errorf("unclassified: %v", err)
			}
		}
	})
}
