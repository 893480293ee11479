package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
)

// The README quotes the comment that the product writes today; -update rewrites it.
func TestTheReadmeQuotesACommentThatTheProductWrites(t *testing.T) {
	const begin, end = "<!-- begin: comment -->\n", "<!-- end: comment -->\n"
	page := read(t, "../README.md")
	before, rest, opened := strings.Cut(page, begin)
	quoted, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("README.md lacks %q or %q", begin, end)
	}
	want := quote(read(t, "../reconciler/report/testdata/proposal-taints.md"))
	if golden.Updating() {
		if err := os.WriteFile("../README.md", []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, quoted); diff != "" {
		t.Errorf("README.md quotes a comment that the product does not write; go test ./docs -update rewrites it (-want +got):\n%s", diff)
	}
}

// quote makes Markdown a block quote.
func quote(text string) string {
	var quoted strings.Builder
	for line := range strings.Lines(text) {
		quoted.WriteString(strings.TrimRight("> "+line, " \n") + "\n")
	}
	return quoted.String()
}
