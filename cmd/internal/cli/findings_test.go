package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/offline"
	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/reconciler/state"
)

// folderWithFindings has a mistake, and a warning, in a folder that is the current one.
func folderWithFindings(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 1}\n",
		"b.yaml": "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  limits:\n    gpu: 30\n  disruption: {consolidateAfter: 5m, budgets: [{nodes: 100%}]}\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements:\n        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestFindingsInEachFormat(t *testing.T) {
	for _, format := range lintFormats {
		t.Run(format, func(t *testing.T) {
			file, err := filepath.Abs("testdata/lint-" + format + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			folderWithFindings(t)
			r := execute(t, "lint", "-o", format)
			if r.code != exitDifferent || !strings.Contains(r.err, "1 mistake, 1 warning in .") {
				t.Errorf("exit %d, stderr %q", r.code, r.err)
			}
			golden.Compare(t, file, strings.ReplaceAll(r.out, `"`+readVersion().Version+`"`, `"VERSION"`))
		})
	}
}

func TestAFolderWithoutFindingsIsAnEmptyList(t *testing.T) {
	for format, want := range map[string]string{
		"json":   `{"objects":1,"mistakes":[],"warnings":[]}`,
		"github": "",
	} {
		var out strings.Builder
		if err := writeFindings(&out, format, offline.Linted{Objects: 1}); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if format == "json" {
			var value findings
			if err := json.Unmarshal([]byte(got), &value); err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			got = string(text)
		}
		if got != want {
			t.Errorf("%s: %q", format, got)
		}
	}
	if got := sarifOf(offline.Linted{}).Runs[0].Results; got == nil || len(got) != 0 {
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
			if err := writeFindings(&out, "github", offline.Linted{Mistakes: []state.Problem{test.problem}}); err != nil {
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
	place := sarifOf(found).Runs[0].Results[0].Locations[0].PhysicalLocation
	if got := place.ArtifactLocation.URI; got != "a%20b/100%25%23.yaml" || place.Region != nil {
		t.Errorf("it is %q, in %v", got, place.Region)
	}
}
