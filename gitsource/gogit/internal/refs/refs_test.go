package refs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

func FuzzRefName(f *testing.F) {
	for _, s := range []string{"main", "release/1.0", "a..b", "x.lock", "@", "a@{b", "ünï", "-d", "a\x7f", "refs/heads/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil || name == "" {
			return
		}
		full := plumbing.NewBranchReferenceName(name)
		if err := full.Validate(); err != nil {
			t.Errorf("%q is accepted here and not by Git: %v", name, err)
		}
		if p := filepath.Join("/mirror/refs/heads", name); !strings.HasPrefix(p, "/mirror/refs/heads/") {
			t.Errorf("%q leads to %s", name, p)
		}
	})
}
