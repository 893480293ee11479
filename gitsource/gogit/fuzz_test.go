package gogit

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

// FuzzRecord gives a mirror any record: it is used only where it names a generation of
// the mirror and a commit, and never leads elsewhere.
func FuzzRecord(f *testing.F) {
	whole := `{"Identity":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","Generation":"gen-1","Object":"` + strings.Repeat("ab", 20) + `"}`
	f.Add([]byte(whole))
	f.Add([]byte(strings.Replace(whole, "gen-1", "../gen-1", 1)))
	f.Add([]byte(`{"Tips":["zz"],"Bytes":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "last.json"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		m := openMirror(Config{Dir: dir}, Limits{}.withDefaults(), "")
		r, ok := m.last()
		if !ok {
			return
		}
		if !isCommit(r.Object) || filepath.Dir(m.path(r.Generation)) != filepath.Clean(dir) {
			t.Errorf("%+v", r)
		}
		if left := m.storeFor(r.Generation).left; left > generationBytes(m.packBytes) {
			t.Errorf("%d bytes are left", left)
		}
		m.crowded(r, maxPacks)
		if err := m.commit(&r); err != nil {
			t.Error(err)
		}
	})
}

// FuzzURL gives any address: one that is taken has a host, a path and no secret, is
// encrypted or goes to this machine, and a refusal never repeats it.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"https://host/a/b.git", "http://127.0.0.1:3000/x", "https://user:hunter2-s3cret@host/x", "http://[::1]/x", "ssh://git@host/x", "https://host/x?token=hunter2-s3cret"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := parseURL(raw)
		if err != nil {
			if !errors.Is(err, gitsource.ErrInvalid) {
				t.Errorf("unclassified: %v", err)
			}
			// A scheme is repeated, and nothing else.
			if scheme, rest, _ := strings.Cut(raw, ":"); strings.Contains(rest, password) && !strings.Contains(strings.ToLower(scheme), password) && strings.Contains(err.Error(), password) {
				t.Errorf("the password is in the message: %v", err)
			}
			return
		}
		if u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") == "" {
			t.Errorf("%q is taken", raw)
		}
		if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
			t.Errorf("%q is taken, in clear", raw)
		}
		if again, err := url.Parse(u.String()); err != nil || sameOrigin(u, again) != nil {
			t.Errorf("%q is read otherwise as %q", raw, u)
		}
	})
}
