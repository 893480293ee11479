package engine

import (
	"errors"
	"testing"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// moreExpensive is the catalog with another on-demand price of g4dn.xlarge.
func moreExpensive(t *testing.T) *catalog.Catalog {
	t.Helper()
	all, err := catalog.Load()
	if err != nil {
		t.Fatal(err)
	}
	types := all.Types()
	for i := range types {
		if types[i].Name == "g4dn.xlarge" {
			types[i].OnDemandUSD = 0.7
		}
	}
	out, err := catalog.New(all.PriceDate(), all.Sources(), types)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readsOfferings waits for the engine to have the prices and offerings of an AWS with the catalog
// of moreExpensive, whose zone us-east-1b does not offer g4dn.xlarge.
func readsOfferings(t *testing.T, eng *Engine) {
	t.Helper()
	eventually(t, "prices", func() error {
		if list := eng.Offerings(); list.OnDemandAt.IsZero() || list.SpotAt.IsZero() {
			return errors.New("not read yet")
		}
		return nil
	})
	list := eng.Offerings()
	price, _ := list.OnDemandPrice("g4dn.xlarge")
	if want := (catalog.Price{USDPerHour: 0.7, Basis: pricelist.OnDemand}); price != want {
		t.Errorf("g4dn.xlarge is at %+v, want %+v", price, want)
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1c"}, list.Zones["g4dn.xlarge"]); diff != "" {
		t.Errorf("zones that offer g4dn.xlarge (-want +got):\n%s", diff)
	}
	if offered, not := list.Spot["us-east-1a"]["g4dn.xlarge"], list.Spot["us-east-1b"]["g4dn.xlarge"]; offered <= 0 || offered >= 0.7 || not != 0 {
		t.Errorf("spot prices are %v and %v", offered, not)
	}
	if len(list.Zones) < 500 || len(list.OnDemand) < 500 {
		t.Errorf("%d types are offered, and %d have a price: a page is missing", len(list.Zones), len(list.OnDemand))
	}
}

// readsReservations has the engine read a Capacity Block of AWS.
func readsReservations(t *testing.T, eng *Engine, cloud *sandboxaws.Cloud) {
	t.Helper()
	end := time.Now().Add(24 * time.Hour).Truncate(time.Second).UTC()
	id, err := cloud.AddReservation(sandboxaws.Reservation{Type: "g4dn.xlarge", Zone: "us-east-1a", Total: 3, CapacityBlock: true, Targeted: true, End: end})
	if err != nil {
		t.Fatal(err)
	}
	got, err := eng.CapacityReservations(t.Context(), []awsv1.CapacityReservationSelectorTerm{{ID: id}})
	if err != nil || len(got) != 1 {
		t.Fatalf("%d reservations, %v", len(got), err)
	}
	want := []provision.CapacityReservation{{Available: 3, CapacityReservation: awsv1.CapacityReservation{
		ID: id, InstanceType: "g4dn.xlarge", AvailabilityZone: "us-east-1a", EndTime: &metav1.Time{Time: end}, InstanceMatchCriteria: "targeted",
		OwnerID: got[0].OwnerID, ReservationType: awsv1.CapacityReservationTypeCapacityBlock, State: awsv1.CapacityReservationStateActive,
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reservations (-want +got):\n%s", diff)
	}
}
