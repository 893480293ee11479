package clonecache

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
)

// FuzzRecord gives a cache any record: it is used only where it names a clone of
// the cache and a commit, and never leads elsewhere.
func FuzzRecord(f *testing.F) {
	whole := `{"Identity":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","Clone":"gen-1","Object":"` + strings.Repeat("ab", 20) + `"}`
	f.Add([]byte(whole))
	f.Add([]byte(strings.Replace(whole, "gen-1", "../gen-1", 1)))
	f.Add([]byte(`{"Tips":["zz"],"Bytes":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "last.json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		m := Open(dir, "", 256<<20, nil)
		r, ok := m.Last()
		if !ok {
			return
		}
		if !refs.IsCommitID(r.Object) || filepath.Dir(m.Path(r.Clone)) != filepath.Clean(dir) {
			t.Errorf("%+v", r)
		}
		if left := m.StoreFor(r.Clone).Remaining(); left > cloneBytes(m.packBytes) {
			t.Errorf("%d bytes are left", left)
		}
		m.NeedsNewClone(r, 32)
		if err := m.Commit(&r); err != nil {
			t.Error(err)
		}
	})
}
