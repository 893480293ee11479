package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state"
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
	// Replaced is how many nodes are replaced, Removed how many go with their pools.
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
func (c Change) Provisions() bool {
	switch c.Key.Group {
	case "karpenter.sh":
		return c.Key.Kind == "NodePool" || c.Key.Kind == overlayKind
	case "karpenter.k8s.aws":
		return c.Key.Kind == "EC2NodeClass"
	}
	return false
}

const overlayKind = "NodeOverlay"

// Fingerprint names the change by what is there after it: "NodePool/gpu@" and twelve
// digits of the wanted content's hash, or "NodePool/gpu@deleted". What is live now
// makes no difference to it, so that a review and the apply after its merge agree.
func (c Change) Fingerprint() string {
	after := "deleted"
	if c.After != nil {
		after = state.Hash(c.After.Object)[:12]
	}
	return c.Key.Kind + "/" + c.Key.Name + "@" + after
}

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
//   - when that is more than the reviewed pull requests told of, by more than two and
//     a fifth, where the plan is all theirs: what was pushed past the reviews is only
//     subject to limit;
//   - when nothing can be told, and either might be so,
//
// until confirmation quotes the word that the reason gives. The word stands for the
// changes, however many nodes there are of them. foretell is asked at most once, with
// all that a revision changes of what nodes are made from, and not at all where its
// answer would make no difference.
func (p Plan) GuardNodes(limit *int, reviewed []Consequences, confirmation string, foretell func([]Change) Consequences) Plan {
	guarded := p.Guarded()
	reviewed = p.reviewed(reviewed)
	if len(guarded) == 0 || limit == nil && len(reviewed) == 0 {
		return p
	}
	word := wordFor(guarded)
	if confirmed(confirmation, word) {
		return p.requote(word)
	}
	reason := tooMany(limit, reviewed, foretell(slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return !c.rolls() })))
	if reason == "" {
		return p
	}
	if p.allowed(confirmation) {
		word = ConfirmHash(p) + "," + word
	}
	p.Changes = slices.Clone(p.Changes)
	for i, c := range p.Changes {
		if !slices.ContainsFunc(guarded, func(g Change) bool { return g.Key == c.Key }) {
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
		p.Changes[i].Hold = before + reason + confirmWith + words
	}
	return p.retold()
}

// confirmWith stands before the words of a reason that a confirmation must quote.
const confirmWith = "; confirm with poolwright.dev/confirm: "

// wordFor is what a confirmation of the changes quotes.
func wordFor(changes []Change) string {
	var names []string
	for _, c := range changes {
		names = append(names, c.Fingerprint())
	}
	slices.Sort(names)
	return state.Hash(names)[:12]
}

// confirmed tells whether the confirmation, words separated by commas, has the word.
func confirmed(confirmation, word string) bool {
	return slices.ContainsFunc(strings.Split(confirmation, ","), func(w string) bool { return strings.TrimSpace(w) == word })
}

// allowed tells whether the confirmation is needed for deletions that it allows.
func (p Plan) allowed(confirmation string) bool {
	return confirmed(confirmation, ConfirmHash(p)) && slices.ContainsFunc(p.Changes, fresh)
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
	return hold(p, func(c Change) string {
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

// tooMany says what is wrong with the consequences, or nothing.
func tooMany(limit *int, reviewed []Consequences, now Consequences) string {
	told, numbers := 0, []string{}
	for _, r := range reviewed {
		told += r.nodes()
		numbers = append(numbers, fmt.Sprintf("#%d", r.PullRequest))
	}
	var rules []string
	if limit != nil && (now.nodes() > *limit || now.Unknown != "" || now.Doubt != "") {
		rules = append(rules, fmt.Sprintf("guard.maxNodesReplaced is %d", *limit))
	}
	if len(reviewed) > 0 && (now.nodes() > told+max(2, told/5) || now.Unknown != "") {
		were := "were"
		if told == 1 {
			were = "was"
		}
		rules = append(rules, fmt.Sprintf("%d %s told in the review of %s", told, were, strings.Join(numbers, ", ")))
	}
	if len(rules) == 0 {
		return ""
	}
	return now.sentence() + "; " + strings.Join(rules, "; ")
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

// reviewed picks the pull requests from which the plan comes; none where something
// in it is not from any. Those of which everything is still to be made go first.
// Others may be made in part already, or not be merged and only share a change.
func (p Plan) reviewed(all []Consequences) []Consequences {
	open := map[string]bool{} // whether it is still to be found in a review
	for _, c := range p.Changes {
		if c.rolls() {
			open[c.Fingerprint()] = true
		}
	}
	missing := len(open)
	var out []Consequences
	for _, fits := range []func(r Consequences, left int) bool{
		func(r Consequences, left int) bool { return left == len(r.Changes) },
		func(r Consequences, _ int) bool { return r.Merged },
		func(Consequences, int) bool { return true },
	} {
		for _, r := range all {
			left, news := 0, 0
			for _, name := range r.Changes {
				first, here := open[name]
				if here {
					left++
				}
				if first {
					news++
				}
			}
			if news == 0 || !fits(r, left) {
				continue
			}
			out, missing = append(out, r), missing-news
			for _, name := range r.Changes {
				if open[name] {
					open[name] = false
				}
			}
		}
		if missing == 0 {
			return out
		}
	}
	return nil
}
