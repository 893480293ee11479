package collector

import (
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
	"github.com/poolwright/poolwright/reconciler/history"
	"github.com/poolwright/poolwright/reconciler/history/recorder"
)

// pricesInterval is how often the prices of AWS are read at most, since a list of them is long. Where there are none yet, it is
// sampleInterval.
const pricesInterval = time.Minute

// offerings are the prices of AWS; nil without any.
func (c *Collector) offerings() *pricelist.List {
	interval := pricesInterval
	if c.prices == nil {
		interval = sampleInterval
	}
	if now := c.cfg.Clock.Now(); c.cfg.Offerings != nil && (c.pricesAt.IsZero() || now.Sub(c.pricesAt).Abs() >= interval) {
		c.prices, c.pricesAt = c.cfg.Offerings(), now
	}
	return c.prices
}

// addPrice finds the price of a NodeClaim that has none yet, or only an approximate one.
func (c *Collector) addPrice(s *recorder.State, region string, o *recorder.Observation) {
	if s.NeedsPrice(o.UID) {
		o.USDPerHour, o.PriceBasis = c.price(region, o.NodeClaim)
	}
}

// price is what an hour of the instance costs: the price that AWS returned, else that of the catalog; nil where neither has one.
// Reserved capacity is paid for at the price on demand.
func (c *Collector) price(region string, of history.NodeClaim) (*float64, history.PriceBasis) {
	if of.InstanceType == "" {
		return nil, ""
	}
	list := c.offerings()
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
