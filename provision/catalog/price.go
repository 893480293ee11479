package catalog

import (
	"fmt"
	"strings"
)

// homeRegion is the region whose on-demand prices the table holds.
const homeRegion = "us-east-1"

// Basis is how far a price can be trusted.
type Basis string

const (
	// HomeRegion is a published price of the requested region.
	HomeRegion Basis = "catalog"
	// OtherRegion is the published us-east-1 price standing in for the requested region's,
	// which is what the provisioning engine does as long as it has no live prices. The
	// true price is commonly up to a third higher.
	OtherRegion Basis = "other-region"
)

// LowestSpot is the least that a spot instance costs, as a part of its on-demand price: AWS
// states discounts of up to 90 %. The most is the on-demand price, which is the maximum price
// of a spot request that names none, as Karpenter's name none.
const LowestSpot = 0.1

// Price is the price of one instance for one hour, Linux, shared tenancy.
type Price struct {
	// USDPerHour is in US dollars, before tax and discounts.
	USDPerHour float64
	// Basis distinguishes a published price from a substitute.
	Basis Basis
	// AtMost is true for a spot instance whose price is not known: USDPerHour is then its
	// on-demand price, the price itself between [LowestSpot] of that and all of it.
	AtMost bool
}

// OnDemand returns the on-demand price of the named type. Prices of us-east-1 are
// those of the table; every other commercial region gets the same figure, marked
// [OtherRegion]. Regions of other partitions (China, GovCloud, isolated ones) have
// price lists of their own, China's not in dollars: they, and a text that is no region,
// are errors, as is a type that is not in the catalog or has no price in it.
func (c *Catalog) OnDemand(region, name string) (Price, error) {
	t, ok := c.Lookup(name)
	if !ok {
		return Price{}, fmt.Errorf("pricing instance type %q: not in the catalog of %s", name, c.priceDate)
	}
	if t.OnDemandUSD == 0 {
		return Price{}, fmt.Errorf("pricing instance type %q: no on-demand price of %s is published", name, homeRegion)
	}
	switch {
	case region == homeRegion:
		return Price{USDPerHour: t.OnDemandUSD, Basis: HomeRegion}, nil
	case commercialRegion(region):
		return Price{USDPerHour: t.OnDemandUSD, Basis: OtherRegion}, nil
	}
	return Price{}, fmt.Errorf("pricing instance type %q: %q is no region of the commercial partition, such as %s", name, region, homeRegion)
}

// commercialRegion reports whether the text is shaped like a region of the partition
// "aws": two letters that are not China's, a direction, a number.
func commercialRegion(region string) bool {
	parts := strings.Split(region, "-")
	if len(parts) != 3 || len(parts[0]) != 2 || parts[0] == "cn" {
		return false
	}
	letter := func(r rune) bool { return 'a' <= r && r <= 'z' }
	digit := func(r rune) bool { return '0' <= r && r <= '9' }
	return only(parts[0], letter) && only(parts[1], letter) && only(parts[2], digit)
}

func only(s string, allowed func(rune) bool) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r) })
}
