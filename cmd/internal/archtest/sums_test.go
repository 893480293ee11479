package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A sum of nothing is written as $0, and only where it is known to be nothing: what is not
// known is left out, or unknown. Cents would state a precision that no such sum has.
func TestNoOutputHasASumOfZeroDollarsAndCents(t *testing.T) {
	zero := regexp.MustCompile(`\$0\.0+(\D|$)`)
	checked := 0
	err := filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		golden := strings.Contains(filepath.ToSlash(path), "/testdata/") && slices.Contains([]string{".txt", ".md", ".ansi", ".golden"}, filepath.Ext(path))
		if !golden && filepath.Ext(path) != ".md" {
			return nil
		}
		checked++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range strings.Split(string(content), "\n") {
			if zero.MatchString(line) {
				t.Errorf("%s:%d: %s", path, i+1, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 100 {
		t.Errorf("only %d files were checked", checked)
	}
}
