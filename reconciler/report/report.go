// Package report turns a Plan, the Outcome of applying it and the Forecast of
// what comes of it into what a person or a program reads: text, Markdown, JSON.
//
// It refuses to show secrets: New masks before anything is compared or
// rendered, so that no renderer ever holds one (internal/mask has what counts as
// secret). It also refuses to trust content: whatever comes from a repository or a
// cluster is escaped for where it is shown. Equal input gives byte-identical output.
// Start reading at New, then at Report.Markdown; what is masked, escaped, compared,
// predicted and folded is in the packages below internal.
package report

import (
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/report/internal/mask"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Report is everything there is to show, masked. Its JSON form is stable:
// fields are added, never renamed, removed or given another meaning. Lists are
// in the order of work or sorted, and never null.
type Report struct {
	// Summary counts what follows.
	Summary Summary `json:"summary"`
	// Changes are in the order of work.
	Changes []Change `json:"changes"`
	// Unknown lists what could not be compared: it may differ or not.
	Unknown []Unknown `json:"unknown"`
	// Notes are other findings on things that may well be as declared, warnings first.
	Notes []Note `json:"notes"`
	// Ignored are the fields that differ and are not corrected, because the Sync ignores them; absent
	// where there are none.
	Ignored []Ignored `json:"ignored,omitempty"`
	// Problems are what was found wrong in the repository.
	Problems []Problem `json:"problems"`
	// Holds are the reasons for which changes are held back. A change that several
	// rules hold is with each of them.
	Holds []Hold `json:"holds"`
	// ConfirmationToken is the value for the annotation poolwright.dev/confirm that lets
	// pass all that waits for a confirmation; absent where nothing does, or where it
	// cannot be known yet, as before a merge.
	ConfirmationToken string `json:"confirmationToken,omitempty"`
	// Sync is namespace/name of the Sync that the plan is one of; absent where it is not
	// known.
	Sync string `json:"sync,omitempty"`
	// SyncState is why the Sync applies no newer revision at present: "Terminating", "Suspended",
	// "RolledBack", "NotFastForward" or "LimitExceeded"; absent where it does, or that is not known.
	SyncState string `json:"syncState,omitempty"`
	// NotReady lists what was applied and did not become ready in time. It is
	// absent from a report of a plan alone.
	NotReady []NotReady `json:"notReady,omitempty"`
	// Drift is what differs with the changes or without; nil where they are not
	// distinguished.
	Drift *Drift `json:"drift,omitempty"`
	// GuardResults are the results of a Sync's rules and of lint for the changes, those that
	// hold them first.
	GuardResults []GuardResult `json:"guardResults,omitempty"`
	// Quota is whether the account's quotas suffice; absent where that is not known.
	Quota quotaState `json:"quota,omitempty"`
	// Provenance is what the report was made of; nil for a plan of what is at hand.
	Provenance *Provenance `json:"provenance,omitempty"`
	// Forecast is what the changes do to nodes, pods and money; nil where none was
	// requested. It may be set to what provision found: it is masked and escaped when it
	// is shown.
	Forecast *provision.Forecast `json:"forecast,omitempty"`
}

// Summary counts. Held and skipped changes count under their action as well, unless their object is
// read-only.
type Summary struct {
	Create int `json:"create"`
	Update int `json:"update"`
	Delete int `json:"delete"`
	Held   int `json:"held"`
	// Skipped counts the changes that nothing releases, as Skipped of each: of read-only objects, and of drift that is
	// only reported.
	Skipped int `json:"skipped,omitempty"`
	// ReadOnly is how many of the skipped changes are of read-only objects.
	ReadOnly int `json:"readOnly"`
	Unknown  int `json:"unknown"`
	// Warnings counts the notes on what will go wrong.
	Warnings  int `json:"warnings"`
	Unchanged int `json:"unchanged"`
	Problems  int `json:"problems"`
	// Hash identifies the plan as far as it is shown: a report with another
	// hash shows other changes. It is made of masked values, so that no secret can be
	// found by trial against it.
	Hash string `json:"hash"`
	// Headline is the report in one line for a person, see [Report.Headline]; set
	// where it is written as JSON with a forecast or of a proposal.
	Headline string `json:"headline,omitempty"`
	// Outcome counts what became of the changes; absent before they are tried.
	Outcome *OutcomeCounts `json:"outcome,omitempty"`
}

// OutcomeCounts counts changes by what became of them. Their sum, without ReadOnly, is the number of
// changes.
type OutcomeCounts struct {
	Applied  int `json:"applied"`
	Held     int `json:"held"`
	Failed   int `json:"failed"`
	Conflict int `json:"conflict"`
	// Skipped counts the changes that nothing releases, as Summary.Skipped, and ReadOnly those of them of which the object is
	// read-only.
	Skipped  int `json:"skipped"`
	ReadOnly int `json:"readOnly"`
	// NotAttempted counts the changes that the run would have made and did not begin.
	NotAttempted int `json:"notAttempted"`
}

// Object names a thing in its target.
type Object struct {
	// Target is "kubernetes" or "aws".
	Target    string `json:"target"`
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String writes the name as state.Key does, after the target's name unless that
// is the cluster.
func (o Object) String() string {
	k := state.Key{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	if o.Target == "" || o.Target == state.TargetKubernetes {
		return k.String()
	}
	return o.Target + " " + k.String()
}

// Change is one thing that comes, changes or goes; or would, were it not only
// compared.
type Change struct {
	Object
	// Action is "create", "update" or "delete".
	Action string `json:"action"`
	// Drift is true when the repository still declares what was applied last, and
	// the live thing alone has moved.
	Drift bool `json:"drift,omitempty"`
	// File and Line are where it is declared; empty for a deletion.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Fields lists what an update changes, sorted by path.
	Fields []Field `json:"fields,omitempty"`
	// Desired is the whole object that a creation makes, with secret values
	// replaced by "(masked)".
	Desired map[string]any `json:"desired,omitempty"`
	// Notes are other findings: what dies with a deletion, who else manages the thing. Findings are
	// the same with their codes and facts.
	Notes    []string          `json:"notes,omitempty"`
	Findings []finding.Finding `json:"findings,omitempty"`
	// Reason is why the change is held or skipped, as status.pending[].reason of a Sync.
	Reason string `json:"reason,omitempty"`
	// Skipped is true where nothing releases the change, since its object is read-only or its drift is only reported.
	Skipped bool `json:"skipped,omitempty"`
	// ReadOnly is true for a thing that Poolwright compares and never writes:
	// Reason is who changes it, and how.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Status is "applied", "held", "failed", "conflict", "skipped" where Skipped is true, or "notAttempted" where the
	// run did not begin the change; absent before a run.
	Status string `json:"status,omitempty"`
	// Error is why the change was not made.
	Error string `json:"error,omitempty"`
}

// Statuses of changes that were not made and did not fail. All others are those of the run.
const (
	statusSkipped      = "skipped"
	statusNotAttempted = "notAttempted"
)

// Field is one field's difference.
type Field = mask.Field

// Unknown is a thing of which nothing is known.
type Unknown struct {
	Object
	// File and Line are where it is declared; empty for a thing that is not.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Reason is why, and what a person can do about it. Code is a code of docs/findings.md.
	Reason string       `json:"reason"`
	Code   finding.Code `json:"code,omitempty"`
}

// Note is a finding about one thing.
type Note struct {
	Object
	// File and Line are where it is declared; empty for a thing that is not.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Severity is "warning" for what will go wrong unless somebody acts, "note" for all else.
	Severity finding.Severity `json:"severity"`
	// NotOurs is true where all that may be shown is that the thing exists.
	NotOurs bool `json:"notOurs,omitempty"`
	// NotFound is true where the API has nothing of that name: a quota that is not listed.
	NotFound bool `json:"notFound,omitempty"`
	// QuotaUnknown is true for a warning that quotas could not be read.
	QuotaUnknown bool `json:"quotaUnknown,omitempty"`
	// Code is a code of docs/findings.md, Facts are Text as data.
	Code  finding.Code  `json:"code,omitempty"`
	Facts finding.Facts `json:"facts,omitempty"`
	Text  string        `json:"text"`
}

// warning begins a warning in a text.
const warning = "Warning: "

// Problem is what is wrong in a file of the repository.
type Problem struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Code is a code of docs/findings.md, Facts are Message as data.
	Code    finding.Code  `json:"code,omitempty"`
	Facts   finding.Facts `json:"facts,omitempty"`
	Message string        `json:"message"`
}

// Hold is a reason for which changes are held back.
type Hold struct {
	// Key is the reason's, as hold.Reason.Key returns it.
	Key  string    `json:"-"`
	Rule hold.Rule `json:"rule"`
	// Reason is what the rule found in a sentence, Facts the same as data.
	Reason string     `json:"reason"`
	Facts  hold.Facts `json:"facts"`
	// Objects are the things concerned, in the order of work.
	Objects []Object `json:"objects"`
	// Confirmable is true where a confirmation lets the changes pass the rule.
	Confirmable bool `json:"confirmable,omitempty"`
}

// NotReady is a thing that was applied and not ready in time.
type NotReady struct {
	Object
	Reason string `json:"reason"`
}

// Empty reports whether nothing differs, nothing is unknown and nothing is
// wrong. What is read-only differs like anything else; a note is only read.
func (r Report) Empty() bool {
	return len(r.Changes) == 0 && len(r.Unknown) == 0 && len(r.Problems) == 0
}

// quotaState is whether quotas suffice.
type quotaState string

// The values of quotaState.
const (
	quotaOK quotaState = "ok"
	// quotaShort is that one will not suffice with the change.
	quotaShort quotaState = "short"
	// quotaShortBefore is that one does not suffice, with the change or without.
	quotaShortBefore quotaState = "short-before"
)

// Drift is what differed before the change and does so without it.
type Drift struct {
	// Changes are what would put it back, in the order of work.
	Changes []Change `json:"changes"`
	// Unknown lists what could not be compared.
	Unknown []Unknown `json:"unknown"`
	// Notes are other findings on things as they are, such as "exists, not managed by this Sync", warnings
	// first. That a quota suffices is not among them.
	Notes []Note `json:"notes"`
}

// GuardOutcome is what a rule makes of a change.
type GuardOutcome string

// The results.
const (
	GuardOK      GuardOutcome = "ok"
	GuardWarning GuardOutcome = "warning"
	GuardHeld    GuardOutcome = "held"
)

// GuardResult is the result of one rule for the change.
type GuardResult struct {
	// Key is that of the Hold which the rule reports; empty where it holds no change.
	Key string `json:"-"`
	// Rule is a hold.Rule, "lint" or "merge".
	Rule   string       `json:"rule"`
	Result GuardOutcome `json:"result"`
	// Text is what was found, and what lets it pass.
	Text string `json:"text"`
}

// Provenance is what a report of a change was made of: with another head, base or moment it
// may be another.
type Provenance struct {
	// Cluster is the name of the cluster; empty where none is known.
	Cluster string `json:"cluster,omitempty"`
	// Base is the branch or reference that is merged into, BaseCommit where it stands.
	Base       string `json:"base,omitempty"`
	BaseCommit string `json:"baseCommit,omitempty"`
	// HeadCommit is what would be merged; empty for a working copy.
	HeadCommit string `json:"headCommit,omitempty"`
	// MergeBase is the commit from which both come, against which the change is reported.
	MergeBase string `json:"mergeBase,omitempty"`
	// Observed is when the live targets were read; zero where they were not.
	Observed time.Time `json:"observed,omitzero"`
}
