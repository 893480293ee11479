package offerings

import (
	"context"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	awscache "github.com/aws/karpenter-provider-aws/pkg/cache"
	"github.com/aws/karpenter-provider-aws/pkg/providers/arczonalshift"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"github.com/aws/karpenter-provider-aws/pkg/providers/instancetype/offering"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/catalog/ec2info"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// assumedReservation is the ID of the reservation that stands for those of which nothing is known.
const assumedReservation = "cr-unknown"

// reservations are what of capacity reservations a class decides.
type reservations struct {
	List []provision.CapacityReservation
	// Assumed are the IDs of reservations that are taken to be of any type and zone.
	Assumed []string
}

// reservationsOf are those of a class of the snapshot, none where Karpenter's feature gate is off.
func (m *Catalog) reservationsOf(f *snapshot.Indexed, class *awsv1.EC2NodeClass) reservations {
	if on, set := f.Cluster.FeatureGates["ReservedCapacity"]; set && !on {
		return reservations{}
	}
	found := f.Reservations(class)
	out := reservations{List: found.List}
	for _, pool := range f.SortedPools() {
		desired := Requirements(pool)
		if f.Class(pool) != class || !desired.Get(karpv1.CapacityTypeLabelKey).Has(karpv1.CapacityTypeReserved) {
			continue
		}
		switch {
		case !found.Listed:
			m.unknown.Add(codeReservationsUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: which capacity reservations it selects is not known: NodePool %s is taken to have room in one for every node.", class.Name, pool.Name)
			if ids := desired.Get(cloudprovider.ReservationIDLabel); ids.Operator() == corev1.NodeSelectorOpIn {
				out.Assumed = append(out.Assumed, ids.Values()...)
			} else {
				out.Assumed = append(out.Assumed, assumedReservation)
			}
		case !found.Counted && len(found.List) > 0:
			m.unknown.Add(codeReservationCapacityUnknown, "EC2NodeClass/"+class.Name, "EC2NodeClass %s: how many instances are available in its capacity reservations is not known: NodePool %s is taken to have room in them for every node.", class.Name, pool.Name)
		}
	}
	slices.Sort(out.Assumed)
	out.Assumed = slices.Compact(out.Assumed)
	return out
}

// reserved are the type's offerings in a class's reservations, as the AWS provider's own code makes them.
func (m *Catalog) reserved(ctx context.Context, it *cloudprovider.InstanceType, t catalog.InstanceType, class *awsv1.EC2NodeClass, of reservations) cloudprovider.Offerings {
	resolver := offering.ReservedCapacityResolver{
		PricingProvider: onDemandPrice{Price: ec2info.Price(m.rank(t, "", karpv1.CapacityTypeOnDemand))}, CapacityReservationProvider: counts{available: of.List},
		UnavailableOfferings: awscache.NewUnavailableOfferings(), ZonalshiftProvider: arczonalshift.NewNoopProvider(),
	}
	out := resolver.ResolveOfferings(ctx, it, nil, ec2info.InstanceTypeInfo(t), class, nil, nil, nil, &offering.ResolveContext{ZoneInfo: class.ZoneInfo()})
	if len(of.Assumed) > 0 {
		capacityTypes := append(it.Requirements.Get(karpv1.CapacityTypeLabelKey).Values(), karpv1.CapacityTypeReserved)
		for _, r := range []*scheduling.Requirement{
			scheduling.NewRequirement(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacityTypes...),
			scheduling.NewRequirement(cloudprovider.ReservationIDLabel, corev1.NodeSelectorOpIn, of.Assumed...),
			scheduling.NewRequirement(awsv1.LabelCapacityReservationType, corev1.NodeSelectorOpExists),
			scheduling.NewRequirement(awsv1.LabelCapacityReservationInterruptible, corev1.NodeSelectorOpExists),
		} {
			it.Requirements[r.Key] = r
		}
	}
	for _, id := range of.Assumed {
		for _, subnet := range class.Status.Subnets {
			out = append(out, &cloudprovider.Offering{
				Requirements: scheduling.NewRequirements(
					scheduling.NewRequirement(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, karpv1.CapacityTypeReserved),
					scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, subnet.Zone),
					scheduling.NewRequirement(awsv1.LabelTopologyZoneID, corev1.NodeSelectorOpIn, subnet.ZoneID),
					scheduling.NewRequirement(cloudprovider.ReservationIDLabel, corev1.NodeSelectorOpIn, id),
					scheduling.NewRequirement(awsv1.LabelCapacityReservationType, corev1.NodeSelectorOpExists),
					scheduling.NewRequirement(awsv1.LabelCapacityReservationInterruptible, corev1.NodeSelectorOpExists),
				),
				Price: m.rank(t, subnet.Zone, karpv1.CapacityTypeOnDemand), Available: true, ReservationCapacity: snapshot.Assumed(id).Available,
			})
		}
	}
	return out
}

// counts is a provider of how many instances are available in reservations, and of nothing else.
type counts struct {
	capacityreservation.Provider
	available []provision.CapacityReservation
}

// GetAvailableInstanceCount is 0 for a reservation that is not known.
func (c counts) GetAvailableInstanceCount(id string) int {
	for _, r := range c.available {
		if r.ID == id {
			return r.Available
		}
	}
	return 0
}

// onDemandPrice is a provider of the price of one instance type, by which Karpenter ranks it, and of
// nothing else.
type onDemandPrice struct {
	ec2info.Price
	noPrices
}

type noPrices struct{ pricing.Provider }
