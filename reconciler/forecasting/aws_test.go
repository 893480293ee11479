package forecasting

import (
	"context"
	"errors"
	"testing"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Both kinds of forecasts simulate with what is known of AWS in the Cluster's region.
func TestTheSimulationHasWhatIsKnownOfAWS(t *testing.T) {
	objects := forecasttest.Declared(t)
	class, _ := objects[1].(*awsv1.EC2NodeClass)
	class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: "cr-0123456789abcdef0"}}
	block := []provision.CapacityReservation{{Available: 3}}
	var list pricelist.List
	known := AWSReader{
		Offerings: func(_ context.Context, of v1alpha1.ClusterSpec) *pricelist.List {
			list.Region = of.Region
			return &list
		},
		CapacityReservations: func(_ context.Context, of v1alpha1.ClusterSpec, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
			if of.Region != list.Region || len(terms) != 1 {
				t.Errorf("the reservations of %v in %s are requested", terms, of.Region)
			}
			return block, nil
		},
	}
	unread := known
	unread.CapacityReservations = func(context.Context, v1alpha1.ClusterSpec, []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
		return nil, errors.New("denied")
	}
	cluster, _ := objects[0].(*v1alpha1.Cluster)
	items := state.NewSet(state.Item{Key: state.Key{Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Name: cluster.Name}, Object: content(t, cluster)})
	changed := plan.Change{Key: state.Key{Target: "kubernetes", Group: awsapis.Group, Kind: "EC2NodeClass", Name: class.Name}, Action: plan.Update, Before: &state.Item{}, After: &state.Item{Object: content(t, class)}}

	known.ClassReservations = func(context.Context, v1alpha1.ClusterSpec) map[string][]awsv1.CapacityReservation {
		return map[string][]awsv1.CapacityReservation{class.Name: {{ID: "cr-0123456789abcdef0"}}}
	}
	items = state.NewSet(append(items.Items(), state.Item{Key: state.Key{Group: awsapis.Group, Kind: "EC2NodeClass", Name: class.Name}, Object: content(t, class)})...)

	type simulated struct {
		Offerings    bool
		Reservations map[string][]provision.CapacityReservation
		// Status is how many reservations the status of the class has.
		Status int
	}
	for name, c := range map[string]struct {
		known AWSReader
		live  bool
		want  simulated
	}{
		"of a live cluster":                     {known, true, simulated{true, map[string][]provision.CapacityReservation{class.Name: block}, 0}},
		"of reservations that cannot be read":   {unread, true, simulated{true, map[string][]provision.CapacityReservation{}, 0}},
		"of a live cluster of which nothing is": {AWSReader{}, true, simulated{}},
		"of two revisions":                      {known, false, simulated{Offerings: true, Status: 1}},
		"of two revisions of which nothing is":  {AWSReader{}, false, simulated{}},
	} {
		t.Run(name, func(t *testing.T) {
			list.Region = ""
			var got []simulated
			simulate := func(_ context.Context, _ v1alpha1.ClusterSpec, before, after provision.ClusterSnapshot) (provision.Forecast, error) {
				for _, of := range []provision.ClusterSnapshot{before, after} {
					got = append(got, simulated{of.Cluster.Offerings == &list && list.Region == cluster.Spec.Region, of.CapacityReservations, len(of.NodeClasses[0].Status.CapacityReservations)})
				}
				return provision.Forecast{}, nil
			}
			forecast := Declared{Expand: func(_ context.Context, of state.Set) (state.Set, error) { return of, nil }, Simulate: simulate, AWSReader: c.known}.Forecast
			if c.live {
				reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
				forecast = Live{Snapshot: &SnapshotReader{Reader: reader}, Simulate: simulate, AWSReader: c.known, Cluster: func(context.Context) (*v1alpha1.Cluster, error) { return cluster, nil }}.Forecast
			}
			if _, err := forecast(t.Context(), items, items, []plan.Change{changed}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]simulated{c.want, c.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
