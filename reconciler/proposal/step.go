package proposal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// step puts together what the step does.
func (p *proposer) step(live, was plan.Plan) plan.Plan {
	out := plan.Plan{Unchanged: live.Unchanged, Managed: live.Managed, Changes: p.changes}
	if p.Offline {
		for i, c := range out.Changes {
			// The token is made of live things.
			out.Changes[i].Hold = c.Hold.Unconfirmed()
		}
	}
	slices.SortFunc(out.Changes, plan.Change.Compare)

	before := map[state.Key]bool{}
	for _, u := range was.Unknown {
		before[u.Key] = true
	}
	for _, u := range live.Unknown {
		if p.changed[u.Key] || !before[u.Key] {
			out.Unknown = append(out.Unknown, u)
		}
	}

	type noteID struct {
		key  state.Key
		text string
	}
	old := map[noteID]bool{}
	for _, n := range was.Notes {
		old[noteID{n.Key, n.Text}] = true
	}
	for _, n := range tellable(live.Notes, p.ObservedAfter) {
		if !old[noteID{n.Key, n.Text}] {
			out.Notes = append(out.Notes, n)
		}
	}
	out.Notes = append(out.Notes, p.notes...)
	slices.SortStableFunc(out.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	return out
}

// tellable are the notes of what is ours, and of what is only read or is not
// there: a quota has no content, and its notes are all there is of it.
func tellable(notes []plan.Note, seen state.Set) []plan.Note {
	var out []plan.Note
	for _, n := range notes {
		if item, _ := seen.Get(n.Key); ours(item) || len(item.Object) == 0 {
			out = append(out, n)
		}
	}
	return out
}

// foreign reports that a thing exists, and whether the API server would take the change.
func (p *proposer) foreign(c, planned plan.Change) {
	switch found := findings(planned); {
	case found.Unreadable != "":
		p.note(c, found.Uncompared())
	case found.DryRunError != "":
		p.notes = append(p.notes, notOurs(c))
		p.warn(c, "a dry run of it is refused")
	default:
		p.notes = append(p.notes, notOurs(c))
	}
}

// findings are what was found of a thing that changes.
func findings(c plan.Change) state.Findings {
	if c.Before == nil {
		return state.Findings{}
	}
	return c.Before.Findings
}

// overlaps is where the change of a thing that is ours overlaps another of the live
// target. It names fields and no values: the drift has them, masked.
func (p *proposer) overlaps(c, planned plan.Change) {
	before, text := findings(p.was[c.Key]).Uncompared(), findings(planned).Uncompared()
	if text != "" && text != before {
		p.warn(c, text)
	}
	if text != "" || before != "" {
		return // What was not compared differs from its defaults everywhere.
	}
	drifted := p.was[c.Key].Fields
	var met, more []string
	for _, f := range drifted {
		if touches(c.Fields, f.Path) {
			met = append(met, f.Path)
		}
	}
	for _, f := range planned.Fields {
		if !touches(c.Fields, f.Path) && !touches(drifted, f.Path) {
			more = append(more, f.Path)
		}
	}
	if len(met) > 0 {
		p.note(c, "has drifted live where the step changes it: "+few(met))
	}
	if len(more) > 0 {
		p.note(c, "live, the step changes more of it: "+few(more))
	}
}

// touches reports whether any of the fields is the one at a path, holds it or is in it.
func touches(fields []plan.FieldChange, path string) bool {
	return slices.ContainsFunc(fields, func(f plan.FieldChange) bool { return within(f.Path, path) || within(path, f.Path) })
}

func within(path, part string) bool {
	rest, ok := strings.CutPrefix(part, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// few names some of many.
func few(paths []string) string {
	const listed = 5
	rest := len(paths) - listed
	if rest <= 0 {
		return strings.Join(paths, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(paths[:listed], ", "), rest)
}
