package aws

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
)

// Capacity types, as CreateFleet's DefaultTargetCapacityType spells them.
const (
	onDemand      = "on-demand"
	spot          = "spot"
	capacityBlock = "capacity-block"
	reserved      = "reserved-capacity"
)

// offers is what this region sells: instance types in zones, with prices.
type offers struct {
	catalog *catalog.Catalog
	types   []catalog.InstanceType // by name
	zones   []catalog.Zone
	region  string
}

func newOffers(cfg Config) (*offers, error) {
	zones, err := catalog.Zones(cfg.Region)
	if err != nil {
		return nil, fmt.Errorf("reading the emulator's config: %w", err)
	}
	c := cfg.Catalog
	if c == nil {
		if c, err = catalog.Load(); err != nil {
			return nil, fmt.Errorf("reading the instance catalogue: %w", err)
		}
	}
	return &offers{catalog: c, types: c.Types(), zones: zones, region: cfg.Region}, nil
}

// zone finds a zone by name or by id.
func (o *offers) zone(name string) (catalog.Zone, bool) {
	for _, z := range o.zones {
		if z.Name == name || z.ID == name {
			return z, true
		}
	}
	return catalog.Zone{}, false
}

// usage tells whether the type is sold under the capacity type at all. What is
// reserved was bought on demand.
func usage(t catalog.InstanceType, capacityType string) bool {
	if capacityType == reserved {
		capacityType = onDemand
	}
	return slices.Contains(t.UsageClasses, capacityType)
}

// price is dollars per hour. A reservation costs what its on-demand instance
// would.
func (o *offers) price(t catalog.InstanceType, zone catalog.Zone, capacityType string) (float64, error) {
	if capacityType == spot {
		p, err := o.catalog.SpotEstimate(zone, t.Name)
		return p.USDPerHour, err
	}
	p, err := o.catalog.OnDemand(o.region, t.Name)
	return p.USDPerHour, err
}
