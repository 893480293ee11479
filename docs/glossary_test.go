package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each term of the glossary is in the code that its row names.
func TestEachTermOfTheGlossaryIsInTheCode(t *testing.T) {
	terms, _, _ := strings.Cut(read(t, "glossary.md"), "\n## Retired words\n")
	rows := regexp.MustCompile("(?m)^\\| ([^|`]+) \\| ([^|]+) \\| `([^`]+)` \\|$").FindAllStringSubmatch(terms, -1)
	if n := strings.Count(terms, "\n| ") - 1; len(rows) != n || n == 0 { // The heading is no term.
		t.Errorf("%d of the table's %d rows are a term, a meaning and a place in the code", len(rows), n)
	}
	for _, row := range rows {
		if missing := missingIn("..", row[3]); missing != "" {
			t.Errorf("docs/glossary.md explains %q by %s: %s", row[1], row[3], missing)
		}
	}
}

// missingIn says what of "folder" or "folder.Type" is not below root.
func missingIn(root, code string) string {
	folder, name := code, ""
	if dir, last := filepath.Split(code); strings.Contains(last, ".") {
		last, name, _ = strings.Cut(last, ".")
		folder = dir + last
	}
	files, _ := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if len(files) == 0 {
		return "there is no such package"
	}
	declares := regexp.MustCompile(`(?m)^type ` + regexp.QuoteMeta(name) + `\b`)
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && (name == "" || declares.Match(text)) {
			return ""
		}
	}
	return "the package declares no such type"
}

func TestATermWithoutCodeIsFound(t *testing.T) {
	for code, found := range map[string]bool{
		"gitsource.Snapshot":         true,
		"provision/sandbox":          true,
		"gitsource.Daguerreotype":    false,
		"provision/terrarium":        false,
		"reconciler/plan.Daguerreot": false,
	} {
		if missing := missingIn("..", code); (missing == "") != found {
			t.Errorf("%s: %q", code, missing)
		}
	}
}
