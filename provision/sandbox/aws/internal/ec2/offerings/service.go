// Package offerings is what EC2 sells in a region: instance types in its zones,
// with their prices on demand and as spot instances, as the catalogue has them.
// What is left of them is package ec2's. Start with Service.
package offerings

import (
	"fmt"
	"slices"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Capacity types, as CreateFleet's DefaultTargetCapacityType spells them.
const (
	OnDemand      = "on-demand"
	Spot          = "spot"
	CapacityBlock = "capacity-block"
	Reserved      = "reserved-capacity"
)

// Service is what the account's region sells.
type Service struct {
	account *api.Account
	catalog *catalog.Catalog
	types   []catalog.InstanceType // by name
	zones   []catalog.Zone
	// NotOffered are the zones that do not offer an instance type, by it.
	NotOffered map[string][]string
	// prices are those that were changed, by type and zone, or without a zone on demand.
	prices map[[2]string]float64
}

// New sells the types of a catalogue, nil for all that are known, in the zones of
// the account's region.
func New(account *api.Account, c *catalog.Catalog) (*Service, error) {
	zones, err := catalog.Zones(account.Region)
	if err != nil {
		return nil, fmt.Errorf("reading the emulator's config: %w", err)
	}
	if c == nil {
		if c, err = catalog.Load(); err != nil {
			return nil, fmt.Errorf("reading the instance catalogue: %w", err)
		}
	}
	return &Service{account: account, catalog: c, types: c.Types(), zones: zones}, nil
}

// Operations are those of EC2 that read what is sold.
func (svc *Service) Operations() map[string]api.Operation {
	list := []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken"}
	return map[string]api.Operation{
		"DescribeAvailabilityZones":     {Params: []string{"Filter.#.Name", "Filter.#.Value.#", "ZoneName.#", "ZoneId.#", "AllAvailabilityZones"}, Read: true, Run: svc.describeZones},
		"DescribeInstanceTypes":         {Params: append(slices.Clone(list), "InstanceType.#"), Read: true, Run: svc.describeInstanceTypes},
		"DescribeInstanceTypeOfferings": {Params: append(slices.Clone(list), "LocationType"), Read: true, Run: svc.describeOfferings},
		"DescribeSpotPriceHistory": {Params: append(slices.Clone(list), "AvailabilityZone", "InstanceType.#", "ProductDescription.#", "StartTime", "EndTime"),
			Read: true, Run: svc.describeSpotPrices},
	}
}

// Types are the instance types, by name.
func (svc *Service) Types() []catalog.InstanceType { return svc.types }

// Zones are those of the region.
func (svc *Service) Zones() []catalog.Zone { return svc.zones }

// Type finds an instance type, or returns EC2's refusal of one that does not exist.
func (svc *Service) Type(name string) (catalog.InstanceType, error) {
	t, ok := svc.catalog.Lookup(name)
	if !ok {
		return t, api.Refuse("InvalidParameterValue", "Invalid value '%s' for InstanceType.", name)
	}
	return t, nil
}

// Zone finds a zone by name or by id.
func (svc *Service) Zone(name string) (catalog.Zone, bool) {
	for _, z := range svc.zones {
		if z.Name == name || z.ID == name {
			return z, true
		}
	}
	return catalog.Zone{}, false
}

// Offered reports whether the zone offers the type.
func (svc *Service) Offered(name, zone string) bool {
	return !slices.Contains(svc.NotOffered[name], zone)
}

// SetPrice changes the price of an hour: of a spot instance in the zone, or without a zone on
// demand.
func (svc *Service) SetPrice(name, zone string, dollars float64) error {
	t, err := svc.Type(name)
	if err != nil {
		return err
	}
	if _, known := svc.Zone(zone); zone != "" && !known {
		return api.Refuse("InvalidParameterValue", "Invalid availability zone: [%s]", zone)
	}
	if dollars <= 0 || t.OnDemandUSD == 0 {
		return fmt.Errorf("changing the price of %s to %g: both must be above 0", name, dollars)
	}
	if svc.prices == nil {
		svc.prices = map[[2]string]float64{}
	}
	svc.prices[[2]string{name, zone}] = dollars
	return nil
}

// Sold reports whether a type is sold under a capacity type at all. What is
// reserved was bought on demand.
func Sold(t catalog.InstanceType, capacityType string) bool {
	if capacityType == Reserved {
		capacityType = OnDemand
	}
	return slices.Contains(t.UsageClasses, capacityType)
}

// Price is dollars per hour. A reservation costs what its on-demand instance
// would.
func (svc *Service) Price(t catalog.InstanceType, zone catalog.Zone, capacityType string) (float64, error) {
	if capacityType != Spot {
		zone = catalog.Zone{}
	}
	if changed, ok := svc.prices[[2]string{t.Name, zone.Name}]; ok {
		return changed, nil
	}
	if capacityType == Spot {
		return spotPrice(svc.catalog, zone, t.Name)
	}
	p, err := svc.catalog.OnDemand(svc.account.Region, t.Name)
	return p.USDPerHour, err
}
