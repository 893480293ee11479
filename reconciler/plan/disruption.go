package plan

import (
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// Review is what reviewers of a pull request were shown of what its changes of pools, classes
// and overlays do to nodes.
type Review struct {
	// PullRequest is the number of the one that was reviewed.
	PullRequest int64
	// Merged is true for a pull request that is known to be merged.
	Merged bool
	// Changes are the Change.Fingerprints of what the reviewed pull request changes.
	Changes []Fingerprint
	// Pools is how many nodes are replaced, or go, of every pool that was reported, with 0 where
	// none is lost.
	Pools map[string]int
}

// IsNodeConfiguration reports whether the change is one of what nodes are made from: a NodePool,
// an EC2NodeClass or a NodeOverlay.
func (c Change) IsNodeConfiguration() bool { return isNodeConfiguration(c.Key) }

func isNodeConfiguration(key state.Key) bool {
	switch key.Group {
	case "karpenter.sh":
		return key.Kind == "NodePool" || key.Kind == overlayKind
	case "karpenter.k8s.aws":
		return key.Kind == "EC2NodeClass"
	}
	return false
}

const overlayKind = "NodeOverlay"

// Fingerprint is a change by what is there after it. What is live now makes no difference
// to it, so that a review and the apply after its merge agree.
type Fingerprint struct {
	Kind, Name string
	// Hash is that of the desired content. Empty, the object is deleted.
	Hash string
}

// Fingerprint is the change's.
func (c Change) Fingerprint() Fingerprint { return fingerprint(c.Key, c.After) }

func fingerprint(key state.Key, after *state.Item) Fingerprint {
	out := Fingerprint{Kind: key.Kind, Name: key.Name}
	if after != nil {
		out.Hash = after.Hash()
	}
	return out
}

// mayDriftNodes reports whether the change is one that a revision makes of what nodes come
// from. Putting back what a hand changed is nobody's decision to confirm.
func (c Change) mayDriftNodes() bool { return c.IsNodeConfiguration() && !c.Drift && !c.ReadOnly() }

// Guarded lists the changes that GuardNodes would hold, in the order of work: those
// that a revision makes of pools, classes and overlays. A pool or class that comes
// replaces nothing, and a deletion that was begun goes on. What stays as it is until a time is for a person to confirm once
// that is over.
func (p Plan) Guarded() []Change {
	var out []Change
	for _, c := range p.Changes {
		switch {
		case !c.mayDriftNodes(), c.Hold.Has(hold.HoldUntil), c.Action == Delete && !isUnconfirmed(c), c.Action == Create && c.Key.Kind != overlayKind:
		default:
			out = append(out, c)
		}
	}
	return out
}

// GuardNodes holds what Guarded lists
//
//   - when it would replace or take away more nodes than limit, unless that is nil;
//   - when of the pools that reviews name it would be more nodes than they reported, by
//     more than two and more than a fifth. A pull request counts that is merged and not applied
//     yet, or of which the revision has all, so that its merge was not detected yet. The
//     nodes of a pool are the same whoever reports of them: its largest number counts.
//     Those of pools that no review names are only subject to limit;
//   - when nothing can be computed, and either might be so,
//
// until confirmation quotes their token. It stands for the
// changes, however many nodes there are of them. forecast is called at most once, with
// all that a revision changes of what nodes are made from, and not at all where its
// result would make no difference.
func (p Plan) GuardNodes(limit *int, reviewed []Review, confirmation string, forecast func([]Change) hold.Nodes) Plan {
	guarded := p.Guarded()
	reviewed = p.concerning(reviewed)
	if len(guarded) == 0 || limit == nil && len(reviewed) == 0 {
		return p
	}
	token := &hold.Token{Purpose: "nodes", Digest: confirm.Digest(subjects(guarded))}
	_, quoted := token.ConfirmedBy(confirmation, p.Binding)
	var reasons hold.Reasons
	if !quoted {
		reasons = tooMany(limit, reviewed, forecast(slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return !c.mayDriftNodes() })))
	}
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if !among(guarded, c) {
			continue
		}
		if quoted {
			p.Changes[i].Tokens = append(slices.Clip(c.Tokens), *token)
			continue
		}
		for _, r := range reasons {
			r.Token = token
			p.Changes[i].Hold = append(slices.Clip(p.Changes[i].Hold), r)
		}
	}
	return p
}

func among(changes []Change, c Change) bool {
	return slices.ContainsFunc(changes, func(o Change) bool { return o.Key == c.Key })
}

// KeepHolds holds again the changes that a revision makes of the given things, with the
// reasons from a plan of everything: the tokens of a plan of some things stand for these
// alone, and would not fit when all is planned again.
func (p Plan) KeepHolds(reasons map[state.Key]hold.Reasons) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		before := reasons[c.Key]
		if len(before) > 0 && (c.Hold.Has(hold.UpdateLosses) || c.Admitted() && c.mayDriftNodes()) {
			p.Changes[i].Hold = before
		}
	}
	return p
}

// tooMany are the reasons that the forecast nodes give; none where all is well.
func tooMany(limit *int, reviewed []Review, nodes hold.Nodes) hold.Reasons {
	nodes.Max, nodes.Reviewed = limit, grown(nodes, reviewed)
	var out hold.Reasons
	if limit != nil && (nodes.Replaced+nodes.Removed > *limit || nodes.Unknown != "" || nodes.Uncertain != "") {
		out = append(out, hold.Reason{Rule: hold.MaxNodesReplaced, Facts: hold.Facts{Nodes: &nodes}})
	}
	if nodes.Reviewed != nil {
		out = append(out, hold.Reason{Rule: hold.ReviewExceeded, Facts: hold.Facts{Nodes: &nodes}})
	}
	return out
}

// grown is of how many nodes the reviews reported, where it is many more of their pools
// by now, or cannot be computed; nil otherwise.
func grown(now hold.Nodes, reviewed []Review) *hold.Reviews {
	pools, out := map[string]int{}, hold.Reviews{}
	for _, r := range reviewed {
		out.PullRequests = append(out.PullRequests, r.PullRequest)
		for name, nodes := range r.Pools {
			pools[name] = max(pools[name], nodes)
		}
	}
	for name, nodes := range pools {
		out.Nodes, out.Now = out.Nodes+nodes, out.Now+now.Pools[name]
	}
	if len(reviewed) == 0 || now.Unknown == "" && out.Now <= out.Nodes+max(2, out.Nodes/5) {
		return nil
	}
	slices.Sort(out.PullRequests)
	return &out
}

// concerning picks the reviews by which the plan is measured: of pull requests that are
// merged and not applied yet, whatever another merge made of their content since, and
// of those that must be merged by now, for the revision has all that they change. What
// of that is made already counts: creations are not held, and must not lift a hold.
func (p Plan) concerning(all []Review) []Review {
	open, desired := map[Fingerprint]bool{}, map[Fingerprint]bool{}
	for _, c := range p.Changes {
		if c.mayDriftNodes() {
			open[c.Fingerprint()] = true
		}
	}
	kept := map[Fingerprint]bool{}
	for _, f := range p.Desired {
		desired[f], kept[Fingerprint{Kind: f.Kind, Name: f.Name}] = true, true
	}
	has := func(change Fingerprint) bool {
		return open[change] || desired[change] || change.Hash == "" && !kept[change]
	}
	var out []Review
	for _, r := range all {
		noticed := r.Merged || slices.ContainsFunc(r.Changes, func(change Fingerprint) bool { return open[change] }) &&
			!slices.ContainsFunc(r.Changes, func(change Fingerprint) bool { return !has(change) })
		if noticed && len(r.Pools) > 0 {
			out = append(out, r)
		}
	}
	return out
}
