package findings

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestAFolderWithoutFindingsIsAnEmptyList(t *testing.T) {
	got, err := json.Marshal(JSON(offline.Linted{Objects: 1}))
	if err != nil || string(got) != `{"objects":1,"mistakes":[],"warnings":[]}` {
		t.Errorf("%s, %v", got, err)
	}
	var commands strings.Builder
	if err := WriteWorkflowCommands(&commands, offline.Linted{Objects: 1}); err != nil || commands.Len() > 0 {
		t.Errorf("%q, %v", commands.String(), err)
	}
	if got := sarifOf(offline.Linted{}, "v1").Runs[0].Results; got == nil || len(got) != 0 {
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
			state.Problem{Origin: state.Origin{File: "a.yaml", Line: 3}, Message: "50% of it\n::set-output name=x::y\r\x1b[2J"},
			"::error file=a.yaml,line=3::50%25 of it%0A::set-output name=x::y%0D\uFFFD[2J\n",
		},
		{
			"a file whose name has separators",
			state.Problem{Origin: state.Origin{File: "a,line=9:b.yaml"}, Message: "m"},
			"::error file=a%2Cline=9%3Ab.yaml::m\n",
		},
		{"no file", state.Problem{Message: "m"}, "::error::m\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			if err := WriteWorkflowCommands(&out, offline.Linted{Mistakes: []state.Problem{test.problem}}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFileIsAURIInSARIF(t *testing.T) {
	found := offline.Linted{Mistakes: []state.Problem{{Origin: state.Origin{File: "a b/100%#.yaml"}, Message: "m"}}}
	place := sarifOf(found, "v1").Runs[0].Results[0].Locations[0].PhysicalLocation
	if got := place.ArtifactLocation.URI; got != "a%20b/100%25%23.yaml" || place.Region != nil {
		t.Errorf("it is %q, in %v", got, place.Region)
	}
}
