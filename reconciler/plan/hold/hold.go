// Package hold is why changes of a plan are held or skipped, as data: the rules, what each of them
// found, and the confirmation token that lets the change pass. What a person reads is
// written from it, and nothing is read back from what is written.
//
// It is pure and refuses to decide what is held. Start reading at Reason.
package hold

import (
	"encoding/json"
	"slices"

	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// Rule is what holds or skips a change, in the form of a condition's reason. People read it in this form, too.
type Rule string

// The rules. Those that a confirmation token lets pass give one with their Reason.
const (
	// ReadOnly: the thing is never written, by its own terms (state.CorrectionPolicy.ReadOnly).
	ReadOnly Rule = "ReadOnly"
	// DriftReported: what a hand changed is only reported (spec.drift).
	DriftReported Rule = "DriftReported"
	// MaxPrunePercent: too much would be deleted at once (spec.guard.maxPrunePercent).
	MaxPrunePercent Rule = "MaxPrunePercent"
	// DeletionLosses: the deletion takes more along than the thing itself (loss.DeletionImpact).
	DeletionLosses Rule = "DeletionLosses"
	// UpdateLosses: the update loses what a deletion would (loss.DeletionImpact).
	UpdateLosses Rule = "UpdateLosses"
	// MaxNodesReplaced: more nodes would be replaced or taken away than are allowed
	// (spec.guard.maxNodesReplaced).
	MaxNodesReplaced Rule = "MaxNodesReplaced"
	// ReviewExceeded: more nodes would be replaced or taken away than reviewers were shown.
	ReviewExceeded Rule = "ReviewExceeded"
	// QuotaExceeded: pools would need more than the account's vCPU quotas have left
	// (spec.guard.quota).
	QuotaExceeded Rule = "QuotaExceeded"
	// DependentDeletionHeld: another object, whose deletion is held, uses a field that the change takes away.
	DependentDeletionHeld Rule = "DependentDeletionHeld"
	// SyncChangeHeld: the change relaxes protected fields of a Sync.
	SyncChangeHeld Rule = "SyncChangeHeld"
	// HoldUntil: the thing stays as it is until a time (state.CorrectionPolicy.HoldUntil).
	HoldUntil Rule = "HoldUntil"
)

// Skips reports whether a change is skipped by the rule: it is never made, and nothing can release it. All other rules
// hold a change until a person confirms it or, by HoldUntil, until a time.
func (r Rule) Skips() bool { return r == ReadOnly || r == DriftReported }

// Reason is one of the reasons for which a change is held or skipped.
type Reason struct {
	Rule  Rule
	Facts Facts
	// Token lets the change pass this rule; nil where no confirmation does.
	Token *Token
}

// Key distinguishes what one rule found from what it or another rule found. It quotes the facts, which may
// be secret: it is compared, and not printed.
func (r Reason) Key() string {
	facts, err := json.Marshal(r.Facts)
	if err != nil { // of texts and numbers there is always a JSON
		return r.String()
	}
	return string(r.Rule) + string(facts)
}

// Facts are what a rule found. Each rule fills in those that are named for it.
type Facts struct {
	// Object is the thing whose change is held (DeletionLosses, UpdateLosses, SyncChangeHeld), that
	// uses a field of it (DependentDeletionHeld), or that would be deleted with it (HoldUntil), as state.Key writes it.
	Object string `json:"object,omitempty"`
	// Detail is what the thing's own target has to add: how a person changes what is
	// ReadOnly, or that nothing is written to the target (DriftReported); what
	// goes with a deletion or an update; why it is not known whether something uses it (DependentDeletionHeld); what a
	// person wrote for others (HoldUntil).
	Detail string `json:"detail,omitempty"`
	// Fields are the paths of the fields that a SyncChangeHeld relaxes, or that another object uses (DependentDeletionHeld).
	Fields []string `json:"fields,omitempty"`
	// Deletions are what MaxPrunePercent counted.
	Deletions *Deletions `json:"deletions,omitempty"`
	// Until is when a HoldUntil ends, as RFC 3339 in UTC.
	Until string `json:"until,omitempty"`
	// Losses counts what goes with a deletion or an update.
	Losses loss.Counts `json:"losses,omitempty"`
	// Nodes are what MaxNodesReplaced and ReviewExceeded counted.
	Nodes *Nodes `json:"nodes,omitempty"`
	// Quota is what QuotaExceeded found.
	Quota *Quota `json:"quota,omitempty"`
}

// Deletions are how many things a plan would delete.
type Deletions struct {
	// Count of the Managed things would be deleted.
	Count   int `json:"count"`
	Managed int `json:"managed"`
	// MaxPercent is the share that may be deleted without confirmation. Everything may not, whatever
	// the share.
	MaxPercent int `json:"maxPercent"`
}

// Nodes are how many nodes changes of pools, classes and overlays cost.
type Nodes struct {
	Replaced int `json:"replaced"`
	// Removed are taken away with their pool.
	Removed int `json:"removed"`
	// Pools is how many of both there are by pool, to be compared with reviews.
	Pools map[string]int `json:"-"`
	// Unknown is why the number cannot be computed, Uncertain why it may be more, as where
	// only AWS has which images a class finds; empty where the numbers hold. Who reviews is
	// shown the same.
	Unknown   string `json:"unknown,omitempty"`
	Uncertain string `json:"uncertain,omitempty"`
	// Max is how many may be replaced or taken away without confirmation; nil where none is set.
	Max *int `json:"max,omitempty"`
	// Reviewed are what the reviews showed; nil where there was none.
	Reviewed *Reviews `json:"reviewed,omitempty"`
}

// Reviews are the nodes that reviewers of pull requests were shown.
type Reviews struct {
	PullRequests []int64 `json:"pullRequests"`
	// Nodes were shown of the reviewed pools, which would lose Now.
	Nodes int `json:"nodes"`
	Now   int `json:"now"`
}

// Quota is that NodePools need more of vCPU quotas than these have left.
type Quota struct {
	// Quotas are the names of the quotas in Service Quotas, and Codes what they are called in
	// requests for an increase.
	Quotas []string `json:"quotas,omitempty"`
	Codes  []string `json:"codes,omitempty"`
	// Pools are all that draw on these quotas and on no other, IncreasedPools those by whose changes
	// they need more than before.
	Pools          []string `json:"pools"`
	IncreasedPools []string `json:"increasedPools"`
	// NeededVCPUs is what they need to reach their limits, or for one node, LimitVCPUs what the
	// quotas allow in all, of which UsedByOthers a part where it is true: instances of no declared pool.
	NeededVCPUs  int64 `json:"neededVCPUs,omitempty"`
	LimitVCPUs   int64 `json:"limitVCPUs"`
	UsedByOthers bool  `json:"usedByOthers,omitempty"`
	// SmallestType is the instance type with the fewest vCPUs of a pool that can have no node, since
	// no quota has as many left; empty for all others.
	SmallestType string `json:"smallestType,omitempty"`
	// Unlimited is true where the pool loses its last limit, so that it can need any number of
	// vCPUs; NeededVCPUs is then 0.
	Unlimited bool `json:"unlimited,omitempty"`
	// Unknown is why the quotas could not be read; the numbers are then 0.
	Unknown string `json:"unknown,omitempty"`
}

// Reasons are why one change is held or skipped; none where it is neither.
type Reasons []Reason

// Nodes reports whether the change is held for the nodes that it would cost.
func (r Reasons) Nodes() bool { return r.Has(MaxNodesReplaced, ReviewExceeded) }

// Has reports whether one of the rules is among the reasons.
func (r Reasons) Has(rules ...Rule) bool {
	return slices.ContainsFunc(r, func(one Reason) bool { return slices.Contains(rules, one.Rule) })
}

// Rules are those of the reasons, each once, in their order.
func (r Reasons) Rules() []Rule {
	var out []Rule
	for _, one := range r {
		if !slices.Contains(out, one.Rule) {
			out = append(out, one.Rule)
		}
	}
	return out
}

// Skipped reports whether the change is skipped, and nothing holds it besides.
func (r Reasons) Skipped() bool {
	return len(r) > 0 && !slices.ContainsFunc(r, func(one Reason) bool { return !one.Rule.Skips() })
}

// NeedsConfirmation reports whether a confirmation is waited for.
func (r Reasons) NeedsConfirmation() bool { return len(r.Tokens()) > 0 }

// Tokens are what a confirmation must quote for the change to pass.
func (r Reasons) Tokens() []Token {
	var out []Token
	for _, one := range r {
		if one.Token != nil {
			out = append(out, *one.Token)
		}
	}
	return out
}

// Unconfirmed are the reasons without their tokens, for a plan whose tokens are not
// those of the apply.
func (r Reasons) Unconfirmed() Reasons {
	out := slices.Clone(r)
	for i := range out {
		out[i].Token = nil
	}
	return out
}
