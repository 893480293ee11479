// Package offerings keeps what Karpenter's AWS provider reads of prices, of which zones offer which
// instance types, and of capacity reservations: when it was read, and the offerings themselves, are not exported by the provider.
//
// It makes no request of its own. Start reading at [Recorder].
package offerings

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
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

// Prices are Karpenter's with when AWS returned them: until then Karpenter has those
// of a table of its own, and takes the on-demand price for that of a spot instance.
type Prices struct {
	pricing.Provider
	clock clock.Clock
	// listed is false where Karpenter never reads the on-demand prices.
	listed bool

	mu             sync.Mutex
	onDemand, spot time.Time
}

// NewPrices dates the prices of a region. Isolated is Karpenter's option of that name.
func NewPrices(from pricing.Provider, clk clock.Clock, region string, isolated bool) *Prices {
	return &Prices{Provider: from, clock: clk, listed: !isolated && !strings.HasPrefix(region, "us-gov")}
}

// UpdateOnDemandPricing has Karpenter read the price list.
func (d *Prices) UpdateOnDemandPricing(ctx context.Context) error {
	return d.update(ctx, d.Provider.UpdateOnDemandPricing, &d.onDemand)
}

// UpdateSpotPricing has Karpenter read the spot price history.
func (d *Prices) UpdateSpotPricing(ctx context.Context) error {
	return d.update(ctx, d.Provider.UpdateSpotPricing, &d.spot)
}

func (d *Prices) update(ctx context.Context, run func(context.Context) error, at *time.Time) error {
	if err := run(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	*at = d.clock.Now()
	return nil
}

func (d *Prices) dates() (onDemand, spot time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.listed {
		return time.Time{}, d.spot
	}
	return d.onDemand, d.spot
}

// List is what was read of the region's prices and offerings.
func List(region string, offered *Recorder, prices *Prices) *pricelist.List {
	out := &pricelist.List{Region: region, OnDemand: map[string]float64{}, Spot: map[string]map[string]float64{}}
	zones, at := offered.last()
	out.Zones, out.ZonesAt = maps.Clone(zones), at
	out.OnDemandAt, out.SpotAt = prices.dates()
	for name, sold := range zones {
		kind := ec2types.InstanceType(name)
		if usd, ok := prices.OnDemandPrice(kind); ok && !out.OnDemandAt.IsZero() {
			out.OnDemand[name] = usd
		}
		for _, zone := range sold {
			usd, ok := prices.SpotPrice(kind, zone)
			if !ok || out.SpotAt.IsZero() {
				continue
			}
			if out.Spot[zone] == nil {
				out.Spot[zone] = map[string]float64{}
			}
			out.Spot[zone][name] = usd
		}
	}
	return out
}
