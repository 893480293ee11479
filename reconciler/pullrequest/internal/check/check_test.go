package check_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/check"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

var pool = report.Object{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}

// change is an update with a place, and nothing that anybody would have to read.
func change() report.Change {
	return report.Change{Object: pool, Action: "update", File: "clusters/dev/pools.yaml", Line: 7}
}

func TestTheStateIsWhatAReaderHasToDo(t *testing.T) {
	guard := func(result report.GuardOutcome) []report.GuardResult {
		return []report.GuardResult{{Rule: "MaxNodesReplaced", Result: result}}
	}
	for name, tt := range map[string]struct {
		report  report.Report
		want    forge.State
		forbids bool
	}{
		"nothing differs":               {report.Report{}, forge.Success, false},
		"an update":                     {report.Report{Changes: []report.Change{change()}}, forge.Success, false},
		"a deletion":                    {report.Report{Changes: []report.Change{change()}, Summary: report.Summary{Delete: 1}}, forge.Neutral, false},
		"a warning":                     {report.Report{Changes: []report.Change{change()}, Summary: report.Summary{Warnings: 1}}, forge.Neutral, false},
		"what could not be compared":    {report.Report{Unknown: []report.Unknown{{Object: pool}}}, forge.Neutral, false},
		"what another rule holds":       {report.Report{Changes: []report.Change{change()}, Holds: []report.Hold{{}}}, forge.Neutral, false},
		"a guard that passes":           {report.Report{Changes: []report.Change{change()}, GuardResults: guard(report.GuardOK)}, forge.Success, false},
		"a guard that warns":            {report.Report{Changes: []report.Change{change()}, GuardResults: guard(report.GuardWarning)}, forge.Neutral, false},
		"a guard that holds":            {report.Report{Changes: []report.Change{change()}, GuardResults: guard(report.GuardHeld)}, forge.ActionRequired, true},
		"a problem":                     {report.Report{Problems: []report.Problem{{Message: "unknown field"}}}, forge.Failure, true},
		"a problem and a guard's holds": {report.Report{Problems: []report.Problem{{}}, GuardResults: guard(report.GuardHeld)}, forge.Failure, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := check.State(tt.report); got != tt.want || check.Forbids(tt.report) != tt.forbids {
				t.Errorf("got %s, forbids %v", got, check.Forbids(tt.report))
			}
		})
	}
}

func TestAnnotationsStandWhereTheFileDeclaresIt(t *testing.T) {
	held, readOnly, deleted := change(), change(), report.Change{Object: pool, Action: "delete", Reason: "3 nodes"}
	held.Reason = "3 nodes would be replaced,\x1b[31m\nat most 2 may be"
	readOnly.Reason, readOnly.ReadOnly = "eksctl changes it", true
	r := report.Report{
		Changes:  []report.Change{change(), held, readOnly, deleted},
		Notes:    []report.Note{{Object: pool, File: "a.yaml", Line: 3, Severity: finding.Warning, Text: "no type has it"}, {Object: pool, File: "a.yaml", Line: 4, Text: "is new"}, {Object: pool, Severity: finding.Warning, Text: "without a file"}},
		Unknown:  []report.Unknown{{Object: pool, File: "b.yaml", Line: 1, Reason: "AWS does not respond"}},
		Problems: []report.Problem{{File: "c.yaml", Line: 9, Code: "UnknownField", Message: "unknown field"}, {File: "c.yaml", Message: "without a line"}},
	}
	want := []forge.LineAnnotation{
		{Path: "c.yaml", Line: 9, Level: forge.LevelFailure, Title: "UnknownField", Message: "unknown field"},
		{Path: "clusters/dev/pools.yaml", Line: 7, Level: forge.LevelWarning, Title: pool.String(), Message: "3 nodes would be replaced," + `\x1b[31m\n` + "at most 2 may be"},
		{Path: "a.yaml", Line: 3, Level: forge.LevelWarning, Title: pool.String(), Message: "no type has it"},
		{Path: "b.yaml", Line: 1, Level: forge.LevelNotice, Title: pool.String(), Message: "AWS does not respond"},
	}
	if diff := cmp.Diff(want, check.Annotations(r)); diff != "" {
		t.Error(diff)
	}
}

// A report has any number of them, with texts of any length.
func TestAnnotationsAreBounded(t *testing.T) {
	long := strings.Repeat("ü", 3_000)
	var r report.Report
	for i := range forge.MaxAnnotations + 20 {
		for range 2 {
			r.Problems = append(r.Problems, report.Problem{File: "a.yaml", Line: i + 1, Code: finding.Code(long), Message: long})
		}
	}
	got := check.Annotations(r)
	if len(got) != forge.MaxAnnotations || got[len(got)-1].Line != forge.MaxAnnotations {
		t.Fatalf("%d annotations", len(got))
	}
	for _, a := range got {
		if utf8.RuneCountInString(a.Title) != forge.MaxAnnotationTitle || utf8.RuneCountInString(a.Message) != forge.MaxAnnotationMessage || !strings.HasSuffix(a.Message, "ü…") {
			t.Fatalf("a title of %d and a message of %d characters", utf8.RuneCountInString(a.Title), utf8.RuneCountInString(a.Message))
		}
	}
	// What fits is not cut.
	fits := strings.Repeat("ü", forge.MaxAnnotationMessage)
	r.Problems = []report.Problem{{File: "a.yaml", Line: 1, Message: fits}, {File: "a.yaml", Line: 2, Message: fits + "ü"}}
	if got := check.Annotations(r); got[0].Message != fits || got[1].Message != fits[:len(fits)-len("ü")]+"…" {
		t.Errorf("%d and %d bytes", len(got[0].Message), len(got[1].Message))
	}
}
