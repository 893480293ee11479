package report

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/report/internal/diff"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// Ignored is a thing of which fields differ and are not corrected, because the Sync ignores them.
type Ignored struct {
	Object
	// File and Line are where it is declared.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Fields lists what differs, from the live value to the declared one, sorted by path.
	Fields []Field `json:"fields"`
}

func (b builder) ignored(list []plan.IgnoredFields) []Ignored {
	var out []Ignored
	for _, i := range list {
		origin := i.Declared.Origin
		out = append(out, Ignored{
			Object: b.object(i.Key()), File: b.Text(origin.File), Line: origin.Line,
			Fields: b.Diff(plan.Change{Key: i.Key(), Action: plan.Update, Before: &i.Live, After: &i.Declared}),
		})
	}
	return out
}

// ignoredSection has the fields that are ignored.
func (r Report) ignoredSection(v markup.Style) section.Section {
	out := section.Section{Title: fmt.Sprintf("Ignored (%d)", len(r.Ignored)), Color: "bold"}
	for _, i := range r.Ignored {
		for _, f := range i.Fields {
			for _, line := range diff.Field(f) {
				out.Lines = append(out.Lines, v.Name(nameWithOrigin(i.Object, i.File, i.Line))+": "+v.Name(line.Symbol+" "+line.Text))
			}
		}
	}
	return out
}

// withoutLiveValues are ignored fields without the live values, which move without anybody's change
// to the repository.
func withoutLiveValues(list []Ignored) []Ignored {
	var out []Ignored
	for _, i := range list {
		fields := make([]Field, 0, len(i.Fields))
		for _, f := range i.Fields {
			f.Before = nil
			fields = append(fields, f)
		}
		i.Fields = fields
		out = append(out, i)
	}
	return out
}
