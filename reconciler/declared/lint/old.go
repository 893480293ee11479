package lint

import (
	"fmt"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/upgrade"
	"github.com/poolwright/poolwright/reconciler/state"
)

// NeedsPerson begins each message of Upgrades that asks somebody to look, and no other.
const NeedsPerson = "needs a person: "

// machine names the one kind of Karpenter's old APIs that is no declaration, and so
// becomes nothing in v1.
func (c *checker) machine(item state.Item) bool {
	if item.Key.Group != "karpenter.sh" || item.Key.Kind != "Machine" {
		return false
	}
	c.report(item, "apiVersion", "only Karpenter made machines, which are NodeClaims now, and none are declared; remove it")
	return true
}

// Upgrades are warnings of what d holds of Karpenter's old APIs: each thing that needs
// a person, and a summary of the rest for each file. The folder is the one to name to
// `poolwright upgrade`. An error is a mistake of ours.
//
// Where old kinds are declared, they are followed as what they mean. Where only old
// labels and annotations are left, beside v1, nothing follows them: this tells.
func Upgrades(d declared.Declared, folder string) ([]state.Problem, error) {
	changes, summary := d.Upgraded, followed
	if len(changes) == 0 {
		_, left, blocked, err := upgrade.Objects(d.Set.Items(), upgrade.Options{Documents: d.Documents()})
		if err != nil {
			return nil, fmt.Errorf("finding objects of Karpenter's old APIs: %w", err)
		}
		for _, p := range blocked {
			left = append(left, upgrade.Change{Origin: p.Origin, Grade: upgrade.Person, Text: p.Message})
		}
		changes, summary = left, leftover
	}
	var out []state.Problem
	files := map[string]*rest{}
	for _, c := range changes {
		if c.Grade == upgrade.Person {
			out = append(out, state.Problem{Origin: c.Origin, Message: NeedsPerson + strings.TrimPrefix(c.Object+": ", ": ") + c.Text})
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
		out = append(out, state.Problem{Origin: f.first, Message: summary(f, folder)})
	}
	return Sorted(out), nil
}

// rest are the changes of one file that need nobody.
type rest struct {
	first              state.Origin
	lossless, defaults int
}

func (r *rest) add(c upgrade.Change) {
	if c.Origin.Line < r.first.Line {
		r.first = c.Origin
	}
	if c.Grade == upgrade.Default {
		r.defaults++
	} else {
		r.lossless++
	}
}

// followed sums up a file that is written for an old API.
func followed(r *rest, folder string) string {
	var made []string
	if r.defaults > 0 {
		made = append(made, count(r.defaults, "default")+" made explicit")
	}
	if r.lossless > 0 {
		made = append(made, count(r.lossless, "lossless change"))
	}
	return fmt.Sprintf("an old API of Karpenter, followed as v1 with %s; `poolwright upgrade %s` shows them, and with --write writes them", strings.Join(made, " and "), folder)
}

// leftover sums up a file of which v1 does not read all.
func leftover(r *rest, folder string) string {
	return fmt.Sprintf("%s of an old API of Karpenter, of which nothing comes in v1; `poolwright upgrade %s` shows what v1 calls them, and with --write renames them",
		count(r.defaults+r.lossless, "mention"), folder)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
