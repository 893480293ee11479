package docs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
)

// The pages quote what the product writes today; -update rewrites them.
func TestThePagesQuoteWhatTheProductWrites(t *testing.T) {
	comment := quote(read(t, "../reconciler/report/testdata/proposal-taints.md"))
	headline, _, _ := strings.Cut(comment, "\n")
	for _, c := range []struct{ page, name, want string }{
		{"pull-requests.md", "comment", comment},
		{"../README.md", "headline", headline + "\n"},
		{"commands.md", "get", "```\n" + read(t, "../cmd/internal/get/testdata/overview.golden") + "```\n"},
		{"commands.md", "explain", "```\n" + read(t, "../cmd/internal/explain/testdata/pod-text.golden") + "```\n"},
	} {
		begin, end := "<!-- begin: "+c.name+" -->\n", "<!-- end: "+c.name+" -->\n"
		before, rest, opened := strings.Cut(read(t, c.page), begin)
		quoted, after, closed := strings.Cut(rest, end)
		if !opened || !closed {
			t.Fatalf("%s lacks %q or %q", c.page, begin, end)
		}
		if golden.Updating() {
			if err := os.WriteFile(c.page, []byte(before+begin+c.want+end+after), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(c.want, quoted); diff != "" {
			t.Errorf("%s quotes what the product does not write; go test ./docs -update rewrites it (-want +got):\n%s", c.page, diff)
		}
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
