package offerings

import (
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/catalog"
)

// Offering is something a pool can buy, at the catalog's price.
type Offering struct {
	// InstanceType, Zone and CapacityType are those of a node's labels.
	InstanceType, Zone, CapacityType string
	// Price is that of an hour.
	Price catalog.Price
	// Type is nil where the offer is a node that there is.
	Type *cloudprovider.InstanceType
}

// SameAs reports whether both are one type, zone and capacity type.
func (o *Offering) SameAs(other *Offering) bool {
	return o != nil && o.InstanceType == other.InstanceType && o.Zone == other.Zone && o.CapacityType == other.CapacityType
}

// Precedes reports whether a pool that can buy both buys o, as far as their prices determine
// that. A spot instance costs no more than the same on demand, also where its price is not known.
func (o *Offering) Precedes(other *Offering) bool {
	if other == nil || o.Price.USDPerHour != other.Price.USDPerHour {
		return other == nil || o.Price.USDPerHour < other.Price.USDPerHour
	}
	return o.Price.AtMost && !other.Price.AtMost
}

// priced gives offerings the catalog's prices: an overlay's price is what Karpenter
// ranks by, not what is paid.
func (m *Catalog) priced(it *cloudprovider.InstanceType, sold cloudprovider.Offerings) []Offering {
	var out []Offering
	for _, of := range sold {
		o := Offering{InstanceType: it.Name, Zone: of.Zone(), CapacityType: of.CapacityType(), Type: it}
		if price, err := m.Price(o.InstanceType, o.Zone, o.CapacityType); err == nil {
			o.Price = price
			out = append(out, o)
		}
	}
	return out
}
