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
)

var errThrottled = errors.New("RequestLimitExceeded")

// pages responds with one page of instance types after another, all offered in one zone. An empty
// page is an error.
type pages struct {
	sdk.EC2API
	left []string
}

func (p *pages) DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	kind := p.left[0]
	p.left = p.left[1:]
	if kind == "" {
		return nil, errThrottled
	}
	out := &ec2.DescribeInstanceTypeOfferingsOutput{InstanceTypeOfferings: []ec2types.InstanceTypeOffering{
		{InstanceType: ec2types.InstanceType(kind), Location: aws.String("us-east-1a")},
	}}
	if len(p.left) > 0 {
		out.NextToken = aws.String("more")
	}
	return out, nil
}

// read reads lists until one ends or fails.
func read(t *testing.T, r *offerings.Recorder) error {
	t.Helper()
	in := &ec2.DescribeInstanceTypeOfferingsInput{LocationType: ec2types.LocationTypeAvailabilityZone}
	for {
		out, err := r.DescribeInstanceTypeOfferings(t.Context(), in)
		if err != nil || aws.ToString(out.NextToken) == "" {
			return err
		}
		in.NextToken = out.NextToken
	}
}

func TestAListThatBreaksOffLeavesTheLastWholeOne(t *testing.T) {
	begin := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	clock := testingclock.NewFakeClock(begin)
	ec2 := &pages{}
	r := &offerings.Recorder{EC2API: ec2, Clock: clock}
	for _, c := range []struct {
		name  string
		pages []string
		fails bool
		want  map[string][]string
		at    time.Time
	}{
		{"the first list breaks off", []string{"g4dn.xlarge", ""}, true, nil, time.Time{}},
		{"a whole one", []string{"g4dn.xlarge", "g5.xlarge"}, false, map[string][]string{"g4dn.xlarge": {"us-east-1a"}, "g5.xlarge": {"us-east-1a"}}, begin.Add(2 * time.Hour)},
		{"the next one breaks off", []string{"g6.xlarge", ""}, true, map[string][]string{"g4dn.xlarge": {"us-east-1a"}, "g5.xlarge": {"us-east-1a"}}, begin.Add(2 * time.Hour)},
		{"one after that has nothing of it", []string{"g5.xlarge"}, false, map[string][]string{"g5.xlarge": {"us-east-1a"}}, begin.Add(4 * time.Hour)},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock.Step(time.Hour)
			ec2.left = c.pages
			if err := read(t, r); errors.Is(err, errThrottled) != c.fails || err != nil && !c.fails {
				t.Fatal(err)
			}
			list := offerings.List("us-east-1", r, offerings.NewPrices(nil, nil, clock, "us-east-1", true))
			if diff := cmp.Diff(c.want, list.Zones); diff != "" {
				t.Errorf("zones (-want +got):\n%s", diff)
			}
			if !list.ZonesAt.Equal(c.at) {
				t.Errorf("read at %v, want %v", list.ZonesAt, c.at)
			}
		})
	}
}
