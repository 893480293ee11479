// Package pricing is the Price List service: the on-demand prices of instances.
// There are no other products. Start with Service.
package pricing

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
)

// Service is the price list of one account's region.
type Service struct {
	account   *api.Account
	offerings *offerings.Service
}

// New has the prices of what is sold.
func New(account *api.Account, sold *offerings.Service) *Service {
	return &Service{account: account, offerings: sold}
}

// Table is what the service can do here.
func (svc *Service) Table() api.Table {
	return api.Table{
		Operations:     map[string]api.Operation{"GetProducts": {Read: true, Run: svc.getProducts}},
		Authorizations: map[string]api.Authorization{"GetProducts": api.Anything("pricing:GetProducts")},
		Required:       map[string][]string{"GetProducts": {"ServiceCode", "Filters.#.Type", "Filters.#.Field", "Filters.#.Value"}},
	}
}

// productsInput is the input of GetProducts.
type productsInput struct {
	ServiceCode, FormatVersion, NextToken string
	MaxResults                            *int
	Filters                               []struct{ Type, Field, Value string }
}

// getProducts lists the on-demand prices of instances; there are no other
// products.
func (svc *Service) getProducts(in *api.Call) (any, error) {
	var input productsInput
	if err := in.Into(&input); err != nil {
		return nil, err
	}
	if input.ServiceCode != "AmazonEC2" {
		return nil, api.Refuse("InvalidParameterException", "The service code %q is not emulated, only AmazonEC2.", input.ServiceCode)
	}
	if input.FormatVersion != "" && input.FormatVersion != "aws_v1" {
		return nil, api.Refuse("InvalidParameterException", "The format version %q is not aws_v1.", input.FormatVersion)
	}
	most, err := in.Bound("MaxResults", input.MaxResults, 1, 100, 100)
	if err != nil {
		return nil, api.Refuse("InvalidParameterException", "MaxResults is not between 1 and 100.")
	}
	after, err := in.After(input.NextToken)
	if err != nil {
		return nil, api.Refuse("InvalidNextTokenException", "The token %q is not one that GetProducts gave.", input.NextToken)
	}
	response := map[string]any{"FormatVersion": "aws_v1"}
	products := []string{}
	for _, t := range svc.offerings.Types() { // sorted by name
		attributes := svc.productAttributes(t)
		desired, err := input.matches(attributes)
		if err != nil {
			return nil, err
		}
		if t.Name <= after || !desired || t.OnDemandUSD == 0 {
			continue
		}
		if len(products) == most {
			response["NextToken"] = in.Token(after)
			break
		}
		p, err := svc.product(t, attributes)
		if err != nil {
			return nil, err
		}
		products, after = append(products, p), t.Name
	}
	response["PriceList"] = products
	return response, nil
}

// matches applies the filters to a product; one that products do not have is an
// error.
func (input productsInput) matches(attributes map[string][]string) (bool, error) {
	keep := true
	for _, f := range input.Filters {
		have, known := attributes[f.Field]
		if f.Type != "TERM_MATCH" || !known {
			return false, api.Refuse("InvalidParameterException", "The filter %s of type %s is not emulated.", f.Field, f.Type)
		}
		keep = keep && slices.Contains(have, f.Value)
	}
	return keep, nil
}

// productAttributes are the searchable ones, first the value that is shown.
func (svc *Service) productAttributes(t catalog.InstanceType) map[string][]string {
	family, tenancy := "Compute Instance", "Shared"
	if t.BareMetal() {
		family, tenancy = "Compute Instance (bare metal)", "Dedicated"
	}
	return map[string][]string{
		"productFamily": {family}, "tenancy": {tenancy}, "instanceType": {t.Name}, "regionCode": {svc.account.Region},
		"serviceCode": {"AmazonEC2"}, "servicecode": {"AmazonEC2"}, "preInstalledSw": {"NA"}, "operatingSystem": {"Linux"},
		"capacitystatus": {"Used"}, "marketoption": {"OnDemand"}, "vcpu": {strconv.Itoa(t.VCPUs)},
	}
}

func (svc *Service) product(t catalog.InstanceType, attributes map[string][]string) (string, error) {
	dollars, err := svc.offerings.Price(t, catalog.Zone{}, offerings.OnDemand)
	if err != nil {
		return "", err
	}
	values := map[string]string{}
	for k, v := range attributes {
		if k != "productFamily" && k != "serviceCode" {
			values[k] = v[0]
		}
	}
	sku := fmt.Sprintf("%X", t.Name)
	out, err := json.Marshal(map[string]any{
		"product": map[string]any{"productFamily": attributes["productFamily"][0], "sku": sku, "attributes": values},
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
