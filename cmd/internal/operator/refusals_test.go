package operator

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// The controller leaves pools to the API server.
func TestAClusterIsRefusedBeforeItsValuesReachAnyTarget(t *testing.T) {
	files := fstest.MapFS{
		"a.yaml": {Data: []byte(reconcilertest.ClusterFile("a", "  interruptionQueue:\n    retention: 5s\n"))},
		"b.yaml": {Data: []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: p}\nspec: {weight: 0}\n")},
	}
	refusals := &validation.Errors{}
	load := (&app{renders: &rendercache.Cache{}, children: newChildren()}).loader(newChildren().followed, ".", &variables.Current{}, refusals)
	d, err := load(t.Context(), gitsource.Snapshot{FS: files})
	if err != nil {
		t.Fatal(err)
	}
	d.BeforeDesired()
	if len(d.Problems) > 0 {
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
	if diff := cmp.Diff([]string{"NodePool.karpenter.sh/p"}, got); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
	eks, _ := d.Set.Get(state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: "a"})
	if of := refusals.Of(eks); len(of) != 1 || of[0].Origin.Line != 9 {
		t.Errorf("of the Cluster %v is refused", of)
	}
}

func TestTheControllerRefusesNothingOfWhatIsWrongAboutGPUs(t *testing.T) {
	files := fstest.MapFS{"a.yaml": {Data: []byte(reconcilertest.GPUPoolFile)}, "b.yaml": {Data: []byte(reconcilertest.DevicePluginFile("nvidia", "[{name: whole, nodePools: [gpu]}]"))}}
	d, err := (&child.Runner{}).Load(t.Context(), files, ".", substitute.Values{})
	if err != nil || len(d.Clusters) > 0 || len(d.Problems) > 0 {
		t.Errorf("refused %v, problems %v, error %v", d.Clusters, d.Problems, err)
	}
}
