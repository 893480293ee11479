package diff

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/report/internal/mask"
)

func TestListsOfScalarsShowWhatComesAndGoes(t *testing.T) {
	list := func(texts ...string) []any {
		var out []any
		for _, w := range texts {
			out = append(out, w)
		}
		return out
	}
	for name, c := range map[string]struct {
		before, after any
		want          []Line
	}{
		"one goes and one comes":     {list("a", "b", "c"), list("a", "x", "c"), []Line{{"~", "p:"}, {" ", "  … 2 equal entries"}, {"-", "  b"}, {"+", "  x"}}},
		"all go":                     {list("a"), list(), []Line{{"~", "p:"}, {"-", "  a"}}},
		"one of two that are equal":  {list("a", "a"), list("a"), []Line{{"~", "p:"}, {" ", "  … 1 equal entry"}, {"-", "  a"}}},
		"another order":              {list("a", "b"), list("b", "a"), []Line{{"~", `p: ["a", "b"] → ["b", "a"]`}}},
		"numbers":                    {[]any{int64(1)}, []any{int64(2)}, []Line{{"~", "p: [1] → [2]"}}},
		"what moves a cursor cannot": {list("a"), list("\x1b[2J"), []Line{{"~", "p:"}, {"-", "  a"}, {"+", `  \x1b[2J`}}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, Field(mask.Field{Path: "p", Before: c.before, After: c.after})); d != "" {
				t.Errorf("lines (-want +got):\n%s", d)
			}
		})
	}
}
