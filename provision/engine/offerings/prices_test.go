package offerings_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	"github.com/google/go-cmp/cmp"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/poolwright/poolwright/provision/engine/offerings"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// priceList is a Price List API that has one price of each instance type, in one currency.
type priceList struct {
	currency string
	types    map[string]string
	err      error
}

func (p *priceList) GetProducts(context.Context, *pricing.GetProductsInput, ...func(*pricing.Options)) (*pricing.GetProductsOutput, error) {
	out := &pricing.GetProductsOutput{}
	for name, price := range p.types {
		out.PriceList = append(out.PriceList, fmt.Sprintf(`{"product":{"attributes":{"instanceType":%q}},"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"pricePerUnit":{%q:%q}}}}}}}`, name, p.currency, price))
	}
	return out, p.err
}

// history is an EC2 that has one spot price of each zone of an instance type.
type history struct {
	pages
	zones map[string]map[string]string
	err   error
}

func (h *history) DescribeSpotPriceHistory(context.Context, *ec2.DescribeSpotPriceHistoryInput, ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error) {
	out := &ec2.DescribeSpotPriceHistoryOutput{}
	for zone, types := range h.zones {
		for name, price := range types {
			out.SpotPriceHistory = append(out.SpotPriceHistory, ec2types.SpotPrice{
				AvailabilityZone: aws.String(zone), InstanceType: ec2types.InstanceType(name), SpotPrice: aws.String(price), Timestamp: aws.Time(time.Now()),
			})
		}
	}
	return out, h.err
}

var _ sdk.PricingAPI = (*priceList)(nil)

func TestOnlyPricesThatAWSReturnedAreListed(t *testing.T) {
	at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	// Karpenter's own table has a price of g5.xlarge in each of the regions.
	returned := map[string]string{"g4dn.xlarge": "0.7", "g4dn.metal": "9.5", "t3.small": "0.0000"}
	spot := map[string]map[string]string{"us-east-1a": {"g4dn.xlarge": "0.3"}, "us-east-1b": {"g4dn.xlarge": "0.2"}}
	for name, c := range map[string]struct {
		region, currency string
		isolated         bool
		offered          []string // none where offerings are not read
		want             pricelist.List
	}{
		"a type that is offered and that the response lacks has no price": {region: "us-east-1", currency: "USD", offered: []string{"g4dn.xlarge", "g5.xlarge", "t3.small"}, want: pricelist.List{
			OnDemand: map[string]float64{"g4dn.xlarge": 0.7}, OnDemandAt: at,
			Spot: map[string]map[string]float64{"us-east-1a": {"g4dn.xlarge": 0.3}}, SpotAt: at,
			Zones: map[string][]string{"g4dn.xlarge": {"us-east-1a"}, "g5.xlarge": {"us-east-1a"}, "t3.small": {"us-east-1a"}}, ZonesAt: at,
		}},
		"without offerings all that was returned has a price": {region: "us-east-1", currency: "USD", want: pricelist.List{
			OnDemand: map[string]float64{"g4dn.xlarge": 0.7, "g4dn.metal": 9.5}, OnDemandAt: at,
			Spot: map[string]map[string]float64{"us-east-1a": {"g4dn.xlarge": 0.3}, "us-east-1b": {"g4dn.xlarge": 0.2}}, SpotAt: at,
		}},
		"in an isolated VPC the price list is not read": {region: "us-east-1", currency: "USD", isolated: true, want: pricelist.List{
			Spot: map[string]map[string]float64{"us-east-1a": {"g4dn.xlarge": 0.3}, "us-east-1b": {"g4dn.xlarge": 0.2}}, SpotAt: at,
		}},
		"prices in China are not in US dollars": {region: "cn-north-1", currency: "CNY", want: pricelist.List{Spot: map[string]map[string]float64{}}},
		"GovCloud has no price list": {region: "us-gov-west-1", currency: "USD", want: pricelist.List{
			Spot: map[string]map[string]float64{"us-east-1a": {"g4dn.xlarge": 0.3}, "us-east-1b": {"g4dn.xlarge": 0.2}}, SpotAt: at,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakeClock(at)
			api := &history{pages: pages{left: c.offered}, zones: spot}
			r := &offerings.Recorder{EC2API: api, Clock: clock}
			if len(c.offered) > 0 {
				if err := read(t, r); err != nil {
					t.Fatal(err)
				}
			}
			p := offerings.NewPrices(&priceList{currency: c.currency, types: returned}, api, clock, c.region, c.isolated)
			if err := p.UpdateOnDemandPricing(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := p.UpdateSpotPricing(t.Context()); err != nil {
				t.Fatal(err)
			}
			c.want.Region = c.region
			if diff := cmp.Diff(&c.want, offerings.List(c.region, r, p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUpdateThatFailsLeavesTheLastPrices(t *testing.T) {
	at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	clock := testingclock.NewFakeClock(at)
	listed := &priceList{currency: "USD", types: map[string]string{"g4dn.xlarge": "0.7"}}
	api := &history{zones: map[string]map[string]string{"us-east-1a": {"g4dn.xlarge": "0.3"}}}
	p := offerings.NewPrices(listed, api, clock, "us-east-1", false)
	update := func() (onDemand, spot error) {
		return p.UpdateOnDemandPricing(t.Context()), p.UpdateSpotPricing(t.Context())
	}
	if onDemand, spot := update(); onDemand != nil || spot != nil {
		t.Fatal(onDemand, spot)
	}
	before := offerings.List("us-east-1", &offerings.Recorder{}, p)
	clock.Step(time.Hour)
	listed.types, listed.err = map[string]string{"g5.xlarge": "1.1"}, errThrottled
	api.zones, api.err = map[string]map[string]string{"us-east-1b": {"g5.xlarge": "0.5"}}, errThrottled
	if onDemand, spot := update(); onDemand == nil || spot == nil {
		t.Fatal(onDemand, spot)
	}
	if diff := cmp.Diff(before, offerings.List("us-east-1", &offerings.Recorder{}, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What the price list has no more is gone, though Karpenter keeps its price.
	listed.err, api.err = nil, nil
	if onDemand, spot := update(); onDemand != nil || spot != nil {
		t.Fatal(onDemand, spot)
	}
	want := &pricelist.List{
		Region: "us-east-1", OnDemand: map[string]float64{"g5.xlarge": 1.1}, OnDemandAt: clock.Now(),
		Spot: map[string]map[string]float64{"us-east-1b": {"g5.xlarge": 0.5}}, SpotAt: clock.Now(),
	}
	if diff := cmp.Diff(want, offerings.List("us-east-1", &offerings.Recorder{}, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
