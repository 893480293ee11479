package forecasting

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

func content(t *testing.T, o runtime.Object) map[string]any {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	out["apiVersion"], out["kind"] = kinds[0].GroupVersion().String(), kinds[0].Kind
	delete(out, "status")
	return out
}

// simulateHere runs in this process; a test's binary cannot be the child.
func simulateHere(ctx context.Context, cluster v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
	types, err := catalog.Load()
	if err != nil {
		return provision.Forecast{}, err
	}
	settings := engine.DefaultSettings()
	settings.Cluster, settings.Region, settings.Account = cluster.Name, cluster.Region, cluster.Account
	return simulate.Compare(engine.Offline(ctx, settings), before, after, types)
}

// live forecasts for the cluster of a client, whose only Cluster it follows.
func live(reader client.Reader, run Simulate) ForecastFunc {
	return Live{Snapshot: &SnapshotReader{Reader: reader}, Simulate: run, Cluster: func(ctx context.Context) (*v1alpha1.Cluster, error) {
		var list v1alpha1.ClusterList
		if err := reader.List(ctx, &list); err != nil || len(list.Items) == 0 {
			return nil, err
		}
		return &list.Items[0], nil
	}}.Forecast
}

func forecastOf(t *testing.T, objects []client.Object, changes ...plan.Change) *provision.Forecast {
	t.Helper()
	f, err := live(fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build(), simulateHere)(t.Context(), state.Set{}, state.Set{}, changes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAChangeIsForecastForTheLiveNodes(t *testing.T) {
	objects := forecasttest.Declared(t)
	key := func(group, kind string) state.Key {
		return state.Key{Target: "kubernetes", Group: group, Kind: kind, Name: "gpu"}
	}
	class, _ := objects[1].DeepCopyObject().(*awsv1.EC2NodeClass)
	class.Spec.UserData = new("echo changed")
	changedClass := plan.Change{Key: key(awsapis.Group, "EC2NodeClass"), Action: plan.Update, Before: &state.Item{}, After: &state.Item{Object: content(t, class)}}
	gone := plan.Change{Key: key("karpenter.sh", "NodePool"), Action: plan.Delete, Before: &state.Item{}}
	weighed, _ := objects[2].DeepCopyObject().(*karpv1.NodePool)
	weighed.Spec.Weight = new(int32(7))
	heavier := plan.Change{Key: key("karpenter.sh", "NodePool"), Action: plan.Update, Before: &state.Item{}, After: &state.Item{Object: content(t, weighed)}}

	replaced := func(f *provision.Forecast) (out []string) {
		for _, n := range f.Replaced {
			out = append(out, n.NodeClaim+" "+n.Reason)
		}
		return out
	}
	if diff := cmp.Diff([]string{"gpu-1 NodeClassDrift"}, replaced(forecastOf(t, objects, changedClass))); diff != "" {
		t.Errorf("a changed class: %s", diff)
	}
	if f := forecastOf(t, objects, heavier); len(f.Replaced)+len(f.Removed) > 0 || len(f.Pools) != 1 {
		t.Errorf("another weight: %+v", f)
	}
	if f := forecastOf(t, objects, gone); len(f.Removed) != 1 || f.Removed[0].Pool != "gpu" || len(f.Removed[0].Nodes) != 1 {
		t.Errorf("a pool that goes: %+v", f.Removed)
	}
	broken := plan.Change{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "other"}, Action: plan.Create,
		After: &state.Item{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "other"}, "spec": "none"}}}
	if f := forecastOf(t, objects, broken, changedClass); len(f.Replaced) != 1 || !slices.ContainsFunc(f.Unknown, func(u provision.Unknown) bool { return strings.Contains(u.Text, "NodePool.karpenter.sh/other") }) {
		t.Errorf("one pool that cannot be read takes away what is told of the other: %+v", f)
	}
	if f := forecastOf(t, objects[1:], changedClass); f != nil {
		t.Errorf("without a Cluster nobody knows the region, and yet: %+v", f)
	}
}

func TestAChangeWithoutPoolsHasNoForecast(t *testing.T) {
	unreachable := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme.Scheme).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		},
	})
	forecast := live(unreachable, simulateHere)
	other := []plan.Change{{Key: state.Key{Target: "kubernetes", Kind: "ConfigMap", Name: "c"}, Action: plan.Create, After: &state.Item{}}}
	if f, err := forecast(t.Context(), state.Set{}, state.Set{}, other); f != nil || err != nil {
		t.Errorf("%+v", f)
	}
	pool := []plan.Change{{Key: state.Key{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "p"}, Action: plan.Create, After: &state.Item{}}}
	if f := OrUnknown(forecast(t.Context(), state.Set{}, state.Set{}, pool)); f == nil || len(f.Unknown) != 1 {
		t.Errorf("a cluster that cannot be read is no reason to show no plan, but is told: %+v", f)
	}
}

func TestTheSimulationHasTheSettingsOfTheEngine(t *testing.T) {
	spec := v1alpha1.ClusterSpec{Region: "eu-west-1", Engine: v1alpha1.EngineSpec{
		PreferencePolicy: "Ignore", MinValuesPolicy: v1alpha1.MinValuesBestEffort, FeatureGates: map[string]bool{"NodeOverlay": true},
	}}
	want := provision.Cluster{
		Region: "eu-west-1", PreferencePolicy: "Ignore", MinValuesPolicy: "BestEffort", FeatureGates: map[string]bool{"NodeOverlay": true},
	}
	if d := cmp.Diff(want, ClusterOf(spec)); d != "" {
		t.Error(d)
	}
}
