package offerings

import (
	"sigs.k8s.io/karpenter/pkg/cloudprovider"

	"github.com/poolwright/poolwright/provision/catalog"
)

// Offer is something a pool can buy, at the catalog's price.
type Offer struct {
	// InstanceType, Zone and CapacityType are those of a node's labels.
	InstanceType, Zone, CapacityType string
	// USD is the price of an hour, Basis where it is from.
	USD   float64
	Basis catalog.Basis
	// Type is nil where the offer is a node that there is.
	Type *cloudprovider.InstanceType
}

// priced gives offerings the catalog's prices: an overlay's price is what Karpenter
// ranks by, not what is paid.
func (m *Catalog) priced(it *cloudprovider.InstanceType, sold cloudprovider.Offerings) []Offer {
	var out []Offer
	for _, of := range sold {
		o := Offer{InstanceType: it.Name, Zone: of.Zone(), CapacityType: of.CapacityType(), Type: it}
		if price, err := m.Price(o.InstanceType, o.Zone, o.CapacityType); err == nil {
			o.USD, o.Basis = price.USDPerHour, price.Basis
			out = append(out, o)
		}
	}
	return out
}
