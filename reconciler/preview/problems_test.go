package preview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestAProblemIsTheSameInAnotherLine(t *testing.T) {
	in := func(file string, line int, message string) state.Problem {
		object, _, _ := strings.Cut(message, ": ")
		return state.Problem{Origin: state.Origin{File: file, Line: line}, Message: message, Object: state.Key{Name: object}}
	}
	known := []state.Problem{in("a.yaml", 1, "A: bad"), in("b.yaml", 1, "B: bad")}
	list := []state.Problem{in("a.yaml", 7, "A: bad"), in("a.yaml", 1, "B: bad"), in("b.yaml", 2, "B: worse")}
	if d := cmp.Diff(list[1:], without(list, known)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]state.Problem{list[1], list[2], known[1]}, mergeProblems(nil, known, list)[1:]); d != "" {
		t.Error(d)
	}
	notes := []plan.Note{{Key: state.Key{Name: "a"}, Origin: list[0].Origin, Text: "x"}, {Key: state.Key{Name: "b"}, Text: "x"}}
	if d := cmp.Diff(notes[1:], newNotes(notes, []plan.Note{{Key: state.Key{Name: "a"}, Origin: known[0].Origin, Text: "x"}})); d != "" {
		t.Error(d)
	}
	found := plan.Proposal{Problems: list, ExistingProblems: list[:1]}
	refused := []state.Problem{in("a.yaml", 9, "A: refused"), in("a.yaml", 9, "C: refused"), in("b.yaml", 9, "A: elsewhere")}
	if d := cmp.Diff([]state.Problem{list[1], refused[1], list[2], refused[2]}, newProblems(found, refused)); d != "" {
		t.Error(d)
	}
}

// BenchmarkTheProblemsOfAChange takes as long for each problem, however many there are.
func BenchmarkTheProblemsOfAChange(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var mergeBase, base, head []state.Problem
			for i := range n {
				p := state.Problem{Origin: state.Origin{File: "a.yaml", Line: i}, Message: fmt.Sprint("ConfigMap/a", i, ": bad")}
				mergeBase, base = append(mergeBase, p), append(base, p)
				p.Origin.Line++
				head = append(head, p)
			}
			for b.Loop() {
				merged := mergeProblems(mergeBase, base, head)
				newProblems(plan.Proposal{Problems: merged, ExistingProblems: merged}, without(head, base))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/problem")
		})
	}
}
