package account_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/engine/account"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// emulated is an account of an emulated AWS, in which some services deny what they are requested.
func emulated(t *testing.T, denied ...string) (*sandboxaws.Cloud, *account.Account, time.Time) {
	t.Helper()
	config := sandboxaws.DefaultConfig()
	config.NotOffered = map[string][]string{"g4dn.xlarge": {"us-east-1b"}}
	cloud, err := sandboxaws.New(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, operation := range denied {
		service, name, _ := strings.Cut(operation, ":")
		if _, err := cloud.Inject(sandboxaws.Fault{Service: service, Operation: name, Code: "AccessDeniedException", Status: 403}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	now := time.Date(2026, 11, 28, 5, 0, 0, 0, time.UTC)
	return cloud, account.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("sandbox", "sandbox", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}, testingclock.NewFakeClock(now)), now
}

func TestTheAccountHasTheRegionsPricesAndOfferings(t *testing.T) {
	cloud, of, now := emulated(t)
	if err := cloud.SetPrice("g4dn.xlarge", "", 0.7); err != nil {
		t.Fatal(err)
	}
	list, err := of.Offerings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if price := list.OnDemand["g4dn.xlarge"]; price != 0.7 {
		t.Errorf("g4dn.xlarge is at %v", price)
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1c"}, list.Zones["g4dn.xlarge"]); diff != "" {
		t.Errorf("zones that offer g4dn.xlarge (-want +got):\n%s", diff)
	}
	if offered, not := list.Spot["us-east-1a"]["g4dn.xlarge"], list.Spot["us-east-1b"]["g4dn.xlarge"]; offered <= 0 || offered >= 0.7 || not != 0 {
		t.Errorf("spot prices are %v and %v", offered, not)
	}
	if !list.Complete() || list.OnDemandAt != now || list.SpotAt != now || list.ZonesAt != now {
		t.Errorf("read at %v, %v, %v", list.OnDemandAt, list.SpotAt, list.ZonesAt)
	}
}

func TestWhatTheAccountDeniesIsMissing(t *testing.T) {
	for operation, c := range map[string]struct{ onDemand, spot, zones bool }{
		"pricing:GetProducts":               {false, true, true},
		"ec2:DescribeSpotPriceHistory":      {true, false, true},
		"ec2:DescribeInstanceTypeOfferings": {true, true, false},
	} {
		t.Run(operation, func(t *testing.T) {
			_, of, _ := emulated(t, operation)
			list, err := of.Offerings(t.Context())
			if err == nil || list == nil {
				t.Fatalf("%v, %v", list, err)
			}
			got := struct{ onDemand, spot, zones bool }{!list.OnDemandAt.IsZero(), !list.SpotAt.IsZero(), !list.ZonesAt.IsZero()}
			if got != c || list.Complete() {
				t.Errorf("read %+v, want %+v", got, c)
			}
			// The prices that Karpenter is built with are no prices that AWS returned.
			if !c.onDemand && len(list.OnDemand) > 0 || !c.spot && len(list.Spot) > 0 {
				t.Errorf("%d on-demand and %d spot prices", len(list.OnDemand), len(list.Spot))
			}
			// What is not denied is whole.
			if c.onDemand && list.OnDemand["g4dn.xlarge"] <= 0 || c.spot && list.Spot["us-east-1a"]["g4dn.xlarge"] <= 0 || c.zones && len(list.Zones["g4dn.xlarge"]) != 2 {
				t.Errorf("g4dn.xlarge has on demand %v, on spot %v, in zones %v", list.OnDemand["g4dn.xlarge"], list.Spot["us-east-1a"]["g4dn.xlarge"], list.Zones["g4dn.xlarge"])
			}
		})
	}
}

func TestTheAccountHasTheReservationsOfAClass(t *testing.T) {
	cloud, of, _ := emulated(t)
	id, err := cloud.AddReservation(sandboxaws.Reservation{Type: "g4dn.xlarge", Zone: "us-east-1a", Total: 3, Targeted: true})
	if err != nil {
		t.Fatal(err)
	}
	found, err := of.CapacityReservations(t.Context(), []awsv1.CapacityReservationSelectorTerm{{ID: id}})
	if err != nil || len(found) != 1 || found[0].ID != id || found[0].Available != 3 {
		t.Errorf("%+v, %v", found, err)
	}
}
