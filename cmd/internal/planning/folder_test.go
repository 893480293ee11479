package planning

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// A plan checks pools as well.
func TestAClusterIsRefusedBeforeItsValuesReachAnyTarget(t *testing.T) {
	files := fstest.MapFS{
		"a.yaml": {Data: []byte(reconcilertest.ClusterFile("a", "  interruptionQueue:\n    retention: 5s\n"))},
		"b.yaml": {Data: []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 0}\n")},
	}
	refusals := &validation.Errors{}
	load := (&planFolder{path: ".", vars: &variables.Current{}, schemaErrors: refusals}).load
	d, err := load(t.Context(), gitsource.Snapshot{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Problems) < 2 {
		t.Errorf("problems of others than the Cluster: %v", d.Problems)
	}
	var got []string
	set, err := refusals.Desired(t.Context(), kubernetes.Offline("dev", nil), crds.Live(t.Context(), nil), d.Set)
	if _, refused := errors.AsType[*targets.ProblemsError](err); err != nil && !refused {
		t.Fatal(err)
	}
	for _, item := range set.Items() {
		got = append(got, item.Key.String())
	}
	if diff := cmp.Diff([]string(nil), got); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	eks, _ := d.Set.Get(state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "a"})
	if of := refusals.Of(eks); len(of) != 1 || of[0].Origin.Line != 9 {
		t.Errorf("of the Cluster %v is refused", of)
	}
}

func TestAPlanWarnsOfWhatWorksOtherwiseAndCallsTheRestAProblem(t *testing.T) {
	files := fstest.MapFS{"a.yaml": {Data: []byte(reconcilertest.GPUPoolFile)}, "b.yaml": {Data: []byte(reconcilertest.DevicePluginFile("nvidia", "[{name: whole, nodePools: [gpu]}]"))}}
	d, err := declared.Load(files, ".", declared.Options{})
	if err != nil {
		t.Fatal(err)
	}
	problems, notes, err := gpuProblems(d)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, strings.SplitAfterN(p.String(), ": ", 4)[2])
	}
	for _, n := range notes {
		if n.Severity != finding.Warning {
			t.Errorf("%s is no warning", n.Text)
		}
		got = append(got, n.Key.String(), n.Origin.String(), strings.SplitAfterN(n.Text, ": ", 2)[0])
	}
	if diff := cmp.Diff([]string{"spec.template.spec.taints[1]: ", "NodePool.karpenter.sh/gpu", "a.yaml:7", "spec.limits[gpu]: "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStepIsPlannedWithoutTheValuesOfSecrets(t *testing.T) {
	sync := &v1alpha1.Sync{}
	sync.Name, sync.Namespace = "dev", "ns"
	for name, tt := range map[string]struct {
		base string
		want bool
	}{
		"the operator's own folder":      {"", false},
		"a change between two revisions": {"origin/main", true},
	} {
		req := Request{REST: &rest.Config{Host: "https://127.0.0.1:1"}, Sync: sync, Namespace: "ns", Base: tt.base}
		_, _, vars, err := req.targets(&validation.Errors{})
		if err != nil || (vars.Loaded != nil) != tt.want {
			t.Errorf("%s: review %v, %v", name, vars.Loaded != nil, err)
		}
	}
}
