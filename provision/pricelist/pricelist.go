// Package pricelist is what AWS returned of one region's instance types: the zones that offer
// them, what an hour of them costs, and which of them EC2 refused to launch.
//
// It makes no request, and has no price that AWS did not return: what is not in a List is not
// known, which is never zero. Start reading at [List].
package pricelist

import (
	"slices"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
)

// MaxAge is how old a price that was read may be. What is older is approximate.
const MaxAge = 7 * 24 * time.Hour

// maxSkew is how far clocks may differ.
const maxSkew = 24 * time.Hour

// RefusalAge is how long a refusal counts. Karpenter launches nothing of the offering for three minutes, and is mostly refused again after them.
const RefusalAge = 20 * time.Minute

// Refusal is an offering of which EC2 refused to launch an instance.
type Refusal struct {
	// InstanceType, Zone and CapacityType, which is "on-demand" or "spot", are those of the offering.
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	// Code is that of EC2's error, "InsufficientInstanceCapacity", and At when it returned the last one.
	Code string    `json:"code"`
	At   time.Time `json:"at"`
}

const (
	// OnDemand is the basis of a price that the Price List API returned for the region.
	OnDemand catalog.Basis = "price-list"
	// Spot is the basis of a price that DescribeSpotPriceHistory returned for the zone.
	Spot catalog.Basis = "spot-price-history"
)

// List is what AWS offers in one region. A nil List is one of which nothing was read.
type List struct {
	// Region is the region's name, "eu-west-1".
	Region string `json:"region"`
	// OnDemand has the US dollars for an hour on demand, Linux, shared tenancy, by instance
	// type. OnDemandAt is when they were read; zero where they were not, as in an isolated VPC, in GovCloud, and in China,
	// where AWS has no prices in US dollars.
	OnDemand   map[string]float64 `json:"onDemand,omitempty"`
	OnDemandAt time.Time          `json:"onDemandAt,omitzero"`
	// Spot has the same for spot instances, by zone and instance type.
	Spot   map[string]map[string]float64 `json:"spot,omitempty"`
	SpotAt time.Time                     `json:"spotAt,omitzero"`
	// Zones has the zones that offer an instance type, sorted, by instance type.
	Zones   map[string][]string `json:"zones,omitempty"`
	ZonesAt time.Time           `json:"zonesAt,omitzero"`
	// Refused are the offerings that EC2 refused within [RefusalAge] before the list was made, sorted. Only an engine has any.
	Refused []Refusal `json:"refused,omitempty"`
}

// Or is the list, with what of it was not read from the other one; one of another region is left out. Neither
// is changed.
func (l *List) Or(other *List) *List {
	switch {
	case l == nil:
		return other
	case other == nil || other.Region != l.Region:
		return l
	}
	out := *l
	if out.OnDemandAt.IsZero() {
		out.OnDemand, out.OnDemandAt = other.OnDemand, other.OnDemandAt
	}
	if out.SpotAt.IsZero() {
		out.Spot, out.SpotAt = other.Spot, other.SpotAt
	}
	if out.ZonesAt.IsZero() {
		out.Zones, out.ZonesAt = other.Zones, other.ZonesAt
	}
	return &out
}

// Complete reports whether prices of both kinds and offerings were read.
func (l *List) Complete() bool { return len(l.Missing()) == 0 }

// IsEmpty reports whether none of them were.
func (l *List) IsEmpty() bool {
	return l == nil || l.OnDemandAt.IsZero() && l.SpotAt.IsZero() && l.ZonesAt.IsZero()
}

// Missing names what was not read.
func (l *List) Missing() []string {
	if l == nil {
		l = &List{}
	}
	var out []string
	for _, part := range []struct {
		name string
		at   time.Time
	}{{"on-demand prices", l.OnDemandAt}, {"spot prices", l.SpotAt}, {"offerings", l.ZonesAt}} {
		if part.at.IsZero() {
			out = append(out, part.name)
		}
	}
	return out
}

// HasOffering reports whether the zone offers the instance type. Where it was not read which do, all
// are taken to.
func (l *List) HasOffering(instanceType, zone string) bool {
	return l == nil || l.ZonesAt.IsZero() || slices.Contains(l.Zones[instanceType], zone)
}

// OnDemandPrice is the price of the instance type. Known is false where prices were not read;
// where they were, a price of 0 means that AWS has none.
func (l *List) OnDemandPrice(instanceType string) (price catalog.Price, known bool) {
	if l == nil || l.OnDemandAt.IsZero() {
		return catalog.Price{}, false
	}
	return catalog.Price{USDPerHour: l.OnDemand[instanceType], Basis: OnDemand}, true
}

// SpotPrice is the price of the instance type as a spot instance in the zone, as OnDemandPrice.
func (l *List) SpotPrice(instanceType, zone string) (price catalog.Price, known bool) {
	if l == nil || l.SpotAt.IsZero() {
		return catalog.Price{}, false
	}
	return catalog.Price{USDPerHour: l.Spot[zone][instanceType], Basis: Spot}, true
}

// IsOutdated reports whether the prices of a basis were read longer than [MaxAge] before the time, or have a date of more
// than a day after it, by which their age is not known; false for another basis.
func (l *List) IsOutdated(basis catalog.Basis, at time.Time) bool {
	read := at
	switch {
	case l == nil:
	case basis == OnDemand:
		read = l.OnDemandAt
	case basis == Spot:
		read = l.SpotAt
	}
	return at.Sub(read) > MaxAge || read.Sub(at) > maxSkew
}

// Date is the day on which the prices of a basis were read, as YYYY-MM-DD; empty for another
// basis.
func (l *List) Date(basis catalog.Basis) string {
	switch {
	case l == nil:
		return ""
	case basis == OnDemand:
		return l.OnDemandAt.UTC().Format(time.DateOnly)
	case basis == Spot:
		return l.SpotAt.UTC().Format(time.DateOnly)
	}
	return ""
}
