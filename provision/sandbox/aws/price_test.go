package aws_test

import (
	"encoding/json"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

func TestAPriceThatChangedIsListedFromThenOn(t *testing.T) {
	w := newFixture(t, func(c *sandboxaws.Config) { c.NotOffered = map[string][]string{"g5.xlarge": {"us-east-1c"}} })
	ok(t, w.cloud.SetPrice("g5.xlarge", "", 1.5))
	ok(t, w.cloud.SetPrice("g5.xlarge", "us-east-1b", 0.25))
	listed, err := w.pricing.GetProducts(t.Context(), &pricing.GetProductsInput{ServiceCode: sdk.String("AmazonEC2"), Filters: []pricingtypes.Filter{
		{Type: pricingtypes.FilterTypeTermMatch, Field: sdk.String("instanceType"), Value: sdk.String("g5.xlarge")}}})
	ok(t, err)
	var product struct {
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct{ PricePerUnit map[string]string }
			}
		}
	}
	ok(t, json.Unmarshal([]byte(listed.PriceList[0]), &product))
	for _, term := range product.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			if got := dimension.PricePerUnit["USD"]; got != "1.5000000000" {
				t.Errorf("the price list has %s", got)
			}
		}
	}
	history, err := w.ec2.DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{
		InstanceTypes: []ec2types.InstanceType{"g5.xlarge"}, ProductDescriptions: []string{"Linux/UNIX"}})
	ok(t, err)
	prices := map[string]string{}
	for _, price := range history.SpotPriceHistory {
		prices[*price.AvailabilityZone] = *price.SpotPrice
	}
	if prices["us-east-1b"] != "0.250000" || prices["us-east-1a"] == "0.250000" || prices["us-east-1a"] == "" || len(prices) != 2 {
		t.Errorf("the spot price history has %v", prices)
	}
	for name, err := range map[string]error{
		"an unknown type": w.cloud.SetPrice("g99.xlarge", "", 1), "an unknown zone": w.cloud.SetPrice("g5.xlarge", "us-west-2a", 1),
		"no price": w.cloud.SetPrice("g5.xlarge", "", 0),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
