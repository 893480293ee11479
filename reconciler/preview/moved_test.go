package preview

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// clusterItem is a Cluster as a revision declares it.
func clusterItem(object, name, region, version string) state.Item {
	return state.Item{
		Key: state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Cluster", Name: object}, Version: "v1alpha1", Origin: state.Origin{File: "cluster.yaml", Line: 2},
		Object: map[string]any{"apiVersion": "poolwright.dev/v1alpha1", "kind": "Cluster", "metadata": map[string]any{"name": object},
			"spec": map[string]any{"name": name, "region": region, "account": "123456789012", "version": version}},
	}
}

func TestAClusterThatIsPutBackIsNoProblem(t *testing.T) {
	was, is := clusterItem("dev", "dev", "us-east-1", "1.33"), clusterItem("dev", "dev", "eu-west-1", "1.33")
	change := plan.Change{Key: is.Key, Action: plan.Update, Before: &was, After: &is}
	if got := ClusterIdentityProblems([]plan.Change{change}); len(got) != 1 {
		t.Errorf("a change of the repository: %v", got)
	}
	change.Drift = true
	if got := ClusterIdentityProblems([]plan.Change{change}); len(got) != 0 {
		t.Errorf("drift: %v", got)
	}
}

func TestAClusterThatBecomesAnotherIsAProblem(t *testing.T) {
	was := clusterItem("dev", "dev", "eu-west-1", "1.33")
	for name, tt := range map[string]struct {
		head []state.Item
		want []string
	}{
		"its region":           {[]state.Item{clusterItem("dev", "dev", "us-east-1", "1.33")}, []string{`cluster.yaml:2: Cluster.poolwright.dev/dev: spec.region: "eu-west-1" becomes "us-east-1": a Cluster stays`}},
		"its name and region":  {[]state.Item{clusterItem("dev", "prod", "us-east-1", "1.33")}, []string{`cluster.yaml:2: Cluster.poolwright.dev/dev: spec.name: "dev" becomes "prod", spec.region: "eu-west-1" becomes "us-east-1": a Cluster stays`}},
		"by another object":    {[]state.Item{clusterItem("prod", "prod", "eu-west-1", "1.33")}, []string{`cluster.yaml:2: Cluster.poolwright.dev/prod: spec.name: "dev" becomes "prod": a Cluster stays`}},
		"not its version":      {[]state.Item{clusterItem("dev", "dev", "eu-west-1", "1.34")}, nil},
		"not the object alone": {[]state.Item{clusterItem("other", "dev", "eu-west-1", "1.33")}, nil},
		"not one that goes":    {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := steps{
				mergeBase: loaded(was), base: loaded(was), head: loaded(tt.head...), live: liveItems(was),
				forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
					return &provision.Forecast{}, nil
				},
			}.preview(t)
			var got []string
			for _, p := range out.Problems {
				message, _, _ := strings.Cut(p.Message, " that of one")
				got = append(got, state.Problem{Origin: state.Origin{File: p.File, Line: p.Line}, Message: message}.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
