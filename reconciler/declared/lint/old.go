package lint

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/conversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// needsPerson begins the message of a problem that is Manual.
const needsPerson = "needs a person: "

// machine names the one kind of Karpenter's old APIs that is no declaration, and so
// becomes nothing in v1.
func (c *schemaValidator) machine(item state.Item) bool {
	if item.Key.Group != "karpenter.sh" || item.Key.Kind != "Machine" {
		return false
	}
	c.report(item, "apiVersion", codeMachineDeclared, "only Karpenter made machines, which are NodeClaims now, and none are declared; remove it")
	return true
}

// Conversions are warnings of what d holds of Karpenter's old APIs: each thing that needs
// a person, and a summary of the rest for each file. The folder is the one to name to
// `poolwright convert`. An error is a bug of ours.
//
// Where old kinds are declared, they are followed as what they mean. Where only old
// labels and annotations are left, beside v1, nothing follows them: this reports it.
func Conversions(d declared.Declared, folder string) ([]state.Problem, error) {
	var out []state.Problem
	changes, summary := d.Converted, followed
	if len(changes) == 0 {
		_, left, blocked, err := conversion.Objects(d.Set.Items(), conversion.Options{Documents: d.Documents()})
		if err != nil {
			return nil, fmt.Errorf("finding objects of Karpenter's old APIs: %w", err)
		}
		for _, p := range blocked {
			p.Code, p.Message, p.Manual = codeConversionReviewRequired, needsPerson+p.Message, true
			out = append(out, p)
		}
		changes, summary = left, leftover
	}
	files := map[string]*rest{}
	for _, c := range changes {
		if c.Grade == conversion.Manual {
			message := needsPerson + c.Text
			if c.Object != "" {
				message = needsPerson + c.Object + ": " + c.Text
			}
			out = append(out, state.Problem{
				Origin: c.Origin, Code: codeConversionReviewRequired, Facts: finding.FactsOf(finding.NewFact("object", c.Object), finding.NewFact("reason", c.Text)),
				Message: message, Field: c.Field, Detail: c.Text, Manual: true,
			})
			continue
		}
		f := files[c.Origin.File]
		if f == nil {
			f = &rest{first: c.Origin}
			files[c.Origin.File] = f
		}
		f.add(c)
	}
	for _, f := range files {
		out = append(out, state.NewProblem(f.first, summary(f, folder)))
	}
	return Sorted(out), nil
}

// rest are the changes of one file that need nobody.
type rest struct {
	first              state.Origin
	lossless, defaults int
}

func (r *rest) add(c conversion.Change) {
	if c.Origin.Line < r.first.Line {
		r.first = c.Origin
	}
	if c.Grade == conversion.Default {
		r.defaults++
	} else {
		r.lossless++
	}
}

// followed sums up a file that is written for an old API.
func followed(r *rest, folder string) finding.Finding {
	// Whether there are some of a grade is a fact of its own: numbers alone make no other comment of a pull request.
	var made, grades []string
	if r.defaults > 0 {
		grades = append(grades, conversion.Default.String())
		made = append(made, plural.Count(r.defaults, "default")+" made explicit")
	}
	if r.lossless > 0 {
		grades = append(grades, conversion.Lossless.String())
		made = append(made, plural.Count(r.lossless, "lossless change"))
	}
	return finding.New(codeOldAPIFollowed, "an old API of Karpenter, followed as v1 with %s; `poolwright convert %s` shows them, and with --write writes them",
		finding.As("changes", grades, strings.Join(made, " and ")), finding.NewFact("folder", folder)).With(finding.NewFact("defaults", r.defaults), finding.NewFact("losslessChanges", r.lossless))
}

// leftover sums up a file of which v1 does not read all.
func leftover(r *rest, folder string) finding.Finding {
	return finding.New(codeOldAPIMentioned, "%s of an old API of Karpenter, of which nothing comes in v1; `poolwright convert %s` shows what v1 calls them, and with --write renames them",
		finding.As("mentions", r.defaults+r.lossless, plural.Count(r.defaults+r.lossless, "mention")), folder)
}
