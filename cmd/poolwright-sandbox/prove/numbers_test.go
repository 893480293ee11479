package prove

import (
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/internal/golden"
)

func TestARunOfAPartLeavesTheNumbersOfTheRest(t *testing.T) {
	const before = "# A page\n\n## Coverage\n\nA run of all.\n\n| a | table |\n\n### Later\n\nA run of a part.\n\n## Controls\n\nA run of controls.\n"
	m := measured{time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC), "linux with 2 CPUs"}
	of := func(r Report, before string) string {
		var b strings.Builder
		writeNumbers(&b, r, m, before)
		return b.String()
	}
	part, controls := proved(), proved()
	part.Controls, controls.Results, controls.Observed = nil, nil, nil
	golden.Compare(t, "testdata/part.md", of(part, before))
	golden.Compare(t, "testdata/controls.md", of(controls, before))
	if again := of(part, of(part, before)); again != of(part, before) {
		t.Errorf("a second run of a part is added to the first one:\n%s", again)
	}
	if nothing := of(Report{}, before); !strings.HasSuffix(before, nothing) {
		t.Errorf("a run of nothing changed the page:\n%s", nothing)
	}
}
