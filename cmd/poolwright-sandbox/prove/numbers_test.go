package prove

import (
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/internal/golden"
)

// pageBefore is a page with two runs of a part, and with controls of one run.
const pageBefore = `# A page

## Coverage

A run of all.

| a | table |

### Later

Scenarios and faults that came later, or were run again. On 2026-11-20, on linux with 2 CPUs: 4 cases (3 held, 1 violated) in 1m0s.

| scenario | fault | points | run | reached | violated or failed |
|---|---|---|---|---|---|
| ` + "`first-apply` | `kill-before`" + ` | 9 | 9 | 9 | 1 |
| ` + "`scale-up` | `kill-after`" + ` | 9 | 9 | 9 | 1 |
| ` + "`scale-up` | `a-fault-that-was`" + ` | 1 | 1 | 1 | 0 |

What is wrong or missing:

- ` + "`first-apply/kill-before/git get x` violates `idle`" + ` (violations: 1): a
- ` + "`scale-up/kill-after/aws CreateFleet ec2` violates `machines`" + ` (violations: 1): b

On 2026-11-21, on linux with 4 CPUs: 1 cases (1 held) in 9s.

| scenario | fault | points | run | reached | violated or failed |
|---|---|---|---|---|---|
| ` + "`first-apply` | `drop`" + ` | 2 | 2 | 2 | 0 |

## Controls

On 2026-11-20, on linux with 2 CPUs: 3 controls (3 found, 0 not found) in 1m0s.

| switched off | what the product does otherwise | found | by |
|---|---|---|---|
| ` + "`write-ahead` | As it was. | yes | `a: b`" + ` |
| ` + "`fence` | As it was. | yes | `c: d`" + ` |
| ` + "`a-control-that-was` | As it was. | yes | `e: f`" + ` |
`

func TestARunOfAPartLeavesTheNumbersOfTheRest(t *testing.T) {
	m := measured{time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC), "linux with 2 CPUs"}
	of := func(r Report, before string) string {
		var b strings.Builder
		writeNumbers(&b, r, m, before)
		return b.String()
	}
	part, controls := proved(), proved()
	part.Controls, controls.Results, controls.Observed = nil, nil, nil
	golden.Compare(t, "testdata/part.md", of(part, pageBefore))
	golden.Compare(t, "testdata/controls.md", of(controls, pageBefore))
	for name, r := range map[string]Report{"part": part, "controls": controls} {
		if again := of(r, of(r, pageBefore)); again != of(r, pageBefore) {
			t.Errorf("a second run of a part (%s) is added to the first one:\n%s", name, again)
		}
	}
	if nothing := of(Report{}, pageBefore); !strings.HasSuffix(pageBefore, nothing) {
		t.Errorf("a run of nothing changed the page:\n%s", nothing)
	}
}
