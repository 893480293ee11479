package offerings

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awspricing "github.com/aws/aws-sdk-go-v2/service/pricing"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/aws/karpenter-provider-aws/pkg/providers/pricing"
	"k8s.io/utils/clock"
)

// Prices are Karpenter's with what of them AWS returned, and when: Karpenter also has a table of its own, whose price
// stays for each instance type that a response of AWS lacks, and takes the on-demand price for that of a spot instance until
// it has read one.
type Prices struct {
	pricing.Provider
	clock clock.Clock
	// isListed is false where Karpenter never reads the on-demand prices, isDollars where AWS returns another currency.
	isListed, isDollars bool

	mu             sync.Mutex
	returned       prices // by the responses of an update that has not ended
	onDemand, spot dated
}

// prices are US dollars for an hour, by zone and instance type. Those on demand have no zone.
type prices map[string]map[string]float64

// dated are the prices of an update that ended without an error, which are never changed, and when.
type dated struct {
	prices prices
	at     time.Time
}

// add adds an instance type, whose price is set once the update has ended.
func (p prices) add(zone, instanceType string) {
	if p[zone] == nil {
		p[zone] = map[string]float64{}
	}
	p[zone][instanceType] = 0
}

// clone is a copy that the receiver may change.
func (p prices) clone() map[string]map[string]float64 {
	out := make(map[string]map[string]float64, len(p))
	for zone, of := range p {
		out[zone] = maps.Clone(of)
	}
	return out
}

// NewPrices are the prices of a region, of which nothing is read yet. Isolated is Karpenter's option of that name.
func NewPrices(api sdk.PricingAPI, spot sdk.EC2API, clk clock.Clock, region string, isolated bool) *Prices {
	out := &Prices{
		clock: clk, isListed: !isolated && !strings.HasPrefix(region, "us-gov"), isDollars: !strings.HasPrefix(region, "cn-"),
		returned: prices{},
	}
	out.Provider = pricing.NewDefaultProvider(products{PricingAPI: api, into: out}, spotHistory{EC2API: spot, into: out}, region, isolated)
	return out
}

// UpdateOnDemandPricing has Karpenter read the price list.
func (p *Prices) UpdateOnDemandPricing(ctx context.Context) error {
	return p.update(ctx, p.Provider.UpdateOnDemandPricing, &p.onDemand, func(zone string) bool { return zone == "" },
		func(_, name string) (float64, bool) { return p.OnDemandPrice(ec2types.InstanceType(name)) })
}

// UpdateSpotPricing has Karpenter read the spot price history.
func (p *Prices) UpdateSpotPricing(ctx context.Context) error {
	return p.update(ctx, p.Provider.UpdateSpotPricing, &p.spot, func(zone string) bool { return zone != "" },
		func(zone, name string) (float64, bool) { return p.SpotPrice(ec2types.InstanceType(name), zone) })
}

// update runs an update, and keeps the prices of what AWS returned meanwhile for the zones that it is of.
func (p *Prices) update(ctx context.Context, run func(context.Context) error, into *dated, of func(zone string) bool, price func(zone, name string) (float64, bool)) error {
	p.mu.Lock()
	maps.DeleteFunc(p.returned, func(zone string, _ map[string]float64) bool { return of(zone) })
	p.mu.Unlock()
	if err := run(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := dated{prices: prices{}, at: p.clock.Now()}
	for zone, names := range p.returned {
		if !of(zone) {
			continue
		}
		out.prices[zone] = names
		for name := range names {
			if usd, known := price(zone, name); known && usd > 0 {
				names[name] = usd
			} else {
				delete(names, name)
			}
		}
	}
	maps.DeleteFunc(p.returned, func(zone string, _ map[string]float64) bool { return of(zone) })
	*into = out
	return nil
}

// last are the prices of the last updates; those that are not read, or not in US dollars, are empty and have no date.
func (p *Prices) last() (onDemand, spot dated) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.isDollars:
		return dated{}, dated{}
	case !p.isListed:
		return dated{}, p.spot
	}
	return p.onDemand, p.spot
}

// products records which instance types the price list has.
type products struct {
	sdk.PricingAPI
	into *Prices
}

// product is what is read of an entry of the price list.
type product struct {
	Product struct{ Attributes struct{ InstanceType string } }
	Terms   struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct{ PricePerUnit map[string]string }
		}
	}
}

// isPriced reports whether the entry has a price in US dollars.
func (p product) isPriced() bool {
	for _, term := range p.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			if usd, err := strconv.ParseFloat(dimension.PricePerUnit["USD"], 64); err == nil && usd > 0 {
				return true
			}
		}
	}
	return false
}

// GetProducts makes the request and records its response.
func (r products) GetProducts(ctx context.Context, in *awspricing.GetProductsInput, o ...func(*awspricing.Options)) (*awspricing.GetProductsOutput, error) {
	out, err := r.PricingAPI.GetProducts(ctx, in, o...)
	if err != nil {
		return out, err
	}
	r.into.mu.Lock()
	defer r.into.mu.Unlock()
	for _, entry := range out.PriceList {
		var p product
		// Karpenter logs what it cannot read.
		if json.Unmarshal([]byte(entry), &p) == nil && p.isPriced() {
			r.into.returned.add("", p.Product.Attributes.InstanceType)
		}
	}
	return out, nil
}

// spotHistory records of which instance types and zones the spot price history has prices.
type spotHistory struct {
	sdk.EC2API
	into *Prices
}

// DescribeSpotPriceHistory makes the request and records its response.
func (r spotHistory) DescribeSpotPriceHistory(ctx context.Context, in *ec2.DescribeSpotPriceHistoryInput, o ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	out, err := r.EC2API.DescribeSpotPriceHistory(ctx, in, o...)
	if err != nil {
		return out, err
	}
	r.into.mu.Lock()
	defer r.into.mu.Unlock()
	for _, entry := range out.SpotPriceHistory {
		if zone := aws.ToString(entry.AvailabilityZone); zone != "" {
			r.into.returned.add(zone, string(entry.InstanceType))
		}
	}
	return out, nil
}
