package offline

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// corpus is every manifest in the test data of what lint consists of, and each of them with one line that is taken
// out, misspelled or written twice.
func corpus(t *testing.T) map[string][]byte {
	t.Helper()
	out, random := map[string][]byte{}, rand.New(rand.NewPCG(1, 2))
	err := filepath.WalkDir("../../../reconciler/declared", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) > 8<<10 {
			return err
		}
		out[path] = content
		lines := strings.SplitAfter(string(content), "\n")
		at := random.IntN(len(lines))
		lines[at] = []string{"", strings.Replace(lines[at], ":", "x:", 1), lines[at] + lines[at]}[random.IntN(3)]
		out[fmt.Sprintf("%s, changed at line %d", path, at+1)] = []byte(strings.Join(lines, ""))
		return nil
	})
	if err != nil || len(out) < 100 {
		t.Fatalf("%d manifests, %v", len(out), err)
	}
	return out
}

func TestNoFindingOfLintIsWithoutACode(t *testing.T) {
	found := map[finding.Code]int{}
	for name, content := range corpus(t) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		linted, err := Lint(t.Context(), dir, variables.Input{})
		if err != nil {
			continue // There is no object in it, or a limit is exceeded.
		}
		for severity, problems := range map[finding.Severity][]state.Problem{finding.Error: linted.Problems, finding.Warning: linted.Warnings} {
			for _, p := range problems {
				d, described := finding.Describe(p.Code)
				if !described || d.Severity != severity {
					t.Errorf("%s: %s of code %q, which has severity %q: %s", name, severity, p.Code, d.Severity, p)
				}
				found[p.Code]++
			}
		}
	}
	// Fewer would be a corpus that shows nothing.
	if len(found) < 30 {
		t.Errorf("only %d codes were found: %v", len(found), found)
	}
	t.Logf("%d codes: %v", len(found), found)
}
