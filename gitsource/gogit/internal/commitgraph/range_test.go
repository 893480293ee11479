package commitgraph

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARangeIsAsCertainAsWhatIsPresent(t *testing.T) {
	for name, c := range map[string]struct {
		text, absent     string
		commits          string
		boundary, ofBase string
	}{
		"commits in a row":                  {text: "a; b:a; x:b; y:x", commits: "y x"},
		"nothing new":                       {text: "a; b:a; y:a", commits: "y"},
		"a merged branch":                   {text: "a; b:a; s:b; x:b; y:x,s", commits: "y s x"},
		"a merged branch from below":        {text: "a; s:a; b:a; y:b,s", commits: "y s"},
		"a merged history of its own":       {text: "r; s:r; b; y:b,s", commits: "y s r"},
		"a cut behind the base":             {text: "a; b:a; y:b", absent: "a", commits: "y", ofBase: "b"},
		"a cut of a merged branch":          {text: "o; s:o; b; y:b,s", absent: "o", commits: "y s", boundary: "s"},
		"a base that is the parent of one":  {text: "b; y:b", absent: "b", commits: "y"},
		"a base that is not present":        {text: "b; x:b; y:x", absent: "b x", commits: "y", boundary: "y", ofBase: "y"},
		"a base of elsewhere":               {text: "b; x; y:x", absent: "b", commits: "y x"},
		"a base ahead":                      {text: "y; b:y"},
		"a parent of the base, not present": {text: "a; b:a; y:b,a", absent: "a", commits: "y", ofBase: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			g, ids, names := commits(t, c.text, strings.Fields(c.absent)...)
			got, err := g.Range(t.Context(), ids["b"], ids["y"])
			if err != nil {
				t.Fatal(err)
			}
			sorted := func(all []string) string {
				slices.Sort(all)
				return strings.Join(all, " ")
			}
			want := [3]string{sorted(strings.Fields(c.commits)), c.boundary, c.ofBase}
			is := [3]string{sorted(named(names, got.Commits)), sorted(named(names, got.Boundary)), sorted(named(names, got.BaseBoundary))}
			if diff := cmp.Diff(want, is); diff != "" {
				t.Errorf("commits, boundary and that of the base (-want +got):\n%s", diff)
			}
		})
	}
}
