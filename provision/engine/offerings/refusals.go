package offerings

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awserrors "github.com/aws/karpenter-provider-aws/pkg/errors"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision/pricelist"
)

// Refusals keeps which offerings EC2 refuses to launch, with the code and the time, which Karpenter's cache of unavailable
// offerings does not have. There are at most as many as the region has offerings.
type Refusals struct {
	sdk.EC2API
	Clock clock.Clock

	mu   sync.Mutex
	last map[refusable]pricelist.Refusal
}

// refusable is an offering, by what EC2's errors have of it.
type refusable struct{ instanceType, zone, capacityType string }

// CreateFleet makes the request and keeps which offerings EC2 refuses. One of which it launches an instance is not
// refused any more. Launches into capacity reservations are left out: how many instances are available in these is read from EC2.
func (r *Refusals) CreateFleet(ctx context.Context, in *ec2.CreateFleetInput, o ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error) {
	out, err := r.EC2API.CreateFleet(ctx, in, o...)
	if err != nil || in.TargetCapacitySpecification == nil {
		return out, err
	}
	capacityType := in.TargetCapacitySpecification.DefaultTargetCapacityType
	if capacityType != ec2types.DefaultTargetCapacityTypeOnDemand && capacityType != ec2types.DefaultTargetCapacityTypeSpot {
		return out, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[refusable]pricelist.Refusal{}
	}
	r.prune()
	for _, launched := range out.Instances {
		if of, known := offeringOf(launched.LaunchTemplateAndOverrides, capacityType); known {
			delete(r.last, of)
		}
	}
	for _, failed := range out.Errors {
		of, known := offeringOf(failed.LaunchTemplateAndOverrides, capacityType)
		code := aws.ToString(failed.ErrorCode)
		if !known || code == "" || !awserrors.IsUnfulfillableCapacity(failed) || awserrors.IsReservationCapacityExceeded(failed) {
			continue
		}
		r.last[of] = pricelist.Refusal{InstanceType: of.instanceType, Zone: of.zone, CapacityType: of.capacityType, Code: code, At: r.Clock.Now()}
	}
	return out, nil
}

// offeringOf is the offering of a part of a response; false where that has none.
func offeringOf(part *ec2types.LaunchTemplateAndOverridesResponse, capacityType ec2types.DefaultTargetCapacityType) (refusable, bool) {
	if part == nil || part.Overrides == nil {
		return refusable{}, false
	}
	out := refusable{string(part.Overrides.InstanceType), aws.ToString(part.Overrides.AvailabilityZone), string(capacityType)}
	return out, out.instanceType != "" && out.zone != ""
}

// prune drops those that do not count any more.
func (r *Refusals) prune() {
	now := r.Clock.Now()
	maps.DeleteFunc(r.last, func(_ refusable, of pricelist.Refusal) bool { return now.Sub(of.At) > pricelist.RefusalAge })
}

// Last are those that count, sorted.
func (r *Refusals) Last() []pricelist.Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune()
	return slices.SortedFunc(maps.Values(r.last), func(a, b pricelist.Refusal) int {
		return cmp.Or(strings.Compare(a.InstanceType, b.InstanceType), strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	})
}
