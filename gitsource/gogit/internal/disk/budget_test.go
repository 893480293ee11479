package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

func TestAPartOfABudgetLeavesTheRestToOthers(t *testing.T) {
	root := t.TempDir()
	whole := New(root, 100)
	part := whole.SubBudget(filepath.Join(root, "part"), 40)
	if err := part.Grant(41); !errors.Is(err, gitsource.ErrStorage) {
		t.Error(err)
	}
	if err := errors.Join(os.Mkdir(part.dir, 0o700), os.WriteFile(filepath.Join(part.dir, "a"), make([]byte, 40), 0o600)); err != nil {
		t.Fatal(err)
	}
	if left := part.Remaining(); left != 0 {
		t.Errorf("%d bytes left", left)
	}
	if err := part.Grant(1); !errors.Is(err, gitsource.ErrStorage) {
		t.Error(err)
	}
	if err := whole.Grant(60); err != nil {
		t.Error(err)
	}
	var none *Budget
	if err := none.Grant(1 << 50); err != nil {
		t.Error(err)
	}
}

func TestOneCacheLeavesCapacityForSmallOnes(t *testing.T) {
	const limit, reserve, chunk = 16_000, 1000, 50
	for name, c := range map[string]struct {
		budget func(*Budget, string) *Budget
		big    int64
		small  int64
	}{
		"a cache's budget":             {(*Budget).CacheBudget, limit - reserve, reserve / 2},
		"the control: that of all":     {func(d *Budget, _ string) *Budget { return d }, limit, 0},
		"the control: one of its size": {func(d *Budget, dir string) *Budget { return d.SubBudget(dir, limit) }, limit, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			all := New(dir, limit)
			// fill writes what is granted, and returns how much that was.
			fill := func(cache string) (n int64) {
				t.Helper()
				folder := filepath.Join(dir, cache)
				if err := os.MkdirAll(folder, 0o755); err != nil {
					t.Fatal(err)
				}
				disk := c.budget(all, folder)
				for disk.Grant(chunk) == nil {
					if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(n)), make([]byte, chunk), 0o600); err != nil {
						t.Fatal(err)
					}
					n += chunk
				}
				if err := disk.Grant(chunk); !errors.Is(err, gitsource.ErrStorage) {
					t.Errorf("what is refused is refused with %v", err)
				}
				return n
			}
			if got := fill("big"); got != c.big {
				t.Errorf("the first took %d", got)
			}
			if got := fill("small"); got != c.small {
				t.Errorf("the second took %d", got)
			}
			if got := fill("other"); got != c.small {
				t.Errorf("the third took %d", got)
			}
		})
	}
}
