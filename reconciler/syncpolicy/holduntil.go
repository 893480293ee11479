package syncpolicy

import (
	"cmp"
	"fmt"
	"maps"
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
// after now, and each deletion that would take such a thing along. A mark on the live thing counts before a declared one, while it
// lasts. One that is no time, or too far ahead, holds nothing and becomes a warning. What is created stays as nothing: a mark that is
// declared alone does not hold it.
func holdUntil(now time.Time) plan.Policy {
	return func(p plan.Plan) plan.Plan {
		marked := map[state.Key]hold.Reason{}
		p.Notes = slices.Clone(p.Notes)
		for _, c := range p.Changes {
			if c.ReadOnly() {
				continue
			}
			r, problem := mark(c, now)
			if problem != "" {
				n := plan.NewNote(c.Key, c.Origin(), finding.New(finding.HoldInvalid, v1alpha1.HoldUntilAnnotation+" holds nothing: %s", finding.NewFact("problem", problem)))
				n.Severity = finding.Warning
				p.Notes = append(p.Notes, n)
			}
			if r.Rule != "" && c.Action != plan.Create {
				marked[c.Key] = r
			}
		}
		slices.SortStableFunc(p.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
		return p.HoldEach(func(c plan.Change) hold.Reasons {
			if r, ok := marked[c.Key]; ok {
				return hold.Reasons{r}
			}
			return withDeletion(c, marked, now)
		})
	}
}

// mark is the hold of what a person wrote on the live thing, or else where it is declared: the first that lasts, zero where none does.
// The problem is that of the first mark that is none, empty where all are marks.
func mark(c plan.Change, now time.Time) (r hold.Reason, problem string) {
	for _, item := range []*state.Item{c.Before, c.After} {
		if item == nil || item.HoldUntil == "" {
			continue
		}
		until, invalid := parseHold(item.HoldUntil, now)
		problem = cmp.Or(problem, invalid)
		if invalid == "" && now.Before(until) {
			return reason(until, item.HoldReason), problem
		}
	}
	return hold.Reason{}, problem
}

// reason is why something is held until then.
func reason(until time.Time, detail string) hold.Reason {
	return hold.Reason{Rule: hold.HoldUntil, Facts: hold.Facts{Until: until.UTC().Format(time.RFC3339), Detail: detail}}
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
// definition with the objects of its kind, whoever they are managed by. It names the first of them.
func withDeletion(c plan.Change, marked map[state.Key]hold.Reason, now time.Time) hold.Reasons {
	if c.Action != plan.Delete {
		return nil
	}
	held := map[string]hold.Reason{}
	for k, r := range marked {
		inside := c.Key.Kind == "Namespace" && c.Key.Group == "" && k.Namespace == c.Key.Name
		defined := c.Key.Kind == "CustomResourceDefinition" && k.Group != "" && strings.HasSuffix(c.Key.Name, "."+k.Group)
		if k.Target == c.Key.Target && (inside || defined) {
			held[k.String()] = r
		}
	}
	for object, m := range c.Before.Marked {
		if until, problem := parseHold(m.Until, now); problem == "" && now.Before(until) {
			held[object] = reason(until, m.Reason)
		}
	}
	if len(held) == 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(held)))
	r := held[first]
	r.Facts.Object = first
	return hold.Reasons{r}
}
