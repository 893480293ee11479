package offerings_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/engine/offerings"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// fleets is an EC2 that responds to CreateFleet with one response.
type fleets struct {
	sdk.EC2API
	out *ec2.CreateFleetOutput
	err error
}

func (f *fleets) CreateFleet(context.Context, *ec2.CreateFleetInput, ...func(*ec2.Options)) (*ec2.CreateFleetOutput, error) {
	return f.out, f.err
}

// part is what a response of CreateFleet has of an offering.
func part(instanceType, zone string) *ec2types.LaunchTemplateAndOverridesResponse {
	return &ec2types.LaunchTemplateAndOverridesResponse{Overrides: &ec2types.FleetLaunchTemplateOverrides{
		InstanceType: ec2types.InstanceType(instanceType), AvailabilityZone: aws.String(zone),
	}}
}

func failed(code, instanceType, zone string) ec2types.CreateFleetError {
	return ec2types.CreateFleetError{ErrorCode: aws.String(code), LaunchTemplateAndOverrides: part(instanceType, zone)}
}

func launched(instanceType, zone string) ec2types.CreateFleetInstance {
	return ec2types.CreateFleetInstance{InstanceIds: []string{"i-1"}, LaunchTemplateAndOverrides: part(instanceType, zone)}
}

func TestWhatEC2RefusesIsKeptForTwentyMinutes(t *testing.T) {
	const noCapacity, a, b = "InsufficientInstanceCapacity", "us-east-1a", "us-east-1b"
	at := time.Date(2026, 11, 28, 11, 20, 0, 0, time.UTC)
	refused := func(code, instanceType, zone, capacityType string, after time.Duration) pricelist.Refusal {
		return pricelist.Refusal{InstanceType: instanceType, Zone: zone, CapacityType: capacityType, Code: code, At: at.Add(after)}
	}
	type request struct {
		after        time.Duration // since the one before
		capacityType ec2types.DefaultTargetCapacityType
		out          ec2.CreateFleetOutput
		err          error
	}
	const onDemand, spot = ec2types.DefaultTargetCapacityTypeOnDemand, ec2types.DefaultTargetCapacityTypeSpot
	once := func(errs ...ec2types.CreateFleetError) []request {
		return []request{{capacityType: onDemand, out: ec2.CreateFleetOutput{Errors: errs}}}
	}
	for name, c := range map[string]struct {
		requests []request
		later    time.Duration
		want     []pricelist.Refusal
	}{
		"an offering without capacity": {once(failed(noCapacity, "g5.xlarge", a)), 0, []pricelist.Refusal{refused(noCapacity, "g5.xlarge", a, "on-demand", 0)}},
		"several, sorted": {once(failed(noCapacity, "g5.xlarge", b), failed("VcpuLimitExceeded", "g5.xlarge", a), failed(noCapacity, "g4dn.xlarge", b)), 0, []pricelist.Refusal{
			refused(noCapacity, "g4dn.xlarge", b, "on-demand", 0), refused("VcpuLimitExceeded", "g5.xlarge", a, "on-demand", 0), refused(noCapacity, "g5.xlarge", b, "on-demand", 0)}},
		"the same on spot is another offering": {[]request{
			{capacityType: onDemand, out: ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{failed(noCapacity, "g5.xlarge", a)}}},
			{capacityType: spot, out: ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{failed("MaxSpotInstanceCountExceeded", "g5.xlarge", a)}}},
		}, 0, []pricelist.Refusal{refused(noCapacity, "g5.xlarge", a, "on-demand", 0), refused("MaxSpotInstanceCountExceeded", "g5.xlarge", a, "spot", 0)}},
		"the last time counts": {[]request{
			{capacityType: spot, out: ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{failed(noCapacity, "g5.xlarge", a)}}},
			{after: 15 * time.Minute, capacityType: spot, out: ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{failed(noCapacity, "g5.xlarge", a)}}},
		}, 20 * time.Minute, []pricelist.Refusal{refused(noCapacity, "g5.xlarge", a, "spot", 15*time.Minute)}},
		"until twenty minutes have passed": {once(failed(noCapacity, "g5.xlarge", a)), pricelist.RefusalAge, []pricelist.Refusal{refused(noCapacity, "g5.xlarge", a, "on-demand", 0)}},
		"and not longer":                   {once(failed(noCapacity, "g5.xlarge", a)), pricelist.RefusalAge + time.Second, nil},
		"until an instance of it is launched": {[]request{
			{capacityType: spot, out: ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{failed(noCapacity, "g5.xlarge", a), failed(noCapacity, "g5.xlarge", b)}}},
			{after: time.Minute, capacityType: spot, out: ec2.CreateFleetOutput{Instances: []ec2types.CreateFleetInstance{launched("g5.xlarge", a)}}},
		}, 0, []pricelist.Refusal{refused(noCapacity, "g5.xlarge", b, "spot", 0)}},
		"one of which fewer are launched than requested": {[]request{{capacityType: spot, out: ec2.CreateFleetOutput{
			Instances: []ec2types.CreateFleetInstance{launched("g5.xlarge", a)}, Errors: []ec2types.CreateFleetError{failed(noCapacity, "g5.xlarge", a)},
		}}}, 0, []pricelist.Refusal{refused(noCapacity, "g5.xlarge", a, "spot", 0)}},
		"not for an error that is not about capacity":    {once(failed("InvalidParameterValue", "g5.xlarge", a)), 0, nil},
		"not in a capacity reservation that is full":     {once(failed("ReservationCapacityExceeded", "g5.xlarge", a)), 0, nil},
		"not in a Capacity Block":                        {[]request{{capacityType: ec2types.DefaultTargetCapacityTypeCapacityBlock, out: ec2.CreateFleetOutput{Errors: []ec2types.CreateFleetError{failed(noCapacity, "p5.48xlarge", a)}}}}, 0, nil},
		"not where the error does not have the offering": {once(ec2types.CreateFleetError{ErrorCode: aws.String(noCapacity)}, failed(noCapacity, "g5.xlarge", ""), ec2types.CreateFleetError{LaunchTemplateAndOverrides: part("g5.xlarge", a)}), 0, nil},
		"not where the request fails":                    {[]request{{capacityType: spot, err: errThrottled}}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			clock, api := testingclock.NewFakeClock(at), &fleets{}
			r := &offerings.Refusals{EC2API: api, Clock: clock}
			if got := r.Last(); len(got) > 0 {
				t.Errorf("before any request there are %v", got)
			}
			for _, q := range c.requests {
				clock.Step(q.after)
				api.out, api.err = &q.out, q.err
				in := &ec2.CreateFleetInput{TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{DefaultTargetCapacityType: q.capacityType}}
				if out, err := r.CreateFleet(t.Context(), in); out != &q.out || !errors.Is(err, q.err) {
					t.Errorf("the response is %v, %v", out, err)
				}
			}
			clock.Step(c.later)
			if diff := cmp.Diff(c.want, r.Last()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
