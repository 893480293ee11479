// Package offerings keeps what Karpenter's AWS provider reads of prices, of which zones offer which
// instance types, of capacity reservations, and of launches that EC2 refuses: when it was read, and the offerings themselves, are not
// exported by the provider.
//
// It makes no request of its own. Start reading at [Recorder].
package offerings

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/provision/pricelist"
)

// Recorder keeps which zones offer which instance types: the provider that reads it
// does not export it, and a second request for it would use up the account's rate.
type Recorder struct {
	sdk.EC2API
	Clock clock.Clock

	mu sync.Mutex
	// pages is what the pages of an unfinished list have, zones the last list that was finished.
	pages, zones map[string][]string
	at           time.Time
}

// DescribeInstanceTypeOfferings makes the request and keeps its response. Its caller reads no two
// lists at a time.
func (r *Recorder) DescribeInstanceTypeOfferings(ctx context.Context, in *ec2.DescribeInstanceTypeOfferingsInput, o ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	out, err := r.EC2API.DescribeInstanceTypeOfferings(ctx, in, o...)
	if err != nil || in.LocationType != ec2types.LocationTypeAvailabilityZone {
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if aws.ToString(in.NextToken) == "" {
		r.pages = map[string][]string{}
	}
	for _, offering := range out.InstanceTypeOfferings {
		name := string(offering.InstanceType)
		r.pages[name] = append(r.pages[name], aws.ToString(offering.Location))
	}
	if aws.ToString(out.NextToken) == "" {
		for _, zones := range r.pages {
			slices.Sort(zones)
		}
		r.zones, r.at, r.pages = r.pages, r.Clock.Now(), nil
	}
	return out, nil
}

// last is the last list, which is never changed, and when it was read.
func (r *Recorder) last() (map[string][]string, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.zones, r.at
}

// List is what was read of the region's prices and offerings.
func List(region string, offered *Recorder, prices *Prices) *pricelist.List {
	zones, at := offered.last()
	onDemand, spot := prices.last()
	out := &pricelist.List{Region: region, Zones: maps.Clone(zones), ZonesAt: at, OnDemandAt: onDemand.at, SpotAt: spot.at}
	out.OnDemand, out.Spot = maps.Clone(onDemand.prices[""]), spot.prices.clone()
	if at.IsZero() {
		return out // Which types the region offers is not known.
	}
	// A price list goes on having what is no longer offered.
	maps.DeleteFunc(out.OnDemand, func(name string, _ float64) bool { return len(zones[name]) == 0 })
	for zone, of := range out.Spot {
		maps.DeleteFunc(of, func(name string, _ float64) bool { return !slices.Contains(zones[name], zone) })
	}
	maps.DeleteFunc(out.Spot, func(_ string, of map[string]float64) bool { return len(of) == 0 })
	return out
}
