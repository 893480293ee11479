package gpulint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/internal/golden"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

func types(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// check writes the findings about one file, called app/objects.yaml.
func check(t testing.TB, c *catalog.Catalog, content string) string {
	t.Helper()
	d, err := declared.Load(fstest.MapFS{"app/objects.yaml": {Data: []byte(content)}}, "app", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Problems {
		t.Errorf("the sample has a problem of its own: %s", p)
	}
	var b strings.Builder
	for _, f := range gpulint.Check(d, c) {
		kind := "PROBLEM"
		if f.Severity == finding.Warning {
			kind = "ADVICE"
		}
		if described, ok := finding.Describe(f.Code); !ok || f.Severity != described.Severity {
			t.Errorf("%s of code %q, which is %+v: %s", kind, f.Code, described, f.Text)
		}
		fmt.Fprintf(&b, "%s %s\n", kind, f.Problem())
	}
	return b.String()
}

func TestBadSamplesGiveTheFindingsOfTheirGoldens(t *testing.T) {
	samples, err := filepath.Glob("testdata/*-bad.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatal("no samples: ", err)
	}
	c := types(t)
	for _, sample := range samples {
		t.Run(strings.TrimSuffix(filepath.Base(sample), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			got := check(t, c, string(content))
			golden.Compare(t, strings.TrimSuffix(sample, ".yaml")+".txt", got)
			if got == "" {
				t.Error("nothing was found")
			}
			if again := check(t, c, string(content)); again != got {
				t.Errorf("a second look finds something else:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestGoodSamplesGiveNone(t *testing.T) {
	samples, err := filepath.Glob("testdata/*-good.yaml")
	if err != nil || len(samples) == 0 {
		t.Fatal("no samples: ", err)
	}
	c := types(t)
	for _, sample := range samples {
		t.Run(strings.TrimSuffix(filepath.Base(sample), ".yaml"), func(t *testing.T) {
			content, err := os.ReadFile(sample)
			if err != nil {
				t.Fatal(err)
			}
			if got := check(t, c, string(content)); got != "" {
				t.Error(got)
			}
		})
	}
}

func TestOfPoolsThatMayBeMissingNothingIsReported(t *testing.T) {
	const plugin = "apiVersion: poolwright.dev/v1alpha1\nkind: DevicePlugin\nmetadata: {name: nvidia}\nspec:\n  configs: [{name: sliced, nodePools: [gpu, lost], timeSlicing: {replicas: 4, renameByDefault: true}}]\n"
	const pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: gpu}\nspec:\n  disruption: {budgets: [{nodes: 100%}]}\n  template: {spec: {taints: [{key: nvidia.com/gpu, effect: NoSchedule}], requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}]}}\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ml}\nspec:\n  tolerations: [{operator: Exists}]\n  containers: [{name: a, image: a, resources: {limits: {nvidia.com/gpu: 1}}}]\n"
	for name, c := range map[string]struct {
		more string
		want int
	}{
		"all there":                   {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: ml}\n", 2},
		"a file that cannot be read":  {"broken: [\n", 0},
		"a pool that cannot be read":  {"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: lost}\nspec: {template: 7}\n", 0},
		"a budget that is not a text": {"apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: lost}\nspec: {disruption: {budgets: [{nodes: 1}]}}\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"app/a.yaml": {Data: []byte(plugin + "---\n" + pool + "---\n" + pod)}, "app/b.yaml": {Data: []byte(c.more)}}
			d, err := declared.Load(files, "app", declared.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if found := gpulint.Check(d, types(t)); len(found) != c.want {
				t.Errorf("found %v, want %d findings", found, c.want)
			}
		})
	}
}
