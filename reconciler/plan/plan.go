// Package plan compares what is desired with what was observed and returns, as plain
// data, what to change. Compute is a pure function: no context, clock, client, logger
// or metric, so that a pull request's preview and a merge's work come from the same
// code.
//
// It refuses to depend on Kubernetes or AWS: targets hand it canonical Sets in which
// equal means equal. Start reading at Compute.
package plan

import (
	"cmp"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/pointer"
)

// Action is what a Change does.
type Action string

// The actions. A thing that needs nothing has no Change.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is one thing to do, with all that a reader or a target needs of it.
type Change struct {
	Key    state.Key
	Action Action
	// Before is what was observed; nil for Create.
	Before *state.Item
	// After is what is desired; nil for Delete.
	After *state.Item
	// Fields lists what differs, sorted by path. For Create and Delete it is
	// empty: the whole object comes or goes.
	Fields []FieldChange
	// Drift is true when Git still declares what we last applied, and the live
	// thing alone has moved.
	Drift bool
	// Hold is why the change must not be made now; empty where it may. See Policy.
	Hold hold.Reasons
	// Confirmed is what of Before.Losses a person confirmed by quoting the confirmation
	// token of a deletion that a guard would hold otherwise; nil for all others.
	Confirmed loss.Counts
	// Tokens are the confirmation tokens that were quoted and let the change pass, which
	// a guard would hold otherwise.
	Tokens []hold.Token
}

// Admitted reports whether the change may be made now: no policy holds or skips it.
func (c Change) Admitted() bool { return len(c.Hold) == 0 }

// Held reports whether the change waits for a confirmation, or for a time.
func (c Change) Held() bool { return !c.Admitted() && !c.Skipped() }

// Skipped reports whether nothing releases the change: its object is read-only, or drift is only reported.
func (c Change) Skipped() bool { return c.ReadOnly() || c.Hold.Skipped() }

// Origin is where the change was declared; zero for a deletion.
func (c Change) Origin() state.Origin {
	if c.After != nil {
		return c.After.Origin
	}
	return state.Origin{}
}

// Wave is the change's place in the order of work.
func (c Change) Wave() int {
	switch {
	case c.After == nil:
		return c.Before.Wave
	case c.Before != nil && c.After.OnDecrease != nil && shrinks(c.After.OnDecrease.Field, c.Before.Object, c.After.Object):
		return c.After.OnDecrease.Wave
	}
	return c.After.Wave
}

// Plan is everything that separates what is desired from what was observed.
type Plan struct {
	// Changes are sorted in the order of work: creations and updates by wave
	// and key, then deletions by falling wave and key.
	Changes []Change
	// Unchanged counts the things that are as desired. One that is desired without
	// any content, and not even compared, is read for its notes alone. It
	// counts nowhere: nothing of it could be otherwise, or is there to manage.
	Unchanged int
	// Managed counts the things that are ours today; of the unknown ones those
	// that are known to have been (Unknown.Ours). What is read-only by its
	// own terms is not ours, unless it would be deleted.
	Managed int
	// Desired are the Change.Fingerprints of all pools, classes and overlays that are
	// desired, whether they are so already or not.
	Desired []Fingerprint
	// Unknown lists the things of which nothing is known, sorted by key:
	// they may differ or not.
	Unknown []Unknown
	// Pools are the NodePools that are desired, and the DevicePlugins by which their limits count,
	// and Quotas what the targets read of the vCPU quotas
	// that they draw on; both sorted by key.
	Pools  []state.Item
	Quotas []Quota
	// Partial is true for a plan of some things, or one for which no target was read (see MarkPartial):
	// what it has no Quotas of may have some. Default false.
	Partial bool
	// Notes are what targets report beside the changes, sorted by key.
	Notes []Note
	// Ignored are the things of which fields are declared otherwise and are not corrected, sorted by
	// key.
	Ignored []IgnoredFields
	// Binding is what the confirmation tokens of this plan are bound to. The first policy
	// sets it.
	Binding confirm.Binding
}

// IgnoredFields are the fields of one thing that differ and are not corrected, because the Sync
// ignores them.
type IgnoredFields struct {
	// Live is what is desired with the live values of these fields, Declared with those of the
	// repository.
	Live, Declared state.Item
}

// Key is that of the thing.
func (i IgnoredFields) Key() state.Key { return i.Declared.Key }

// Fields are what differs, from the live value to the declared one, sorted by path.
func (i IgnoredFields) Fields() []FieldChange { return Diff(i.Live.Object, i.Declared.Object) }

// WithoutLiveValues has the declared values of the fields that differ, and no live ones. It is false
// where none of these is declared.
func (i IgnoredFields) WithoutLiveValues() (IgnoredFields, bool) {
	live := i.Declared
	for _, text := range i.Declared.Ignore {
		p, err := pointer.Parse(text)
		if err != nil {
			continue
		}
		declared, _ := p.Get(i.Declared.Object)
		if found, _ := p.Get(i.Live.Object); !state.Equal(found, declared) {
			live.Object, _ = p.Remove(live.Object).(map[string]any)
		}
	}
	i.Live = live
	return i, !state.Equal(i.Live.Object, i.Declared.Object)
}

// Same reports whether the same is declared in the other, and ignored.
func (i IgnoredFields) Same(other IgnoredFields) bool {
	return i.Key() == other.Key() && state.Equal(i.Declared.Object, other.Declared.Object)
}

// keepIgnored is a desired thing with the live values of what is ignored, of which it records those
// that differ.
func (p *Plan) keepIgnored(w, o state.Item) state.Item {
	if len(o.Ignored) == 0 || o.Object == nil {
		return w
	}
	declared, live := w, w
	w.Object, live.Object = state.KeepDeclared(w.Object, o.Ignored), state.Keep(w.Object, o.Ignored)
	if !state.Equal(live.Object, declared.Object) {
		p.Ignored = append(p.Ignored, IgnoredFields{Live: live, Declared: declared})
	}
	return w
}

// Unknown is a thing that could not be compared.
type Unknown struct {
	Key state.Key
	// Origin is where it is declared; zero for one that is not.
	Origin state.Origin
	// Reason is why, and what a person can do about it; Code is the same as a code.
	Reason string
	Code   finding.Code
	// Ours is true for what we applied when it could still be observed.
	Ours bool
	// UsedBy is the part of another thing through which it is used, where it would be
	// deleted if it is there; zero for what is desired.
	UsedBy loss.FieldRef
}

// Note is a message about one thing.
type Note struct {
	Key state.Key
	// Origin is where it is declared; zero for one that is not.
	Origin state.Origin
	// Severity is finding.Warning for what will go wrong unless somebody acts; empty, or finding.Note, for all else.
	Severity finding.Severity
	// NotOurs is true where all that may be shown of a thing is that it exists, because the Sync did not make it.
	NotOurs bool
	// NotFound is true where the API has nothing of that name, see [state.Observation].
	NotFound bool
	// QuotaUnknown is true for a warning that a quota could not be read ([state.Quota.QuotaUnknown]).
	QuotaUnknown bool
	// Code and Facts are Text as data.
	Code  finding.Code
	Facts finding.Facts
	Text  string
	// Omitted is how many notes this one stands for, which are not listed. Default 0, for
	// one that stands for itself.
	Omitted int
}

// NewNote is a finding about a thing.
func NewNote(k state.Key, declared state.Origin, f finding.Finding) Note {
	return Note{Key: k, Origin: declared, Code: f.Code, Facts: f.Facts, Text: f.Text}
}

// Compute lists the changes that turn observed into desired. A thing that is
// observed but not desired is deleted: targets put only what is ours into
// observed. What is unknown is neither changed nor counted as unchanged. What
// is read-only (state.CorrectionPolicy.ReadOnly) is held before any policy runs. The
// policies run in their order.
func Compute(desired, observed state.Set, policies ...Policy) Plan {
	var p Plan
	for w := range desired.All() {
		o, _ := observed.Get(w.Key)
		w = p.keepIgnored(w, o)
		p.compare(w, o)
		if isNodeConfiguration(w.Key) {
			provisioner := w
			p.Desired = append(p.Desired, fingerprint(w.Key, &provisioner))
		}
		if boundsPools(w.Key) {
			p.Pools = append(p.Pools, w)
		}
		if o.Quota != nil {
			p.Quotas = append(p.Quotas, Quota{Key: w.Key, Quota: *o.Quota})
		}
	}
	for o := range observed.All() {
		if _, keep := desired.Get(o.Key); keep {
			continue
		}
		p.addNote(o, state.Origin{}, true)
		if o.Unknown == "" && o.Object != nil {
			p.Managed++
			p.Changes = append(p.Changes, Change{Key: o.Key, Action: Delete, Before: &o})
		}
	}
	slices.SortStableFunc(p.Changes, order)
	slices.SortStableFunc(p.Unknown, func(a, b Unknown) int { return a.Key.Compare(b.Key) })
	slices.SortStableFunc(p.Notes, func(a, b Note) int { return a.Key.Compare(b.Key) })
	p = holding(p, readOnlyReasons)
	for _, policy := range policies {
		p = policy(p)
	}
	return p
}

// compare holds a desired thing against what was observed of it; a zero observed
// Item is one that is not there.
func (p *Plan) compare(w, o state.Item) {
	// A thing that declares nothing is only read, such as a quota.
	onlyRead := w.Object != nil && len(w.Object) == 0 && w.ReadOnly == ""
	ours := w.ReadOnly == "" && o.ReadOnly == "" && !onlyRead
	p.addNote(o, w.Origin, ours && o.Applied != "")
	switch {
	case o.Unknown != "":
		return
	case o.Object == nil:
		// What a target never makes is missing, and that is all; the target determines who
		// makes it.
		w.ReadOnly = cmp.Or(o.ReadOnly, w.ReadOnly)
		p.Changes = append(p.Changes, Change{Key: w.Key, Action: Create, After: &w, Drift: drifted(o, w)})
		return
	case !state.Equal(w.Object, o.Object), o.Unreadable != "", o.DryRunError != "", o.Ownership != nil:
		c := Change{Key: w.Key, Action: Update, Before: &o, After: &w, Drift: drifted(o, w)}
		c.Fields = c.Diff(o.Object, w.Object)
		p.Changes = append(p.Changes, c)
	case !onlyRead:
		p.Unchanged++
	}
	if ours {
		p.Managed++
	}
}

// addNote takes over what an observed thing reports beside its content.
func (p *Plan) addNote(o state.Item, declared state.Origin, ours bool) {
	if o.Unknown != "" {
		p.Unknown = append(p.Unknown, Unknown{Key: o.Key, Origin: declared, Reason: o.Unknown, Code: o.UnknownCode, Ours: ours, UsedBy: o.UsedBy})
		if ours {
			p.Managed++
		}
	}
	unread := o.Quota != nil && o.Quota.Unknown != ""
	for _, f := range o.Warnings {
		n := NewNote(o.Key, declared, f)
		n.Severity, n.QuotaUnknown = finding.Warning, unread
		p.Notes = append(p.Notes, n)
	}
	for _, f := range o.Notes {
		n := NewNote(o.Key, declared, f)
		n.NotFound = o.NotFound
		p.Notes = append(p.Notes, n)
	}
}

// ReadOnlyReason is why the change is never made, since its thing is only compared; empty where it may be made.
func (c Change) ReadOnlyReason() string {
	if c.After != nil && c.After.ReadOnly != "" {
		return c.After.ReadOnly
	}
	if c.Before != nil {
		return c.Before.ReadOnly
	}
	return ""
}

// AsReadOnly is the change of a thing that is only compared, for the given reason. Items are shared with
// who observed them, so it has copies of them. Its Hold is as before.
func (c Change) AsReadOnly(reason string) Change {
	for _, item := range []**state.Item{&c.Before, &c.After} {
		if *item != nil {
			held := **item
			held.ReadOnly = reason
			*item = &held
		}
	}
	return c
}

func readOnlyReasons(c Change) hold.Reasons {
	if !c.ReadOnly() {
		return nil
	}
	return hold.Reasons{{Rule: hold.ReadOnly, Facts: hold.Facts{Detail: c.ReadOnlyReason()}}}
}

// drifted reports whether the desired thing is what we last applied, so that
// only the live side can have changed.
func drifted(observed, desired state.Item) bool {
	return observed.Applied != "" && observed.Applied == desired.Hash()
}

// order sorts changes into the order of work.
func order(a, b Change) int {
	da, db := a.Action == Delete, b.Action == Delete
	switch {
	case da != db && da:
		return 1
	case da != db:
		return -1
	case a.Wave() != b.Wave() && da:
		return b.Wave() - a.Wave()
	case a.Wave() != b.Wave():
		return a.Wave() - b.Wave()
	}
	return a.Key.Compare(b.Key)
}

// ReadOnly reports whether the thing is read-only, by its own terms or
// because nothing is written to its target (ReportTarget): the change is shown,
// and is never made, confirmed or waited for. Its Hold has the reason, and how a person
// makes the change where the target has that.
func (c Change) ReadOnly() bool { return c.ReadOnlyReason() != "" }

// Count is how many changes have that action, held and standing ones included.
func (p Plan) Count(a Action) int {
	n := 0
	for _, c := range p.Changes {
		if c.Action == a {
			n++
		}
	}
	return n
}

// Empty reports whether nothing differs. While something is unknown, that cannot be
// determined.
func (p Plan) Empty() bool { return len(p.Changes) == 0 && len(p.Unknown) == 0 }
