package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// homeRegion is the region whose on-demand prices the table holds.
const homeRegion = "us-east-1"

// Basis is how far a price can be trusted.
type Basis string

const (
	// Listed is a published price of the requested region.
	Listed Basis = "listed"
	// OtherRegion is the published us-east-1 price standing in for the requested region's,
	// which is what the provisioning engine does as long as it has no live prices. The
	// true price is commonly up to a third higher.
	OtherRegion Basis = "other-region"
	// Estimated comes from a model and from no price list.
	Estimated Basis = "estimated"
)

// Price is the price of one instance for one hour, Linux, shared tenancy.
type Price struct {
	// USDPerHour is in US dollars, before tax and discounts.
	USDPerHour float64
	// Basis distinguishes a published price from a substitute or an estimate.
	Basis Basis
}

// OnDemand returns the on-demand price of the named type. Prices of us-east-1 are
// listed; every other commercial region gets the same figure, marked
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
		return Price{USDPerHour: t.OnDemandUSD, Basis: Listed}, nil
	case commercialRegion(region):
		return Price{USDPerHour: t.OnDemandUSD, Basis: OtherRegion}, nil
	}
	return Price{}, fmt.Errorf("pricing instance type %q: %q is no region of the commercial partition, such as %s", name, region, homeRegion)
}

// SpotEstimate returns a made-up spot price in the given zone. Spot prices move
// and no list of them is published, so this is a model, meant for the sandbox and
// for rough sums, and marked [Estimated]:
//
//	on-demand price × base of the category × family factor × zone factor
//
// The base is what such capacity commonly trades at: 0.30 for g and gr, 0.35 for t,
// 0.45 for p, 0.38 for the rest. The factors are hashes of family and of family and
// zone, within ±10 % and ±5 %, so that zones differ, sizes of a family keep their
// order, and the same input has the same result for ever. The result is never above 0.6
// of on-demand; like EC2's, it has four decimals.
//
// A type without spot capacity is an error, as are the errors of
// [Catalog.OnDemand].
func (c *Catalog) SpotEstimate(zone Zone, name string) (Price, error) {
	onDemand, err := c.OnDemand(zone.Region, name)
	if err != nil {
		return Price{}, err
	}
	t, _ := c.Lookup(name)
	if !slices.Contains(t.UsageClasses, "spot") {
		return Price{}, fmt.Errorf("pricing instance type %q: EC2 offers no spot capacity of it", name)
	}
	fraction := spotBase(t.Family()) * (1 + 0.10*spread(t.Family())) * (1 + 0.05*spread(t.Family(), zone.Name))
	usd := math.Round(onDemand.USDPerHour*fraction*1e4) / 1e4
	return Price{USDPerHour: max(usd, 1e-4), Basis: Estimated}, nil
}

func spotBase(family string) float64 {
	switch family[0] {
	case 'g':
		return 0.30
	case 't':
		return 0.35
	case 'p':
		return 0.45
	}
	return 0.38
}

// spread maps text to a number in [-1, 1) that never changes. A cryptographic hash
// because zones differ in their last letter only, which FNV barely spreads.
func spread(texts ...string) float64 {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return float64(binary.BigEndian.Uint64(sum[:8])>>11)/(1<<52) - 1
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
