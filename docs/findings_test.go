package docs_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// The page has a row for each code, and no other.
func TestThePageOfFindingsHasTheTableOfCodes(t *testing.T) {
	const marker = "-update -->\n"
	intro, tables, found := strings.Cut(read(t, "findings.md"), marker)
	if !found {
		t.Fatalf("docs/findings.md has no line that ends in %s", marker)
	}
	want := findingTables()
	if golden.Updating() {
		if err := os.WriteFile("findings.md", []byte(intro+marker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("docs/findings.md is not what the codes are; go test ./docs -run Findings -update rewrites it (-want +got):\n%s", diff)
	}
}

func findingTables() string {
	var out strings.Builder
	for _, s := range finding.Sections() {
		fmt.Fprintf(&out, "\n## %s\n\n| code | severity | what was found | remedy |\n|---|---|---|---|\n", s.Title)
		for _, d := range s.Descriptors {
			fmt.Fprintf(&out, "| <a id=\"%s\"></a>%s | %s | %s | %s |\n", d.Anchor(), d.Code, d.Severity, d.Summary, d.Remedy)
		}
	}
	return out.String()
}

// A reader who follows the address in SARIF gets to the row.
func TestTheAddressOfACodeLeadsToItsRow(t *testing.T) {
	page := read(t, "findings.md")
	for _, s := range finding.Sections() {
		for _, d := range s.Descriptors {
			file, anchor, _ := strings.Cut(d.HelpURI(), "#")
			if !strings.HasSuffix(file, "/docs/findings.md") || !strings.Contains(page, `<a id="`+anchor+`">`) {
				t.Errorf("%s leads to %s", d.Code, d.HelpURI())
			}
		}
	}
}
