package provision

import (
	"fmt"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// UnknownPrice is the basis of a price that is not known.
const UnknownPrice = "unknown"

// Price is where prices come from.
type Price struct {
	// CapacityType is "on-demand" or "spot".
	CapacityType string `json:"capacityType"`
	// Basis is "price-list" or "spot-price-history" for what AWS returned for the region, or the
	// catalog's: "catalog" or "other-region". It is [UnknownPrice] for spot instances of which only the
	// on-demand price is known.
	Basis string `json:"basis"`
	// Date is the day on which the prices were read, as YYYY-MM-DD; empty where they are not known.
	Date string `json:"date,omitempty"`
	// Outdated is true where AWS returned the prices more than seven days ago.
	Outdated bool `json:"outdated,omitempty"`
}

// Source is where the prices come from, for people: "On-demand: AWS's price list of the region, 2026-11-20". What is none of the
// fixed texts is as show has it.
func (p Price) Source(show func(string) string) string {
	capacity := map[string]string{"on-demand": "On-demand", "spot": "Spot"}[p.CapacityType]
	if capacity == "" {
		capacity = show(p.CapacityType)
	}
	if p.Basis == UnknownPrice {
		return capacity + ": unknown, from 10 to 100 % of on-demand"
	}
	basis := map[catalog.Basis]string{
		catalog.HomeRegion:  "the shipped catalog (≈) of the region",
		catalog.OtherRegion: "the shipped catalog (≈) of us-east-1, since the region's prices are unknown",
		pricelist.OnDemand:  "AWS's price list of the region",
		pricelist.Spot:      "EC2's spot price history",
	}[catalog.Basis(p.Basis)]
	if basis == "" {
		basis = show(p.Basis)
	}
	if p.Outdated {
		basis += fmt.Sprintf(" (≈), older than %d days", pricelist.MaxAge/(24*time.Hour))
	}
	return fmt.Sprintf("%s: %s, %s", capacity, basis, show(p.Date))
}

// PriceNote is the sentences about prices of instances that come from the sources.
func PriceNote(sources []string) string {
	return "Instance prices are before tax and ignore savings plans and reservations. " + strings.Join(sources, ". ") + "."
}
