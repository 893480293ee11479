package pricing

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
)

func newService(t *testing.T, region string) *Service {
	t.Helper()
	account := &api.Account{ID: "1", Region: region}
	sold, err := offerings.New(account, nil)
	if err != nil {
		t.Fatal(err)
	}
	return New(account, sold)
}

// product is one of the price list, as far as Karpenter and these tests read it.
type product struct {
	Product struct {
		ProductFamily, Sku string
		Attributes         map[string]string
	}
	Terms struct {
		OnDemand map[string]struct {
			PriceDimensions map[string]struct {
				Unit         string
				PricePerUnit map[string]string
			}
		}
	}
}

// usd is the only price of a product.
func (p product) usd(t *testing.T) float64 {
	t.Helper()
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			price, err := strconv.ParseFloat(d.PricePerUnit["USD"], 64)
			if err != nil || d.Unit != "Hrs" || len(term.PriceDimensions) != 1 || len(p.Terms.OnDemand) != 1 {
				t.Fatalf("%s has the terms %+v (%v)", p.Product.Attributes["instanceType"], p.Terms, err)
			}
			return price
		}
	}
	t.Fatalf("%s has no price", p.Product.Attributes["instanceType"])
	return 0
}

// get requests products by a body; code is that of the error, "" without one.
func get(t *testing.T, svc *Service, body string) (products []product, next, code string) {
	t.Helper()
	out, err := svc.Table().Operations["GetProducts"].Run(&api.Call{Op: "GetProducts", Body: []byte(body)})
	if failed, is := errors.AsType[*api.Error](err); is {
		return nil, "", failed.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	response, _ := out.(map[string]any)
	list, _ := response["PriceList"].([]string)
	for _, text := range list {
		var p product
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		products = append(products, p)
	}
	next, _ = response["NextToken"].(string)
	return products, next, ""
}

// where writes filters from pairs of a field and a value.
func where(pairs ...string) string {
	filters := []map[string]string{}
	for n := 0; n < len(pairs); n += 2 {
		filters = append(filters, map[string]string{"Type": "TERM_MATCH", "Field": pairs[n], "Value": pairs[n+1]})
	}
	text, _ := json.Marshal(map[string]any{"ServiceCode": "AmazonEC2", "Filters": filters})
	return string(text)
}

func TestProductsAreFiltered(t *testing.T) {
	svc := newService(t, "us-east-1")
	for name, tt := range map[string]struct {
		body string
		want []string // instance types; nil wants several
		none bool
	}{
		"by a type":                            {where("instanceType", "g5.xlarge"), []string{"g5.xlarge"}, false},
		"by a type in capitals, which is none": {where("instanceType", "G5.XLARGE"), nil, true},
		"by a type that does not exist":        {where("instanceType", "g5.none"), nil, true},
		"by all filters of a request": {where("regionCode", "us-east-1", "serviceCode", "AmazonEC2", "preInstalledSw", "NA", "operatingSystem", "Linux",
			"capacitystatus", "Used", "marketoption", "OnDemand", "tenancy", "Shared", "productFamily", "Compute Instance", "instanceType", "p5.48xlarge"), []string{"p5.48xlarge"}, false},
		"by metal":                           {where("productFamily", "Compute Instance (bare metal)", "tenancy", "Dedicated", "instanceType", "g5g.metal"), []string{"g5g.metal"}, false},
		"by metal that is shared":            {where("tenancy", "Shared", "instanceType", "g5g.metal"), nil, true},
		"by another region":                  {where("regionCode", "eu-west-1"), nil, true},
		"by another system":                  {where("operatingSystem", "Windows"), nil, true},
		"by two filters that exclude others": {where("instanceType", "g5.xlarge", "instanceType", "g5.2xlarge"), nil, true},
		"by numbers of CPUs":                 {where("vcpu", "192", "instanceType", "p5.48xlarge"), []string{"p5.48xlarge"}, false},
		"by nothing":                         {where(), nil, false},
	} {
		products, _, code := get(t, svc, tt.body)
		var got []string
		for _, p := range products {
			got = append(got, p.Product.Attributes["instanceType"])
		}
		if code != "" || tt.want != nil && !slices.Equal(got, tt.want) || (len(got) == 0) != tt.none {
			t.Errorf("%s: %q (%s)", name, got, code)
		}
	}
}

func TestTheListOfProductsRefuses(t *testing.T) {
	svc := newService(t, "us-east-1")
	for name, tt := range map[string]struct{ body, code string }{
		"another service":                         {`{"ServiceCode":"AmazonS3"}`, "InvalidParameterException"},
		"no service":                              {`{}`, "InvalidParameterException"},
		"a field that products do not have":       {where("colour", "red"), "InvalidParameterException"},
		"a filter of a type that is not emulated": {`{"ServiceCode":"AmazonEC2","Filters":[{"Type":"CONTAINS","Field":"instanceType","Value":"g5"}]}`, "InvalidParameterException"},
		"a page of nothing":                       {`{"ServiceCode":"AmazonEC2","MaxResults":0}`, "InvalidParameterException"},
		"a page over a hundred":                   {`{"ServiceCode":"AmazonEC2","MaxResults":101}`, "InvalidParameterException"},
		"a format that there is not":              {`{"ServiceCode":"AmazonEC2","FormatVersion":"aws_v2"}`, "InvalidParameterException"},
		"a token that no page gave":               {`{"ServiceCode":"AmazonEC2","NextToken":"x"}`, "InvalidNextTokenException"},
		"a parameter that there is not":           {`{"ServiceCode":"AmazonEC2","Colour":"red"}`, "ValidationException"},
		"not the only format":                     {`{"ServiceCode":"AmazonEC2","FormatVersion":"aws_v1"}`, ""},
		"not a page of a hundred":                 {`{"ServiceCode":"AmazonEC2","MaxResults":100}`, ""},
	} {
		if _, _, code := get(t, svc, tt.body); code != tt.code {
			t.Errorf("%s: %q, want %q", name, code, tt.code)
		}
	}
}

func TestThePagesOfProductsHaveEachOnce(t *testing.T) {
	svc := newService(t, "us-east-1")
	var all []string
	token, pages := "", 0
	for ; pages == 0 || token != ""; pages++ {
		body := `{"ServiceCode":"AmazonEC2"}`
		if token != "" {
			body = fmt.Sprintf(`{"ServiceCode":"AmazonEC2","NextToken":%q}`, token)
		}
		products, next, code := get(t, svc, body)
		if code != "" || len(products) > 100 || next != "" && len(products) != 100 {
			t.Fatalf("page %d has %d products and the token %q (%s)", pages, len(products), next, code)
		}
		for _, p := range products {
			all = append(all, p.Product.Attributes["instanceType"])
		}
		token = next
	}
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || pages < 2 {
		t.Errorf("%d pages with %d products: %q", pages, len(all), all)
	}
	_, next, _ := get(t, svc, `{"ServiceCode":"AmazonEC2","MaxResults":1}`)
	second, _, _ := get(t, svc, fmt.Sprintf(`{"ServiceCode":"AmazonEC2","MaxResults":1,"NextToken":%q}`, next))
	if len(second) != 1 || second[0].Product.Attributes["instanceType"] != all[1] {
		t.Errorf("the second page of one is %+v, want %s", second, all[1])
	}
	some, last, _ := get(t, svc, where("instanceType", "g5.xlarge"))
	if len(some) != 1 || last != "" {
		t.Errorf("%d products and the token %q", len(some), last)
	}
}

func TestAProductIsOfTheRegion(t *testing.T) {
	skus := map[string]bool{}
	for _, region := range []string{"us-east-1", "eu-central-1"} {
		svc := newService(t, region)
		for name, usd := range map[string]float64{"g5.xlarge": 1.006, "m5.large": 0.096} { // AWS's list prices of us-east-1, which the catalogue has for every region
			products, _, _ := get(t, svc, where("instanceType", name))
			if len(products) != 1 || products[0].Product.Attributes["regionCode"] != region || products[0].Product.ProductFamily != "Compute Instance" {
				t.Fatalf("%s in %s: %+v", name, region, products)
			}
			if got := products[0].usd(t); got != usd {
				t.Errorf("%s costs %g in %s", name, got, region)
			}
			skus[products[0].Product.Sku] = true
		}
	}
	if len(skus) != 2 {
		t.Errorf("keys of products %v", skus)
	}
}
