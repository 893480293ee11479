// Package loss is what goes with the deletion of a thing, in numbers, so that who
// allowed a deletion and who sends it can compare without reading a sentence.
//
// It is pure and does not depend on what the kinds mean. Start reading at DeletionImpact.
package loss

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DeletionImpact is what the deletion of an observed thing costs, and what of that is
// allowed; of one that is desired and differs, what its update costs. It is zero for
// ordinary things.
type DeletionImpact struct {
	// Impact describes to a person, for things whose removal costs more than themselves,
	// what goes with them ("3 nodes, 7 pods go with it"), or why their removal always
	// waits for confirmation. Empty for ordinary things.
	Impact string
	// Losses counts what Impact names. Empty where Impact names nothing that can
	// be counted: see Cost.
	Losses Counts
	// Names are those of what Losses counts, as far as they are known. See Union.
	Names Names
	// Marked are the things that would be deleted with this one and that a person marked to stay as they are, by state.Key as text,
	// whether or not they are deleted by themselves as well; none for most.
	Marked map[string]Mark
	// Allowed is what was allowed when the deletion of this very incarnation was
	// about to be sent, and did not come to its end: the process died, or the
	// target refused. Nil where it never was. Only on observed things.
	Allowed *Approval
	// UsedBy is the part of another thing through which this one is used; zero
	// where none is. As long as the deletion is held until a confirmation, or while it is unknown
	// whether there is anything to delete, that part is not taken away.
	UsedBy FieldRef
	// AfterNodes is true where the change comes after the nodes that go with others: it ends
	// the engine, which drains and terminates them, or deletes what they use, in AWS or of the DRA driver.
	AfterNodes bool
	// EndsEngine is true where the engine may stop with the change, also where nothing would run
	// on without it.
	EndsEngine bool
}

// Mark is what a person wrote on a thing for it to stay as it is, as it was written: until when, which may be no time, and why.
type Mark struct{ Until, Reason string }

// EffectiveLosses is what goes with the deletion. An Impact that counts nothing stands for the
// thing itself.
func (r DeletionImpact) EffectiveLosses() Counts {
	if r.Impact != "" && len(r.Losses) == 0 {
		return Counts{itself: 1}
	}
	return r.Losses
}

// itself is the kind under which a thing counts whose own removal is the loss.
const itself = "Object"

// Uncounted is the kind of what could not be counted.
const Uncounted = "Uncounted"

// Approval is how far the deletion of one incarnation was allowed.
type Approval struct {
	// Losses are how many may go with it.
	Losses Counts `json:"losses,omitempty"`
	// Digest and Number are those of the confirmation token which a person quoted for it, and
	// Quoted are the token's losses; all are empty where no guard required one. The approval is
	// worth no more than the token, as plan.Guard documents.
	Digest string `json:"digest,omitempty"`
	Number int    `json:"number,omitempty"`
	Quoted Counts `json:"quoted,omitempty"`
}

// Confirmed reports whether a person quoted a confirmation token for it.
func (a *Approval) Confirmed() bool { return a != nil && a.Digest != "" }

// Covers reports whether a deletion that costs now so much was allowed. A nil
// Approval covers nothing.
func (a *Approval) Covers(now Counts) bool { return a != nil && a.Losses.Covers(now) }

// Equal reports whether both allow the same.
func (a *Approval) Equal(other *Approval) bool {
	if a == nil || other == nil {
		return a == other
	}
	return a.Digest == other.Digest && a.Number == other.Number && maps.Equal(a.Losses, other.Losses) && maps.Equal(a.Quoted, other.Quoted)
}

// FieldRef is a field of the objects of one kind, such as spec.interruptionQueue of the Cluster.
type FieldRef struct {
	// Group and Kind are those of the Kubernetes API.
	Group, Kind string
	// Field is the path of the field, its steps separated by dots:
	// "spec.interruptionQueue".
	Field string
}

// Names are things that are lost, by kind: of one kind no two things have the same name,
// and one thing has the same with whatever deletion it is lost.
type Names map[string]map[string]bool

// Add names a thing, which counts once however often it is named: a list whose page token
// expires begins again.
func (n Names) Add(kind, name string) {
	if n[kind] == nil {
		n[kind] = map[string]bool{}
	}
	n[kind][name] = true
}

// Counts is how many things there are of each kind.
func (n Names) Counts() Counts {
	out := Counts{}
	for kind, names := range n {
		out[kind] = len(names)
	}
	return out
}

// DeletionImpact is the deletion with which these things go, and which states that.
func (n Names) DeletionImpact(impact string) DeletionImpact {
	return DeletionImpact{Impact: impact, Losses: n.Counts(), Names: n}
}

// Counts is how many things of each kind are lost. Kinds are those of
// Kubernetes: letters and digits.
type Counts map[string]int

// Covers reports whether a loss that was allowed to be c may be now: no more of any kind.
func (c Counts) Covers(now Counts) bool {
	for kind, n := range now {
		if n > c[kind] {
			return false
		}
	}
	return true
}

// WithTolerance is what a confirmation of these counts allows. Of what controllers make and
// remove all the time (nodes and what runs on them) it is a fifth more, rounded down: up
// to four, it is the number. It is added once, to the sum that a person confirmed, and
// never to a part of it.
func (c Counts) WithTolerance() Counts {
	out := maps.Clone(c)
	for _, kind := range []string{"Node", "NodeClaim", "Pod"} {
		if n := out[kind]; n > 0 {
			out[kind] += n / 5
		}
	}
	return out
}

// Nodes reports whether nodes may be among the losses: what could not be counted may be some.
func (c Counts) Nodes() bool {
	return c["Node"] > 0 || c["NodeClaim"] > 0 || c["NodePool"] > 0 || c[Uncounted] > 0
}

// Add is the sum of both.
func (c Counts) Add(other Counts) Counts {
	out := Counts{}
	for _, counts := range []Counts{c, other} {
		for kind, n := range counts {
			out[kind] += n
		}
	}
	return out
}

// Union counts what goes with all of the removals together: a thing that several of them
// name, such as the node of a pool and of its class, counts once. What has no name counts
// for each.
func Union(all []DeletionImpact) Counts {
	out, named := Counts{}, Names{}
	for _, r := range all {
		for kind, n := range r.EffectiveLosses() {
			if unnamed := n - len(r.Names[kind]); unnamed > 0 {
				out[kind] += unnamed
			}
		}
		for kind, names := range r.Names {
			for name := range names {
				named.Add(kind, name)
			}
		}
	}
	return out.Add(named.Counts())
}

// Combine is one removal for all that one change of a thing loses in several ways: it has
// every reason, and counts as Union does. Of none it is zero, and what has no
// Impact counts for nothing. Allowed and UsedBy, which are of the thing and not of a way, stay
// empty.
func Combine(all []DeletionImpact) DeletionImpact {
	after := slices.ContainsFunc(all, func(r DeletionImpact) bool { return r.AfterNodes })
	ends := slices.ContainsFunc(all, func(r DeletionImpact) bool { return r.EndsEngine })
	var marked map[string]Mark
	for _, r := range all {
		for object, m := range r.Marked {
			if marked == nil {
				marked = map[string]Mark{}
			}
			marked[object] = m
		}
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r DeletionImpact) bool { return r.Impact == "" })
	if len(all) == 0 {
		return DeletionImpact{Marked: marked, AfterNodes: after, EndsEngine: ends}
	}
	var impacts []string
	names := Names{}
	for _, r := range all {
		impacts = append(impacts, r.Impact)
		for kind, of := range r.Names {
			for name := range of {
				names.Add(kind, name)
			}
		}
	}
	return DeletionImpact{Impact: strings.Join(impacts, "; "), Losses: Union(all), Names: names, Marked: marked, AfterNodes: after, EndsEngine: ends}
}

// Divide gives each of the parts what it counts now, and of what is allowed beyond their
// union its share: in proportion to what the part counts and by largest remainder, so that
// the shares are exactly what is allowed: rounding up each of them would allow more. Of a
// kind that no part counts, nobody gets any.
func Divide(parts []Counts, union, allowed Counts) []Counts {
	out := make([]Counts, len(parts))
	sum := Counts{}
	for i, part := range parts {
		out[i], sum = Counts{}, sum.Add(part)
	}
	for kind, total := range sum {
		if total == 0 {
			continue
		}
		more := max(0, allowed[kind]-union[kind])
		left, order := more, make([]int, len(parts))
		for i, part := range parts {
			order[i], out[i][kind] = i, part[kind]+more*part[kind]/total
			left -= more * part[kind] / total
		}
		rest := func(i int) int { return more * parts[i][kind] % total }
		slices.SortStableFunc(order, func(a, b int) int { return rest(b) - rest(a) })
		for _, i := range order[:left] {
			out[i][kind]++
		}
	}
	return out
}

// String writes the counts as Parse reads them: "+3Node+7Pod", sorted by kind.
func (c Counts) String() string {
	var text strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(c)) {
		if c[kind] > 0 {
			text.WriteString("+" + strconv.Itoa(c[kind]) + kind)
		}
	}
	return text.String()
}

// kindPattern is the form of a kind of Kubernetes: a name in CamelCase whose lower case is
// a DNS label.
var kindPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{0,62}$`)

// Parse reads what String wrote. Of anything else it returns false.
func Parse(text string) (Counts, bool) {
	out := Counts{}
	if text == "" {
		return out, true
	}
	rest, ok := strings.CutPrefix(text, "+")
	if !ok {
		return nil, false
	}
	for part := range strings.SplitSeq(rest, "+") {
		kind := strings.TrimLeft(part, "0123456789")
		n, err := strconv.Atoi(strings.TrimSuffix(part, kind))
		if _, twice := out[kind]; err != nil || twice || !kindPattern.MatchString(kind) {
			return nil, false
		}
		out[kind] = n
	}
	return out, true
}
