package offerings

import (
	"context"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/providers/capacityreservation"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision"
)

// Reservations are the capacity reservations that the terms of an EC2NodeClass select, with how many instances the
// provider counts as available in them. The provider keeps what it has read for a minute.
func Reservations(ctx context.Context, clk clock.Clock, from capacityreservation.Provider, terms []awsv1.CapacityReservationSelectorTerm) ([]provision.CapacityReservation, error) {
	found, err := from.List(ctx, terms...)
	if err != nil {
		return nil, err
	}
	out := []provision.CapacityReservation{}
	for _, r := range found {
		// Karpenter leaves out one of a type that it does not have.
		if read, err := awsv1.CapacityReservationFromEC2(clk, r); err == nil {
			out = append(out, provision.CapacityReservation{CapacityReservation: read, Available: from.GetAvailableInstanceCount(read.ID)})
		}
	}
	return out, nil
}
