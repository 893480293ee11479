package proposal_test

import (
	"fmt"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/proposal"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/owner"
)

// real is a live thing.
type real struct {
	// object is nil for one that was applied and is gone.
	object m
	// applied is what was applied of it; nil for a thing that is not ours.
	applied m
	// kept is true for what its target does not offer for deletion, adopted for what
	// it does although nothing vouches for it.
	kept, adopted bool
	impact, owner string
	terms         string
	findings      state.Observation
}

// ours is a live thing that is as it was applied.
func ours(object m) real { return real{object: object, applied: object} }

// drifted is one that was applied and has been changed since.
func drifted(applied, object m) real { return real{object: object, applied: applied} }

// foreign is one that we never applied.
func foreign(object m) real { return real{object: object} }

// target is a live target by names.
type liveTarget map[string]real

// observe reads a target as a Target does.
func (w liveTarget) observe(desired state.Set) state.Set {
	var out []state.Item
	for name, r := range w {
		_, want := desired.Get(key(name))
		mine := r.applied != nil && r.object != nil && !r.kept || r.adopted
		if !want && !mine && r.findings.Unknown == "" {
			continue
		}
		item := state.Item{Key: key(name), Version: "v1", Object: r.object, Observation: r.findings, Owner: ownedBy(r.owner), CorrectionPolicy: state.CorrectionPolicy{ReadOnly: r.terms}}
		if r.object != nil {
			item.Live = state.Preconditions{UID: "uid-" + name, ResourceVersion: "1"}
		}
		if r.applied != nil {
			item.Applied = state.Hash(r.applied)
		}
		if !want {
			item.Impact = r.impact
		}
		out = append(out, item)
	}
	return state.NewSet(out...)
}

// problems are those of a revision that has some.
var problems = []state.Problem{{Message: "a problem"}}

// sides are two revisions of a target.
func (w liveTarget) sides(before, after state.Set) proposal.RevisionStates {
	return proposal.RevisionStates{Before: proposal.RevisionState{Desired: before, Observed: w.observe(before)}, After: proposal.RevisionState{Desired: after, Observed: w.observe(after)}}
}

// summaryLines writes a plan, one line for each thing that is reported.
func summaryLines(p plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		line := fmt.Sprintf("%s %s", c.Action, c.Key.Name)
		if c.Action == plan.Update {
			for _, f := range plan.Diff(c.Before.Object, c.After.Object) {
				line += fmt.Sprintf(" %s=%v>%v", f.Path, f.Before, f.After)
			}
		}
		if c.Before != nil && c.Before.ContentUnknown().Code != "" {
			line += " (" + c.Before.ContentUnknown().Text + ")"
		}
		switch {
		case c.ReadOnly():
			line += " [never: " + c.Hold.String() + "]"
		case !c.Admitted():
			line += " [waits: " + c.Hold.String() + "]"
		}
		if c.Before != nil && c.Before.Impact != "" {
			line += " {" + c.Before.Impact + "}"
		}
		if c.Before != nil && c.Before.Owner != (owner.Reference{}) {
			line += " {also " + c.Before.Owner.Name + "}"
		}
		out = append(out, line)
	}
	for _, u := range p.Unknown {
		out = append(out, "unknown "+u.Key.Name+": "+u.Reason)
	}
	for _, n := range p.Notes {
		out = append(out, "note "+n.Key.Name+": "+warned(n))
	}
	return out
}

// warned is the text of a note, marked where it is a warning.
func warned(n plan.Note) string {
	if n.Severity == finding.Warning {
		return "Warning: " + n.Text
	}
	return n.Text
}

// liveValues are all values that a proposal holds of things as they are live.
func liveValues(p plan.Proposal) string {
	var out []any
	for _, of := range []plan.Plan{p.Proposed, p.Drift} {
		for _, c := range of.Changes {
			if c.Before != nil {
				out = append(out, c.Before)
			}
			out = append(out, c.Fields, c.Hold)
		}
		out = append(out, of.Notes, of.Unknown, of.Reasons())
	}
	text := ""
	for _, v := range out {
		if i, ok := v.(*state.Item); ok {
			text += fmt.Sprintf("%+v\n", *i)
			continue
		}
		text += fmt.Sprintf("%+v\n", v)
	}
	return text
}

// ownedBy is nobody for an empty name.
func ownedBy(name string) owner.Reference {
	if name == "" {
		return owner.Reference{}
	}
	return owner.Reference{Kind: owner.Flux, Name: name}
}
