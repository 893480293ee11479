package child

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

const (
	// maxFindings is how many problems of each kind, or notes, a child returns: more than
	// anybody mends at once. One more stands for the rest, as [state.Problem.Omitted].
	maxFindings = 1000
	// maxFindingBytes is the length of a text of one of them, and of its file's name, in
	// bytes.
	maxFindingBytes = 4 << 10
	// maxFailureBytes is the length of the reason why there is no result, in bytes.
	maxFailureBytes = 64 << 10
)

// limited is l with no more findings than a child returns. The child does it, and the
// parent again, which does not trust the child.
func limited(l checked.Folder) checked.Folder {
	l.Problems, l.Refused, l.Notes = limitedProblems(l.Problems), limitedProblems(l.Refused), limitedNotes(l.Notes)
	l.Clusters, l.UnknownFields = limitedObjects(l.Clusters), limitedObjects(l.UnknownFields)
	return l
}

// limitedObjects keeps all objects that are refused, with fewer problems.
func limitedObjects(refused checked.ObjectProblems) checked.ObjectProblems {
	if len(refused) == 0 {
		return nil
	}
	out, left := make(checked.ObjectProblems, len(refused)), maxFindings
	for _, key := range slices.SortedFunc(maps.Keys(refused), state.Key.Compare) {
		of := limitedProblems(refused[key])
		if len(of) > max(left, 0) {
			of = []state.Problem{omitted(of)}
		}
		left -= len(of)
		out[key] = of
	}
	return out
}

func limitedProblems(list []state.Problem) []state.Problem {
	if len(list) > maxFindings {
		list = append(slices.Clone(list[:maxFindings]), omitted(list[maxFindings:]))
	}
	for i, p := range list {
		for _, text := range []*string{&p.Origin.File, &p.Message, &p.Detail, &p.Field, &p.UnknownField, &p.DuplicateKey, &p.RuleFields} {
			*text = shortened(*text, maxFindingBytes)
		}
		p.Object, p.Code, p.Facts = shortenedKey(p.Object), published(p.Code), bounded(p.Facts)
		p.Omitted = min(max(p.Omitted, 0), math.MaxInt32)
		list[i] = p
	}
	return list
}

func shortenedKey(k state.Key) state.Key {
	for _, part := range []*string{&k.Target, &k.Group, &k.Kind, &k.Namespace, &k.Name} {
		*part = shortened(*part, maxFindingBytes)
	}
	return k
}

// omitted stands for problems, at the place of the first.
func omitted(list []state.Problem) state.Problem {
	n, unknown := 0, ""
	for _, p := range list {
		n, unknown = min(n+min(max(p.Omitted, 1), math.MaxInt32), math.MaxInt32), cmp.Or(unknown, p.UnknownField)
	}
	out := state.NewProblem(list[0].Origin, finding.New(finding.FindingsOmitted, "%d more problems from here on are not listed; mend those above first", finding.NewFact("omitted", n)))
	out.Omitted, out.UnknownField = n, unknown
	return out
}

func limitedNotes(list []plan.Note) []plan.Note {
	if len(list) > maxFindings {
		more := 0
		for _, n := range list[maxFindings:] {
			more = min(more+min(max(n.Omitted, 1), math.MaxInt32), math.MaxInt32)
		}
		rest := plan.NewNote(state.Key{}, list[maxFindings].Origin, finding.New(finding.FindingsOmitted, "%d more warnings are not listed", finding.NewFact("omitted", more)))
		rest.Omitted, rest.Severity = more, finding.Warning
		list = append(slices.Clone(list[:maxFindings]), rest)
	}
	for i, n := range list {
		n.Omitted = min(max(n.Omitted, 0), math.MaxInt32)
		n.Code, n.Facts = published(n.Code), bounded(n.Facts)
		n.Origin.File, n.Text = shortened(n.Origin.File, maxFindingBytes), shortened(n.Text, maxFindingBytes)
		list[i] = n
	}
	return list
}

// published is a code of ours; the others, which only a compromised child returns, are dropped.
func published(code finding.Code) finding.Code {
	if _, ok := finding.Describe(code); !ok {
		return ""
	}
	return code
}

// bounded are the facts unless they are longer than the text that is made from them may be.
func bounded(facts finding.Facts) finding.Facts {
	if len(facts) > 2*maxFindingBytes {
		return ""
	}
	return finding.Facts(strings.Clone(string(facts)))
}

// shortened is the beginning of a text of at most so many bytes, copied: the rest is not
// kept in memory.
func shortened(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const dots = "…"
	return strings.Clone(strings.ToValidUTF8(text[:most-len(dots)], "")) + dots
}
