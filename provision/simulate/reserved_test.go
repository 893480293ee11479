package simulate_test

import (
	"strings"
	"testing"
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision"
)

const reservationID = "cr-0123456789abcdef0"

// reservedClass selects a capacity reservation.
var reservedClass = strings.Replace(class, "  role: nodes\n", "  role: nodes\n  capacityReservationSelectorTerms: [{id: "+reservationID+"}]\n", 1)

// reservedPool allows capacity types.
func reservedPool(capacityTypes string) string {
	return strings.Replace(pool, "[on-demand]", "["+capacityTypes+"]", 1)
}

// reservation is one of g4dn.xlarge with so many available instances; end is its end date, zero for none.
func reservation(kind awsv1.CapacityReservationType, available int, end time.Time) provision.CapacityReservation {
	out := provision.CapacityReservation{Available: available, CapacityReservation: awsv1.CapacityReservation{
		ID: reservationID, InstanceType: "g4dn.xlarge", AvailabilityZone: "us-east-1a", InstanceMatchCriteria: "targeted", OwnerID: "111122223333", ReservationType: kind,
	}}
	if !end.IsZero() {
		out.EndTime = &metav1.Time{Time: end}
	}
	return out
}

// reserve has the class of the snapshot select reservations.
func reserve(of *provision.ClusterSnapshot, all ...provision.CapacityReservation) {
	of.CapacityReservations = map[string][]provision.CapacityReservation{"gpu": all}
}

// runReserved adds a running node in the reservation.
func runReserved(of *provision.ClusterSnapshot, name string) {
	claim, node := run(of, "gpu", name, time.Hour)
	for _, labels := range []map[string]string{claim.Labels, node.Labels} {
		labels[karpv1.CapacityTypeLabelKey], labels[cloudprovider.ReservationIDLabel] = karpv1.CapacityTypeReserved, reservationID
		labels[awsv1.LabelCapacityReservationType], labels[awsv1.LabelCapacityReservationInterruptible] = "default", "false"
	}
}

func TestPodsOfReservedPools(t *testing.T) {
	for name, tt := range map[string]struct {
		types     string
		available int
		pending   int
	}{
		"each finds an instance that is available":                       {"reserved", 2, 0},
		"those beyond what is available find none":                       {"reserved", 1, 1},
		"none finds one where the reservation is full":                   {"reserved", 0, 2},
		"those beyond what is available become on-demand where they may": {"reserved, on-demand", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := read(t)
			before.NodePools, before.NodeClasses = nil, nil
			after := read(t, reservedClass, reservedPool(tt.types))
			reserve(&after, reservation(awsv1.CapacityReservationTypeDefault, tt.available, time.Time{}))
			pod(&before, "a", "")
			pod(&before, "b", "")
			got := compare(t, before, after)
			if len(got.PodScheduling.Unschedulable) != tt.pending || len(got.PodScheduling.NewlySchedulable) != 2-tt.pending {
				t.Errorf("%d pods are pending and %d scheduled: %+v", len(got.PodScheduling.Unschedulable), len(got.PodScheduling.NewlySchedulable), got.PodScheduling)
			}
			for _, p := range got.PodScheduling.Unschedulable {
				if want := "NodePool gpu has no instance available in its capacity reservations"; p.Reason != want {
					t.Errorf("the reason is %q, want %q", p.Reason, want)
				}
			}
		})
	}
}

func TestAReservedPoolWhoseReservationsAreNotKnownHasNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		class string
		set   func(*provision.ClusterSnapshot)
		want  string
	}{
		"as in a plan without a cluster": {reservedClass, func(*provision.ClusterSnapshot) {}, "which capacity reservations it selects is not known"},
		"selected by tags": {strings.Replace(reservedClass, "{id: "+reservationID+"}", "{tags: {team: ml}}", 1), func(*provision.ClusterSnapshot) {},
			"which capacity reservations it selects is not known"},
		"with a status that does not count instances": {reservedClass, func(of *provision.ClusterSnapshot) {
			of.NodeClasses[0].Status.CapacityReservations = []awsv1.CapacityReservation{reservation(awsv1.CapacityReservationTypeDefault, 0, time.Time{}).CapacityReservation}
		}, "how many instances are available in its capacity reservations is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			before := read(t)
			after := read(t, tt.class, reservedPool("reserved"))
			tt.set(&after)
			pod(&before, "a", "")
			got := compare(t, before, after)
			if len(got.PodScheduling.NewlySchedulable) != 1 || len(got.PodScheduling.Unschedulable) != 0 {
				t.Errorf("the pod finds no node: %+v", got.PodScheduling)
			}
			if !strings.Contains(unknownText(got), tt.want) {
				t.Errorf("unknown is %q, want %q in it", unknownText(got), tt.want)
			}
		})
	}
}

func unknownText(of provision.Forecast) string {
	var out []string
	for _, u := range of.Unknown {
		out = append(out, u.Text)
	}
	return strings.Join(out, "\n")
}

// TestAFullReservationKeepsItsNodes changes the class of nodes in a reservation.
func TestAFullReservationKeepsItsNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		types     string
		available int
		gate      bool
		kept      bool
	}{
		"which has no instance for a replacement":             {"reserved", 0, false, true},
		"unless it has one":                                   {"reserved", 1, false, false},
		"unless the pool may replace them by on-demand nodes": {"reserved, on-demand", 0, false, false},
		"unless Karpenter terminates a node before":           {"reserved", 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			before := read(t, reservedClass, reservedPool(tt.types))
			reserve(&before, reservation(awsv1.CapacityReservationTypeDefault, tt.available, time.Time{}))
			for _, name := range []string{"a", "b"} {
				runReserved(&before, name)
				pod(&before, "on-"+name, "node-"+name)
			}
			after := before
			after.NodeClasses = read(t, strings.Replace(reservedClass, "50Gi", "60Gi", 1)).NodeClasses
			before.Cluster.FeatureGates = map[string]bool{"TerminateFirstDrift": tt.gate}
			got := compare(t, before, after)
			if len(got.Replaced) != 2 || len(got.PodScheduling.NewlyUnschedulable) != 0 {
				t.Fatalf("%d nodes are replaced, and the pods lose their place: %+v", len(got.Replaced), got.PodScheduling)
			}
			for _, n := range got.Replaced {
				want := []provision.Blocker(nil)
				if tt.kept {
					want = []provision.Blocker{{Kind: "reservation"}}
				}
				if diff := cmp.Diff(want, n.Blockers); diff != "" {
					t.Errorf("what keeps node %s (-want +got):\n%s", n.Name, diff)
				}
			}
		})
	}
}

func TestANodeOfAReservationThatIsNoLongerSelectedIsReplaced(t *testing.T) {
	before := read(t, reservedClass, reservedPool("reserved, on-demand"))
	reserve(&before, reservation(awsv1.CapacityReservationTypeDefault, 0, time.Time{}))
	runReserved(&before, "a")
	run(&before, "gpu", "b", time.Hour)
	after := before
	after.NodeClasses = read(t, strings.Replace(reservedClass, reservationID, "cr-another", 1)).NodeClasses
	reserve(&after)
	want := []string{"a CapacityReservationDrift [EC2NodeClass/gpu spec.capacityReservationSelectorTerms]"}
	if diff := cmp.Diff(want, replacedText(compare(t, before, after).Replaced)); diff != "" {
		t.Errorf("replaced (-want +got):\n%s", diff)
	}
}

func TestAStatusDoesNotHaveTheReservationsOfOtherTerms(t *testing.T) {
	before := read(t, reservedClass, reservedPool("reserved"))
	before.NodeClasses[0].Status.CapacityReservations = []awsv1.CapacityReservation{reservation(awsv1.CapacityReservationTypeDefault, 0, time.Time{}).CapacityReservation}
	after := before
	after.NodeClasses = read(t, strings.Replace(reservedClass, "{id: "+reservationID+"}", "{tags: {team: ml}}", 1)).NodeClasses
	after.NodeClasses[0].Status = before.NodeClasses[0].Status
	if got, want := unknownText(compare(t, before, after)), "which capacity reservations it selects is not known"; !strings.Contains(got, want) {
		t.Errorf("unknown is %q, want %q in it", got, want)
	}
}

func TestTheEndOfACapacityBlockIsForecast(t *testing.T) {
	end := noon.Add(48 * time.Hour)
	before := read(t, reservedClass, reservedPool("reserved"))
	reserve(&before, reservation(awsv1.CapacityReservationTypeCapacityBlock, 1, end))
	runReserved(&before, "a")
	got := compare(t, before, before)
	want := []provision.ReservationEnd{{
		ID: reservationID, Type: "capacity-block", Pools: []string{"gpu"}, Nodes: 1, End: end, NodesLeave: end.Add(-40 * time.Minute),
	}}
	if diff := cmp.Diff(want, got.ReservationEnds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNoNodeIsLaunchedIntoACapacityBlockThatExpires(t *testing.T) {
	for name, tt := range map[string]struct {
		left    time.Duration
		pending int
	}{
		"a minute before Karpenter deletes its nodes": {provision.CapacityBlockExpiration + time.Minute, 0},
		"as it does":    {provision.CapacityBlockExpiration, 1},
		"after its end": {-time.Minute, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := read(t)
			after := read(t, reservedClass, reservedPool("reserved"))
			reserve(&after, reservation(awsv1.CapacityReservationTypeCapacityBlock, 1, noon.Add(tt.left)))
			pod(&before, "a", "")
			if got := compare(t, before, after); len(got.PodScheduling.Unschedulable) != tt.pending {
				t.Errorf("%d pods are pending, want %d", len(got.PodScheduling.Unschedulable), tt.pending)
			}
		})
	}
}

// TestTheExpirationIsUpstreams holds the figure against Karpenter's own code, which does not export it.
func TestTheExpirationIsUpstreams(t *testing.T) {
	end := noon.Add(24 * time.Hour)
	for at, want := range map[time.Time]awsv1.CapacityReservationState{
		end.Add(-provision.CapacityBlockExpiration - time.Nanosecond): awsv1.CapacityReservationStateActive,
		end.Add(-provision.CapacityBlockExpiration):                   awsv1.CapacityReservationStateExpiring,
	} {
		got, err := awsv1.CapacityReservationFromEC2(clocktesting.NewFakeClock(at), &ec2types.CapacityReservation{
			CapacityReservationId: new(reservationID), AvailabilityZone: new("us-east-1a"), InstanceType: new("p5.48xlarge"), OwnerId: new("111122223333"),
			InstanceMatchCriteria: ec2types.InstanceMatchCriteriaTargeted, ReservationType: ec2types.CapacityReservationTypeCapacityBlock, EndDate: &end,
		})
		if err != nil || got.State != want {
			t.Errorf("at %s before its end it is %s, want %s: %v", end.Sub(at), got.State, want, err)
		}
	}
}
