package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/internal/golden"
)

// example is a copy of an example as a repository of its own.
func example(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("../../../examples", name))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCostOfTheExamplesReadsAsItsGolden(t *testing.T) {
	withoutCluster(t)
	for name, cluster := range map[string]string{"altanova": "dev", "pingvas": "studio"} {
		dir := filepath.Join(example(t, name), "clusters", cluster)
		for _, format := range []string{"text", "markdown", "json"} {
			r := execute(t, "cost", dir, "-o", format)
			if r.code != exitSame || r.err != "" {
				t.Fatalf("%s: exit %d: %s", name, r.code, r.err)
			}
			golden.Compare(t, "testdata/cost-"+name+"-"+format+".golden", r.out)
		}
	}
}

func TestEveryExampleHasItsCosts(t *testing.T) {
	withoutCluster(t)
	for name, want := range map[string]string{
		"timeslicing": "40 slices of 4 GPUs (time-slicing)", "piksel": "in ap-southeast-3", "baseten": "to g5.48xlarge",
	} {
		r := execute(t, "cost", filepath.Join(example(t, name), "clusters", "dev"))
		if r.code != exitSame || !strings.Contains(r.out, want) {
			t.Errorf("%s: exit %d: %s%s", name, r.code, r.out, r.err)
		}
	}
}

func TestCostTakesTheOnlyClusterOfARoot(t *testing.T) {
	withoutCluster(t)
	for _, name := range []string{"altanova", "timeslicing", "baseten"} {
		dir := example(t, name)
		r, want := execute(t, "cost", dir), execute(t, "cost", filepath.Join(dir, "clusters", "dev"))
		if r.code != exitSame || r.out != want.out || r.err != "" {
			t.Errorf("%s: exit %d: %s", name, r.code, r.err)
		}
		if err := os.CopyFS(filepath.Join(dir, "clusters", "live"), os.DirFS(filepath.Join(dir, "clusters", "dev"))); err != nil {
			t.Fatal(err)
		}
		if r := execute(t, "cost", dir); r.code != exitError || !strings.Contains(r.err, "choose the folder of one of clusters/dev, clusters/live") {
			t.Errorf("%s: exit %d: %s", name, r.code, r.err)
		}
	}
}

func TestCostOfNodesThatStayIsTheMonth(t *testing.T) {
	withoutCluster(t)
	r := execute(t, "cost", filepath.Join(example(t, "piksel"), "clusters", "dev"))
	if !strings.Contains(r.out, "gpu: consolidateAfter is Never") {
		t.Error(r.out)
	}
}

func TestCostFillsVariablesInOrNamesThem(t *testing.T) {
	withoutCluster(t)
	dir := t.TempDir()
	text := strings.Replace(oldPool, "[g4dn.xlarge]", `["${TYPE}"]`, 1) + "---\n" + strings.Replace(inIreland, "REGION", `"${REGION}"`, 1)
	for name, content := range map[string]string{".git": "", "a.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for args, want := range map[string]string{
		"":                   "has ${REGION} for its region, which has no value here",
		"--region eu-west-1": "${TYPE} has no value here",
		"--substitute REGION=eu-west-1 --substitute TYPE=g5.xlarge": "g5.xlarge",
	} {
		r := execute(t, append([]string{"cost", dir}, strings.Fields(args)...)...)
		if !strings.Contains(strings.Join(strings.Fields(r.out+r.err), " "), want) {
			t.Errorf("%q: exit %d: %s%s", args, r.code, r.out, r.err)
		}
	}
}

// The how-to shows what the two documents come to: nothing else.
func TestTheHowToShowsWhatCostPrints(t *testing.T) {
	page := read(t, "../../../docs/howto/cost.md")
	for _, name := range []string{"altanova", "pingvas"} {
		if !strings.Contains(page, read(t, "testdata", "cost-"+name+"-text.golden")) {
			t.Errorf("docs/howto/cost.md does not show what testdata/cost-%s-text.golden holds", name)
		}
	}
}

const oldPool = `apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: gpu}
spec:
  template:
    spec:
      nodeClassRef: {name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`

const inIreland = `apiVersion: poolwright.dev/v1alpha1
kind: Cluster
metadata: {name: cluster}
spec: {name: dev, region: REGION, account: "111122223333"}
`

const stated = "scenarios:\n- {name: always, instanceType: g4dn.xlarge, capacityType: on-demand, hoursPerDay: 24, statedUSD: 384}\n"

func TestCost(t *testing.T) {
	withoutCluster(t)
	cluster := func(region string) string { return strings.Replace(inIreland, "REGION", region, 1) }
	for name, c := range map[string]struct {
		files []string
		args  []string
		code  int
		out   string
		err   string
	}{
		"a pool of an old API costs what it means": {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1")}, out: "gpu   g4dn.xlarge    $383.98     -    $127.99    $0   $0.526"},
		"other hours": {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1")}, args: []string{"--hours-per-day", "2"}, out: "2 H A DAY"},

		"a region is required where none is declared": {files: []string{"x/p.yaml", oldPool}, code: exitError, err: "declares no Cluster with a spec.region: set the region of the prices with --region"},

		"a region by flag":                                  {files: []string{"x/p.yaml", oldPool}, args: []string{"--region", "eu-west-1"}, out: "One node of each pool in eu-west-1"},
		"a region that nobody has filled in":                {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster(`"${REGION}"`)}, args: []string{"--region", "eu-west-1"}, out: "One node of each pool in eu-west-1"},
		"a region that contradicts":                         {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1")}, args: []string{"--region", "eu-west-1"}, code: exitError, err: "--region eu-west-1 contradicts x/c.yaml:1, where the Cluster is in us-east-1: leave the flag out"},
		"a document above the folder":                       {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1"), "cost.yaml", stated}, out: "always      730    $384       -  $383.98"},
		"a document in a folder of plain manifests":         {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1"), "x/cost.yaml", stated}, out: "always      730    $384"},
		"a problem in the document has its line":            {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1"), "cost.yaml", stated + "region: [x]\n"}, code: exitError, out: "g4dn.xlarge", err: "cost.yaml:3: region must be a single value\nError: 1 problem in "},
		"a problem in the folder is reported":               {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1"), "x/d.yaml", "kind: x\n"}, code: exitError, out: "g4dn.xlarge", err: "x/d.yaml:1: x has no apiVersion"},
		"a document that is not there":                      {files: []string{"x/p.yaml", oldPool, "x/c.yaml", cluster("us-east-1")}, args: []string{"--document", "nowhere/at/all.yaml"}, code: exitError, err: "reading --document nowhere/at/all.yaml: there is no such file"},
		"more hours than a day has":                         {files: []string{"x/p.yaml", oldPool}, args: []string{"--hours-per-day", "25"}, code: exitError, err: "--hours-per-day 25 is not more than 0 and at most 24"},
		"hours that are no number":                          {files: []string{"x/p.yaml", oldPool}, args: []string{"--hours-per-day", "nan"}, code: exitError, err: "--hours-per-day NaN is not more than 0 and at most 24"},
		"an output that there is not":                       {files: []string{"x/p.yaml", oldPool}, args: []string{"-o", "xml"}, code: exitError, err: `-o "xml" is not one of text, json, yaml, markdown`},
		"a folder without pools is reported with its place": {files: []string{"x/c.yaml", cluster("us-east-1")}, out: "x declares no NodePool"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, append(c.files, ".git", "")...)
			r := execute(t, append([]string{"cost", filepath.Join(dir, "x")}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.out+r.err, c.out) || !strings.Contains(r.err, c.err) {
				t.Errorf("exit %d\n%s--- on standard error\n%s", r.code, r.out, r.err)
			}
		})
	}
}

func TestCostReadsTheDocumentThatIsNamed(t *testing.T) {
	withoutCluster(t)
	dir := folder(t, "x/p.yaml", oldPool, "x/c.yaml", strings.Replace(inIreland, "REGION", "us-east-1", 1), ".git", "", "cost.yaml", stated, "docs/table.yaml", strings.Replace(stated, "always", "named", 1), "docs/bad.yaml", "scenario: []\n")
	if r := execute(t, "cost", filepath.Join(dir, "x"), "--document", filepath.Join(dir, "docs/table.yaml")); r.code != exitSame || !strings.Contains(r.out, "named ") || strings.Contains(r.out, "always") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	bad := filepath.Join(dir, "docs/bad.yaml")
	if r := execute(t, "cost", filepath.Join(dir, "x"), "--document", bad); r.code != exitError || !strings.Contains(r.err, filepath.ToSlash(bad)+`:1: unknown field "scenario" in a cost table; did you mean "scenarios"?`) {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}
