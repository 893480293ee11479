package lintoutput

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

func TestAFolderWithoutFindingsIsAnEmptyList(t *testing.T) {
	got, err := json.Marshal(JSON(offline.LintResult{Objects: 1}))
	if err != nil || string(got) != `{"objects":1,"problems":[],"warnings":[]}` {
		t.Errorf("%s, %v", got, err)
	}
	var commands strings.Builder
	if err := WriteWorkflowCommands(&commands, offline.LintResult{Objects: 1}); err != nil || commands.Len() > 0 {
		t.Errorf("%q, %v", commands.String(), err)
	}
	if got := sarifOf(offline.LintResult{}, "v1").Runs[0].Results; got == nil || len(got) != 0 {
		t.Errorf("results are %v; the specification requires a list", got)
	}
}

// What a person who opens a pull request writes into a file must not be another command of the
// workflow, nor another file's finding.
func TestAFindingIsOneWorkflowCommand(t *testing.T) {
	for _, test := range []struct {
		name    string
		problem state.Problem
		want    string
	}{
		{
			"a message of several lines",
			state.Problem{Origin: state.Origin{File: "a.yaml", Line: 3}, Code: "YAMLInvalid", Message: "50% of it\n::set-output name=x::y\r\x1b[2J"},
			"::error file=a.yaml,line=3,title=YAMLInvalid::50%25 of it%0A::set-output name=x::y%0D\uFFFD[2J\n",
		},
		{
			"a file whose name has separators",
			state.Problem{Origin: state.Origin{File: "a,line=9:b.yaml"}, Code: "a,b:c", Message: "m"},
			"::error file=a%2Cline=9%3Ab.yaml,title=a%2Cb%3Ac::m\n",
		},
		{"no file", state.Problem{Code: "C", Message: "m"}, "::error title=C::m\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			if err := WriteWorkflowCommands(&out, offline.LintResult{Problems: []state.Problem{test.problem}}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFileIsAURIInSARIF(t *testing.T) {
	found := offline.LintResult{Problems: []state.Problem{{Origin: state.Origin{File: "a b/100%#.yaml"}, Message: "m"}}}
	place := sarifOf(found, "v1").Runs[0].Results[0].Locations[0].PhysicalLocation
	if got := place.ArtifactLocation.URI; got != "a%20b/100%25%23.yaml" || place.Region != nil {
		t.Errorf("it is %q, in %v", got, place.Region)
	}
}

func TestSARIFHasARuleForEachCodeOfTheResults(t *testing.T) {
	problem := func(code finding.Code) state.Problem { return state.Problem{Code: code, Message: "m"} }
	log := sarifOf(offline.LintResult{
		Problems: []state.Problem{problem(finding.DuplicateObject), problem(finding.DuplicateKey), problem(finding.DuplicateObject)},
		Warnings: []state.Problem{problem("GPUTaintMissing")},
	}, "v1").Runs[0]
	var results, rules []finding.Code
	for _, r := range log.Results {
		results = append(results, r.RuleID)
	}
	for _, r := range log.Tool.Driver.Rules {
		rules = append(rules, r.ID)
		d, ok := finding.Describe(r.ID)
		if !ok || r.ShortDescription.Text != d.Summary || r.Help.Text != d.Remedy || r.HelpURI != d.HelpURI() || r.DefaultConfiguration.Level != d.Severity {
			t.Errorf("%s is %+v", r.ID, r)
		}
	}
	if diff := cmp.Diff([]finding.Code{"DuplicateObject", "DuplicateKey", "DuplicateObject", "GPUTaintMissing"}, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]finding.Code{"DuplicateKey", "DuplicateObject", "GPUTaintMissing"}, rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestAFindingHasItsCodeAndFactsInJSON(t *testing.T) {
	p := state.NewProblem(state.Origin{File: "a.yaml", Line: 3}, finding.New(finding.DuplicateKey, "key %q is given twice", finding.NewFact("key", "spec")))
	got, err := json.Marshal(JSON(offline.LintResult{Problems: []state.Problem{p}}).Problems)
	const want = `[{"file":"a.yaml","line":3,"code":"DuplicateKey","facts":{"key":"spec"},"message":"key \"spec\" is given twice"}]`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}
