package aws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func pricingOperations() map[string]operation {
	return map[string]operation{"GetProducts": {read: true, run: getProducts}}
}

// productsInput is what GetProducts is asked.
type productsInput struct {
	ServiceCode, FormatVersion, NextToken string
	MaxResults                            *int
	Filters                               []struct{ Type, Field, Value string }
}

// getProducts lists the on-demand prices of instances; there are no other
// products.
func getProducts(in *call) (any, error) {
	var ask productsInput
	if err := in.Into(&ask); err != nil {
		return nil, err
	}
	if ask.ServiceCode != "AmazonEC2" {
		return nil, api.Refuse("InvalidParameterException", "The service code %q is not played, only AmazonEC2.", ask.ServiceCode)
	}
	most, err := in.Bound("MaxResults", ask.MaxResults, 1, 100, 100)
	if err != nil {
		return nil, err
	}
	after, err := in.After(ask.NextToken)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"FormatVersion": "aws_v1"}
	products := []string{}
	for _, t := range in.cloud.offers.types { // sorted by name
		attributes := in.productAttributes(t)
		wanted, err := ask.wants(attributes)
		if err != nil {
			return nil, err
		}
		if t.Name <= after || !wanted || t.OnDemandUSD == 0 {
			continue
		}
		if len(products) == most {
			answer["NextToken"] = in.Token(after)
			break
		}
		p, err := in.product(t, attributes)
		if err != nil {
			return nil, err
		}
		products, after = append(products, p), t.Name
	}
	answer["PriceList"] = products
	return answer, nil
}

// wants applies the filters to a product; one that products do not have is an
// error.
func (ask productsInput) wants(attributes map[string][]string) (bool, error) {
	keep := true
	for _, f := range ask.Filters {
		have, known := attributes[f.Field]
		if f.Type != "TERM_MATCH" || !known {
			return false, api.Refuse("InvalidParameterException", "The filter %s of type %s is not played.", f.Field, f.Type)
		}
		keep = keep && slices.Contains(have, f.Value)
	}
	return keep, nil
}

// productAttributes are the searchable ones, first the value that is shown.
func (in *call) productAttributes(t catalog.InstanceType) map[string][]string {
	family, tenancy := "Compute Instance", "Shared"
	if t.BareMetal() {
		family, tenancy = "Compute Instance (bare metal)", "Dedicated"
	}
	return map[string][]string{
		"productFamily": {family}, "tenancy": {tenancy}, "instanceType": {t.Name}, "regionCode": {in.cloud.account.Region},
		"serviceCode": {"AmazonEC2"}, "servicecode": {"AmazonEC2"}, "preInstalledSw": {"NA"}, "operatingSystem": {"Linux"},
		"capacitystatus": {"Used"}, "marketoption": {"OnDemand"}, "vcpu": {strconv.Itoa(t.VCPUs)},
	}
}

func (in *call) product(t catalog.InstanceType, attributes map[string][]string) (string, error) {
	dollars, err := in.cloud.offers.price(t, catalog.Zone{}, onDemand)
	if err != nil {
		return "", err
	}
	shown := map[string]string{}
	for k, v := range attributes {
		if k != "productFamily" && k != "serviceCode" {
			shown[k] = v[0]
		}
	}
	sku := fmt.Sprintf("%X", t.Name)
	out, err := json.Marshal(map[string]any{
		"product": map[string]any{"productFamily": attributes["productFamily"][0], "sku": sku, "attributes": shown},
		"terms": map[string]any{"OnDemand": map[string]any{sku + ".T": map[string]any{
			"sku": sku,
			"priceDimensions": map[string]any{sku + ".T.D": map[string]any{
				"unit": "Hrs", "pricePerUnit": map[string]string{"USD": fmt.Sprintf("%.10f", dollars)},
			}},
		}}},
		"serviceCode": "AmazonEC2",
	})
	return string(out), err
}
