package proposal

import (
	"cmp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// undecided is what a revision declares, as if it had been found: the terms are those
// of what is desired afterwards.
func undecided(set state.Set) state.Set {
	items := set.Items()
	for i := range items {
		items[i].CorrectionPolicy = state.CorrectionPolicy{}
	}
	return state.NewSet(items...)
}

// proposer is one Propose at work.
type proposer struct {
	RevisionStates
	// was and live are the live plans without the merge and with it.
	was, live map[state.Key]plan.Change
	// changed are the keys of what the merge changes.
	changed map[state.Key]bool
	changes []plan.Change
	notes   []plan.Note
}

func (p *proposer) addNote(c plan.Change, f finding.Finding) {
	p.notes = append(p.notes, newNote(c, f))
}

// warn adds a note that is a warning.
func (p *proposer) warn(c plan.Change, f finding.Finding) {
	n := newNote(c, f)
	n.Severity = finding.Warning
	p.notes = append(p.notes, n)
}

func newNote(c plan.Change, f finding.Finding) plan.Note { return plan.NewNote(c.Key, c.Origin(), f) }

// notOurs is all that is reported of what exists and is not in the applied inventory.
func notOurs(c plan.Change) plan.Note {
	n := newNote(c, finding.New(codeNotManaged, "exists, not managed by this Sync"))
	n.NotOurs = true
	return n
}

// ours reports whether what was observed may be shown.
func ours(observed state.Item) bool { return observed.Applied != "" }

// add takes over a difference of the two revisions.
func (p *proposer) add(c plan.Change) {
	if c.Action == plan.Delete {
		p.remove(c)
		return
	}
	observed, _ := p.After.Observed.Get(c.Key)
	planned, will := p.live[c.Key]
	if c.Before != nil && ours(observed) {
		was := *c.Before
		was.Owner, was.Live = observed.Owner, observed.Live
		c.Before = &was
	}
	c.Hold = planned.Hold
	if reason := cmp.Or(planned.ReadOnlyReason(), observed.ReadOnly); reason != "" {
		c = readOnly(c, reason)
	}
	p.changes = append(p.changes, c)
	p.addLiveNote(c, observed, planned, will)
}

// addLiveNote is what the live target makes of a change; will is whether it is among those
// that are planned there.
func (p *proposer) addLiveNote(c plan.Change, observed state.Item, planned plan.Change, will bool) {
	switch exists := observed.Object != nil; {
	case p.Offline, observed.Unknown != "", exists && !will && observed.Live == state.Preconditions{}:
		// Nothing is known of the live thing, as its target itself reports.
	case observed.Hidden:
		if c.Action == plan.Update {
			p.addNote(c, finding.New(codeExistenceUnknown, "is not applied by this Sync: for a comment, it is not read whether it exists"))
		}
	case exists && !ours(observed):
		p.foreign(c, planned)
	case exists && !will:
		p.addNote(c, finding.New(codeAlreadyApplied, "is so already"))
	case exists && c.Action == plan.Create:
		p.addNote(c, finding.New(codeExists, "exists already, and is ours: it is changed, not made"))
	case exists:
		p.overlaps(c, planned)
	case c.Action == plan.Update:
		p.addNote(c, finding.New(codeNotApplied, "is not applied now: it is made anew"))
	}
}

// readOnly is a change of a thing that is only compared.
func readOnly(c plan.Change, reason string) plan.Change {
	c = c.AsReadOnly(reason)
	c.Hold = hold.Reasons{{Rule: hold.ReadOnly, Facts: hold.Facts{Detail: reason}}}
	return c
}

// remove takes over that the merge does not declare a thing any more.
func (p *proposer) remove(c plan.Change) {
	desired, _ := p.Before.Desired.Get(c.Key)
	planned, will := p.live[c.Key]
	after, _ := p.After.Observed.Get(c.Key)
	before, _ := p.Before.Observed.Get(c.Key)
	switch {
	case will && !(p.Offline && desired.ReadOnly != ""):
		c = withLosses(c, after)
		c.Hold = planned.Hold
		if reason := planned.ReadOnlyReason(); reason != "" {
			c = readOnly(c, reason)
		}
	case desired.ReadOnly != "":
		p.addNote(c, finding.New(codeNotComparedAnyMore, "is not compared any more"))
		return
	case after.Unknown != "" || before.Unknown != "":
		// Nothing is known of the live thing, as its target itself reports.
	case after.Object != nil && p.After.hasProblems():
		// Nor waited for: mended, it is another revision. Nobody shall count nodes
		// as lost with a pool that is only misspelled.
		c = readOnly(withLosses(c, after), "nothing is deleted while the repository has problems: they may hide what seems to be removed")
	case after.Object != nil:
		c = readOnly(withLosses(c, after), "nothing is deleted (prune: false)")
	case before.Object == nil:
		p.addNote(c, finding.New(codeNotApplied, "is not applied now: nothing is deleted"))
	case terminating(before):
		p.addNote(c, finding.New(codeTerminating, "is being deleted already"))
	default:
		c = readOnly(c, "is not deleted with it: a deletion policy, another owner or what still uses it keeps it")
		if !ours(before) {
			p.notes = append(p.notes, notOurs(c))
		}
	}
	p.changes = append(p.changes, c)
}

// withLosses completes a deletion with what the live target reports of the thing.
func withLosses(c plan.Change, observed state.Item) plan.Change {
	was := *c.Before
	was.DeletionImpact, was.Live, was.Wave = observed.DeletionImpact, observed.Live, observed.Wave
	if ours(observed) {
		was.Owner = observed.Owner
	}
	c.Before = &was
	return c
}

// terminating reports whether a Kubernetes object was observed on its way out.
func terminating(observed state.Item) bool {
	metadata, _ := observed.Object["metadata"].(map[string]any)
	return metadata["deletionTimestamp"] != nil
}

// addUndeclared takes over what the merge brings about without changing it, such as a
// deletion that had to wait for a problem to be mended.
func (p *proposer) addUndeclared(c plan.Change) {
	observed, _ := p.After.Observed.Get(c.Key)
	desired, _ := p.After.Desired.Get(c.Key)
	visible, hidden := hide(withDeclared(c, desired), observed)
	if hidden {
		p.notes = append(p.notes, notOurs(c))
	}
	if c.Action == plan.Delete && p.Before.hasProblems() && !p.After.hasProblems() {
		p.addNote(c, finding.New(codeDeletionResumed, "was removed before, and waited for the repository's problems to be mended"))
	}
	p.changes = append(p.changes, visible)
}

// hide takes live values out of a change of what is not ours, and reports whether there
// is something to report of it. That a deletion is about what we made, the target
// guarantees.
func hide(c plan.Change, observed state.Item) (disclosed plan.Change, hidden bool) {
	if c.Before == nil || ours(observed) {
		return c, false
	}
	was := state.Item{Key: c.Key, Version: c.Before.Version, Wave: c.Before.Wave, CorrectionPolicy: c.Before.CorrectionPolicy}
	c.Fields = nil
	if c.Action == plan.Delete {
		c.Before = &was
		c = withLosses(c, observed)
		return c, false
	}
	was.Object = c.After.Object
	c.Before = &was
	return c, true
}

// proposedPlan puts together what the merge does.
func (p *proposer) proposedPlan(live, was plan.Plan) plan.Plan {
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

	withoutOrigin := func(n plan.Note) plan.Note {
		n.Origin = state.Origin{}
		return n
	}
	old := map[plan.Note]bool{}
	for _, n := range was.Notes {
		old[withoutOrigin(n)] = true
	}
	for _, n := range publishable(live.Notes, p.After.Observed) {
		if !old[withoutOrigin(n)] {
			out.Notes = append(out.Notes, n)
		}
	}
	p.listIgnored(&out, live, was)
	out.Notes = append(out.Notes, p.notes...)
	slices.SortStableFunc(out.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	return out
}

// publishable are the notes of what is ours, and of what is only read or is not
// there: a quota has no content, and its notes are all there is of it.
func publishable(notes []plan.Note, observed state.Set) []plan.Note {
	var out []plan.Note
	for _, n := range notes {
		if item, _ := observed.Get(n.Key); ours(item) || len(item.Object) == 0 {
			out = append(out, n)
		}
	}
	return out
}

// foreign reports that a thing exists, and whether the API server would take the change.
func (p *proposer) foreign(c, planned plan.Change) {
	switch found := findings(planned); {
	case found.Unreadable != "":
		p.addNote(c, found.ContentUnknown())
	case found.DryRunError != "":
		p.notes = append(p.notes, notOurs(c))
		p.warn(c, finding.New(finding.DryRunRefused, "a dry run of it is refused"))
	default:
		p.notes = append(p.notes, notOurs(c))
	}
}

// findings are what was found of a thing that changes.
func findings(c plan.Change) state.Observation {
	if c.Before == nil {
		return state.Observation{}
	}
	return c.Before.Observation
}

// overlaps is where the change of a thing that is ours overlaps another of the live
// target. It names fields and no values: the drift has them, masked.
func (p *proposer) overlaps(c, planned plan.Change) {
	before, now := findings(p.was[c.Key]).ContentUnknown(), findings(planned).ContentUnknown()
	if now.Code != "" && now != before {
		p.warn(c, now)
	}
	if now.Code != "" || before.Code != "" {
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
		p.addNote(c, finding.New(codeDriftedField, "has drifted live in fields that the change sets: %s", finding.As("fields", met, plural.FirstOf(met, maxNamed, ", "))))
	}
	if len(more) > 0 {
		p.addNote(c, finding.New(codeMoreFieldsChange, "live, the change also sets: %s", finding.As("fields", more, plural.FirstOf(more, maxNamed, ", "))))
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

// maxNamed is how many fields are named where more change.
const maxNamed = 5

// drift is a live plan without what must not be shown, and without what no target read:
// whether that differs is unknown.
func drift(was plan.Plan, of RevisionState) plan.Plan {
	observed := of.Observed
	out := was
	was.Changes = slices.DeleteFunc(slices.Clone(was.Changes), func(c plan.Change) bool {
		found, _ := observed.Get(c.Key)
		return found.Hidden
	})
	out.Changes = slices.Clone(was.Changes)
	out.Notes = publishable(was.Notes, observed)
	out.Ignored = nil
	for _, ignored := range was.Ignored {
		found, _ := observed.Get(ignored.Key())
		if declared, differs := ignored.WithoutLiveValues(); differs && ours(found) {
			out.Ignored = append(out.Ignored, declared)
		}
	}
	for i, c := range was.Changes {
		found, _ := observed.Get(c.Key)
		desired, _ := of.Desired.Get(c.Key)
		visible, hidden := hide(withDeclared(c, desired), found)
		out.Changes[i] = visible
		if hidden {
			out.Notes = append(out.Notes, notOurs(c))
		}
	}
	slices.SortStableFunc(out.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	return out
}
