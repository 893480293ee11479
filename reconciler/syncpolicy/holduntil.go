package syncpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// maxHold is how far ahead a hold may end: an incident and the weekend behind it. What is to differ from the repository for longer
// belongs there, where others find it.
const maxHold = 7 * 24 * time.Hour

// holdUntil holds each change of a thing that a person marked to stay as it is (state.CorrectionPolicy.HoldUntil) until a time
// after now, and each deletion that would take such a thing along. A mark on the live thing counts before a declared one. One that
// is no time, or too far ahead, holds nothing and becomes a warning.
func holdUntil(now time.Time) plan.Policy {
	return func(p plan.Plan) plan.Plan {
		marked := map[state.Key]hold.Reason{}
		p.Notes = slices.Clone(p.Notes)
		for _, c := range p.Changes {
			text, why := mark(c)
			if text == "" || c.ReadOnly() {
				continue
			}
			until, problem := parseHold(text, now)
			switch {
			case problem != "":
				n := plan.NewNote(c.Key, c.Origin(), finding.New(finding.HoldInvalid, v1alpha1.HoldUntilAnnotation+" holds nothing: %s", finding.Of("problem", problem)))
				n.Warning = true
				p.Notes = append(p.Notes, n)
			case now.Before(until):
				marked[c.Key] = hold.Reason{Rule: hold.HoldUntil, Facts: hold.Facts{Until: until.UTC().Format(time.RFC3339), Detail: why}}
			}
		}
		slices.SortStableFunc(p.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
		return p.HoldEach(func(c plan.Change) hold.Reasons {
			if r, ok := marked[c.Key]; ok {
				return hold.Reasons{r}
			}
			return withDeletion(c, marked)
		})
	}
}

// mark is what a person wrote on the live thing, or else where it is declared.
func mark(c plan.Change) (until, why string) {
	for _, item := range []*state.Item{c.Before, c.After} {
		if item != nil && item.HoldUntil != "" {
			return item.HoldUntil, item.HoldReason
		}
	}
	return "", ""
}

// parseHold is when a hold ends, or what is wrong with it.
func parseHold(text string, now time.Time) (until time.Time, problem string) {
	until, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return time.Time{}, "it is no time such as 2026-11-28T18:00:00Z; correct it, or remove the annotation"
	case until.Sub(now) > maxHold:
		return time.Time{}, fmt.Sprintf("it is more than %d days ahead; name an earlier time, or change what is declared", int(maxHold.Hours())/24)
	}
	return until, ""
}

// withDeletion is why a deletion is held that would take along what is marked: that of a namespace with what is in it, or of a
// definition with the objects of its kind. It names the first of them.
func withDeletion(c plan.Change, marked map[state.Key]hold.Reason) hold.Reasons {
	var first state.Key
	for k := range marked {
		inside := c.Key.Kind == "Namespace" && c.Key.Group == "" && k.Namespace == c.Key.Name
		defined := c.Key.Kind == "CustomResourceDefinition" && k.Group != "" && strings.HasSuffix(c.Key.Name, "."+k.Group)
		if k.Target == c.Key.Target && (inside || defined) && (first == state.Key{} || cmp.Less(k.String(), first.String())) {
			first = k
		}
	}
	if c.Action != plan.Delete || first == (state.Key{}) {
		return nil
	}
	r := marked[first]
	r.Facts.Object = first.String()
	return hold.Reasons{r}
}
