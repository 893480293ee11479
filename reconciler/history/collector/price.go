package collector

import (
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler/history"
)

// price is what an hour of the instance costs: the price that AWS returned, else that of the catalog; nil where neither has one.
// Reserved capacity is paid for at the price on demand.
func (c *Collector) price(region string, of history.NodeClaim) (*float64, history.PriceBasis) {
	if of.InstanceType == "" {
		return nil, ""
	}
	var list *pricelist.List
	if c.cfg.Offerings != nil {
		list = c.cfg.Offerings()
	}
	spot := of.CapacityType == karpv1.CapacityTypeSpot
	if spot {
		if price, known := list.SpotPrice(of.InstanceType, of.Zone); known && price.USDPerHour > 0 {
			return &price.USDPerHour, history.PriceSpotHistory
		}
	}
	basis := history.PriceList
	price, known := list.OnDemandPrice(of.InstanceType)
	if !known || price.USDPerHour == 0 {
		var err error
		if price, err = c.types.OnDemand(region, of.InstanceType); err != nil {
			return nil, ""
		}
		basis = history.PriceCatalog
		if price.Basis == catalog.OtherRegion {
			basis = history.PriceOtherRegion
		}
	}
	if spot {
		basis = history.PriceSpotAtMost
	}
	return &price.USDPerHour, basis
}
