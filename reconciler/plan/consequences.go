package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
)

// Consequences are what changes of pools, classes and overlays do to nodes: what a
// reviewer was told of a pull request, or what is foretold of a Plan now.
type Consequences struct {
	// PullRequest is the number of the one that was reviewed; zero for a Plan.
	PullRequest int64
	// Merged is true for a pull request that is known to be merged.
	Merged bool
	// Changes are the Change.Fingerprints of what the reviewed pull request changes.
	Changes []string
	// Pools is how many nodes are replaced, or go, of each pool. A review names every
	// pool that it told of, with 0 where none is lost; of others it says nothing.
	Pools map[string]int
	// Replaced is how many nodes a Plan replaces, Removed how many go with their pools.
	Replaced, Removed int
	// Unknown says why nothing could be told; empty where the numbers hold.
	Unknown string
	// Doubt says why it may be more nodes than that, as where AWS alone can tell which
	// images a class finds. Who reviews is told the same.
	Doubt string
}

// nodes is how many are lost, in either way.
func (c Consequences) nodes() int { return c.Replaced + c.Removed }

// Provisions tells whether the change is one of what nodes are made from: a NodePool,
// an EC2NodeClass or a NodeOverlay.
func (c Change) Provisions() bool { return provisions(c.Key) }

func provisions(key state.Key) bool {
	switch key.Group {
	case "karpenter.sh":
		return key.Kind == "NodePool" || key.Kind == overlayKind
	case "karpenter.k8s.aws":
		return key.Kind == "EC2NodeClass"
	}
	return false
}

const overlayKind = "NodeOverlay"

// Fingerprint names the change by what is there after it: "NodePool/gpu@" and the
// wanted content's hash, or "NodePool/gpu@deleted". What is live now makes no difference
// to it, so that a review and the apply after its merge agree.
func (c Change) Fingerprint() string { return fingerprint(c.Key, c.After) }

func fingerprint(key state.Key, after *state.Item) string {
	if after == nil {
		return key.Kind + "/" + key.Name + deleted
	}
	return key.Kind + "/" + key.Name + "@" + state.Hash(after.Object)
}

// deleted stands in a fingerprint for the hash of what is there afterwards.
const deleted = "@deleted"

// rolls tells whether the change is one that a revision makes of what nodes come
// from. Putting back what a hand changed is nobody's decision to ask for.
func (c Change) rolls() bool { return c.Provisions() && !c.Drift && !c.Standing() }

// Guarded lists the changes that GuardNodes would hold, in the order of work: those
// that a revision makes of pools, classes and overlays. A pool or class that comes
// replaces nothing, and a deletion that was begun goes on.
func (p Plan) Guarded() []Change {
	var out []Change
	for _, c := range p.Changes {
		switch {
		case !c.rolls(), c.Action == Delete && !fresh(c), c.Action == Create && c.Key.Kind != overlayKind:
		default:
			out = append(out, c)
		}
	}
	return out
}

// GuardNodes holds what Guarded lists
//
//   - when it would replace or take away more nodes than limit, unless that is nil;
//   - when of the pools that reviews name it would be more nodes than they told of, by
//     more than two and a fifth. A pull request counts that is merged and not applied
//     yet, or of which the revision has all, so that its merge was not noticed yet. The
//     nodes of a pool are the same whoever tells of them: its largest number counts.
//     Those of pools that no review names are only subject to limit;
//   - when nothing can be told, and either might be so,
//
// until confirmation quotes the word that the reason gives. The word stands for the
// changes, however many nodes there are of them. foretell is asked at most once, with
// all that a revision changes of what nodes are made from, and not at all where its
// answer would make no difference.
func (p Plan) GuardNodes(limit *int, reviewed []Consequences, confirmation string, foretell func([]Change) Consequences) Plan {
	guarded := p.Guarded()
	reviewed = p.concerning(reviewed)
	if len(guarded) == 0 || limit == nil && len(reviewed) == 0 {
		return p
	}
	word := p.Scope.Token("nodes", subjects(guarded))
	if confirm.Quotes(confirmation, word) {
		return p.requote(word).pass(guarded)
	}
	reason, rules := tooMany(limit, reviewed, foretell(slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return !c.rolls() })))
	if reason == "" {
		return p
	}
	if slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Confirmed != nil }) {
		// Who quotes the other must not take back this one.
		word = ConfirmHash(p) + "," + word
	}
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if !among(guarded, c) {
			continue
		}
		before, prune, asks := strings.Cut(c.Hold, confirmWith)
		words := word
		if asks {
			words = prune + "," + word
		}
		if before != "" {
			before += "; "
		}
		p.Changes[i].Hold, p.Changes[i].Rules = before+reason+confirmWith+words, append(slices.Clip(c.Rules), rules...)
	}
	return p.retold()
}

// confirmWith stands before the words of a reason that a confirmation must quote.
const confirmWith = "; confirm with poolwright.dev/confirm: "

func among(changes []Change, c Change) bool {
	return slices.ContainsFunc(changes, func(o Change) bool { return o.Key == c.Key })
}

// pass marks the changes as those that a confirmation token lets pass.
func (p Plan) pass(changes []Change) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		p.Changes[i].ByToken = c.ByToken || among(changes, c)
	}
	return p
}

// requote adds a word that was quoted to what held deletions ask for: who quotes
// theirs must not take back the other.
func (p Plan) requote(word string) Plan {
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if strings.Contains(c.Hold, confirmWith) {
			p.Changes[i].Hold = c.Hold + "," + word
		}
	}
	return p.retold()
}

// Withhold holds the changes that a revision makes of the given things, with the
// reasons from before.
func (p Plan) Withhold(reasons map[state.Key]string) Plan {
	return hold(p, "", func(c Change) string {
		if !c.rolls() {
			return ""
		}
		return reasons[c.Key]
	})
}

// retold makes Holds anew from what the changes say.
func (p Plan) retold() Plan {
	p.Holds = nil
	for _, c := range p.Changes {
		if c.Hold != "" {
			p.Holds = append(p.Holds, c.Hold)
		}
	}
	slices.Sort(p.Holds)
	p.Holds = slices.Compact(p.Holds)
	return p
}

// tooMany says what is wrong with the consequences, and which rules say so; nothing
// where all is well.
func tooMany(limit *int, reviewed []Consequences, now Consequences) (reason string, rules []string) {
	out := []string{now.sentence()}
	if limit != nil && (now.nodes() > *limit || now.Unknown != "" || now.Doubt != "") {
		out, rules = append(out, fmt.Sprintf("%s is %d", ruleNodes, *limit)), append(rules, ruleNodes)
	}
	if grown := now.grown(reviewed); grown != "" {
		out, rules = append(out, grown), append(rules, ruleReviewed)
	}
	if len(rules) == 0 {
		return "", nil
	}
	return strings.Join(out, "; "), rules
}

// grown says of how many nodes the reviews told where it is many more of their pools by
// now, or nobody can tell.
func (c Consequences) grown(reviewed []Consequences) string {
	pools, numbers := map[string]int{}, []int64{}
	for _, r := range reviewed {
		numbers = append(numbers, r.PullRequest)
		for name, nodes := range r.Pools {
			pools[name] = max(pools[name], nodes)
		}
	}
	told, now := 0, 0
	for name, nodes := range pools {
		told, now = told+nodes, now+c.Pools[name]
	}
	if len(reviewed) == 0 || c.Unknown == "" && now <= told+max(2, told/5) {
		return ""
	}
	slices.Sort(numbers)
	var names []string
	for _, number := range numbers {
		names = append(names, fmt.Sprintf("#%d", number))
	}
	were := "were"
	if told == 1 {
		were = "was"
	}
	out := fmt.Sprintf("%d %s told in the review of %s", told, were, strings.Join(names, ", "))
	if c.Unknown == "" && now != c.nodes() {
		return fmt.Sprintf("%d of them where %s", now, out)
	}
	return out
}

func (c Consequences) sentence() string {
	if c.Unknown != "" {
		return "may replace any number of nodes, for it cannot be foretold: " + c.Unknown
	}
	noun := func(n int) string {
		if n == 1 {
			return "1 node"
		}
		return fmt.Sprintf("%d nodes", n)
	}
	out := "would replace " + noun(c.Replaced)
	switch {
	case c.Replaced == 0 && c.Removed > 0:
		out = "would take away " + noun(c.Removed) + " with their pool"
	case c.Removed > 0:
		out += fmt.Sprintf(" and take away %d with their pool", c.Removed)
	}
	if c.Doubt != "" {
		out += ", and maybe more: " + c.Doubt
	}
	return out
}

// concerning picks the reviews by which the plan is measured: of pull requests that are
// merged and not applied yet, whatever another merge made of their content since, and
// of those that must be merged by now, for the revision has all that they change. What
// of that is made already counts: creations are not held, and must not lift a hold.
func (p Plan) concerning(all []Consequences) []Consequences {
	open, wanted := map[string]bool{}, map[string]bool{}
	for _, c := range p.Changes {
		if c.rolls() {
			open[c.Fingerprint()] = true
		}
	}
	for _, name := range p.Wanted {
		thing, _, _ := strings.Cut(name, "@")
		wanted[name], wanted[thing] = true, true
	}
	has := func(change string) bool {
		thing, gone := strings.CutSuffix(change, deleted)
		return open[change] || wanted[change] || gone && !wanted[thing]
	}
	var out []Consequences
	for _, r := range all {
		noticed := r.Merged || slices.ContainsFunc(r.Changes, func(change string) bool { return open[change] }) &&
			!slices.ContainsFunc(r.Changes, func(change string) bool { return !has(change) })
		if noticed && len(r.Pools) > 0 {
			out = append(out, r)
		}
	}
	return out
}
