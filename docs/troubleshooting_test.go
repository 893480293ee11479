package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each reason that the code has, which TestThePagesListEveryNameOfTheCode finds, is on this page as well.
func TestTroubleshootingHasEveryReasonWithItsRemedy(t *testing.T) {
	var listed []string
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(rows(read(t, "troubleshooting.md")), -1) {
		listed = append(listed, m[1])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| (`[^|]*)\\|[^|]*\\|(.*)\\|$").FindAllStringSubmatch(read(t, "troubleshooting.md"), -1) {
		if strings.TrimSpace(m[2]) == "" {
			t.Errorf("docs/troubleshooting.md has an empty remedy for %s", m[1])
		}
	}
	n := 0
	for _, c := range namesOfTheCode {
		if c.what != "reason" && c.what != "failure" {
			continue
		}
		for _, name := range find(t, c.in, regexp.MustCompile(c.pattern)) {
			n++
			if !slices.Contains(listed, name) {
				t.Errorf("docs/troubleshooting.md has no remedy for the reason %s of %s", name, c.page)
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d reasons were found in the code: mend the patterns", n)
	}
}

// rows are a page's rows of tables, of which the first column counts.
func rows(page string) (first string) {
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]*) \|`).FindAllStringSubmatch(page, -1) {
		first += m[1] + "\n"
	}
	return first
}
