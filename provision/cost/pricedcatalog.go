package cost

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
)

// homeRegion is the only region whose on-demand prices the catalog has.
const homeRegion = "us-east-1"

// pricedCatalog reads prices, and records whose they are and what was missing.
type pricedCatalog struct {
	region string
	types  *catalog.Catalog
	notes  map[string]bool
	prices map[provision.Price]bool
}

// choose divides what the pool's requirements allow by whether pods find whole GPUs
// on it, and notes what that leaves open. A type with a fraction of a GPU offers
// Kubernetes none: such nodes count only where the pool has no others.
func (m *pricedCatalog) choose(p Pool) (gpus, plain []catalog.InstanceType) {
	var fractions []catalog.InstanceType
	for _, t := range m.types.Types() {
		if !p.allows(t) {
			continue
		}
		switch {
		case t.GPU.Count > 0:
			gpus = append(gpus, t)
		case t.HasGPU():
			fractions = append(fractions, t)
		default:
			plain = append(plain, t)
		}
	}
	if len(gpus)+len(plain) == 0 {
		plain = fractions
	}
	for _, r := range p.Requirements {
		m.open(p, r)
	}
	return gpus, plain
}

// open notes what of a requirement the catalog cannot decide.
func (m *pricedCatalog) open(p Pool, r catalog.Requirement) {
	if r.Key == "node.kubernetes.io/instance-type" && r.Operator == "In" {
		for _, value := range r.Values {
			if found := variable().FindStringSubmatch(value); found != nil {
				m.note("NodePool %s: ${%s} has no value here, so that the instance types that it selects are left out; give it one with --substitute %s=VALUE or --sync-file.", name(p.Name), name(found[1]), name(found[1]))
				continue
			}
			if _, known := m.types.Lookup(value); !known {
				m.note("NodePool %s: the catalog of %s has no instance type %s, so that it is left out.", name(p.Name), m.types.PriceDate(), name(value))
			}
		}
	}
	if strings.HasPrefix(r.Key, "karpenter.k8s.aws/instance-") && !r.ByType() {
		m.note("NodePool %s: the catalog has no data for the requirement of %s, so that it is ignored.", name(p.Name), name(r.Key))
	}
}

// variable finds a variable that nobody has filled in.
func variable() *regexp.Regexp { return regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`) }

// allows reports whether the pool may launch the type at all.
func (p Pool) allows(t catalog.InstanceType) bool {
	labels := t.Labels()
	for _, r := range p.Requirements {
		if r.ByType() && !r.Met(labels) {
			return false
		}
	}
	return p.mayLaunch(t, onDemand) || p.mayLaunch(t, spot)
}

// mayLaunch reports whether the pool may launch the type with that capacity type, and EC2 offers it so.
func (p Pool) mayLaunch(t catalog.InstanceType, capacity string) bool {
	for _, r := range p.Requirements {
		if r.Key == capacityLabel && !r.Met(map[string]string{capacityLabel: capacity}) {
			return false
		}
	}
	return slices.Contains(t.UsageClasses, capacity)
}

func (m *pricedCatalog) sells(kind string) bool {
	_, err := m.types.OnDemand(m.region, kind)
	return err == nil
}

// onDemand is the price in the region; nil where the catalog has none.
func (m *pricedCatalog) onDemand(kind string) *catalog.Price {
	price, err := m.types.OnDemand(m.region, kind)
	if err != nil {
		return nil
	}
	return &price
}

// home is the on-demand price that us-east-1 lists.
func (m *pricedCatalog) home(kind string) (float64, bool) {
	price, err := m.types.OnDemand(homeRegion, kind)
	return price.USDPerHour, err == nil
}

// spot is the least of the zones that the pool may use. In a region whose zones the
// catalog does not have, only those that the pool names are priced: the estimate is
// made for a zone, and one that is made up would make up the price.
func (m *pricedCatalog) spot(p Pool, kind string) *catalog.Price {
	var least *catalog.Price
	zones := m.zones(p)
	for _, zone := range zones {
		price, err := m.types.SpotEstimate(zone, kind)
		if err == nil && (least == nil || price.USDPerHour < least.USDPerHour) {
			least = &price
		}
	}
	if len(zones) == 0 && m.sells(kind) {
		m.note("Region %s: the catalog has none of its zones, and so no estimate of spot prices there.", name(m.region))
	}
	return least
}

func (m *pricedCatalog) zones(p Pool) []catalog.Zone {
	zones, err := catalog.Zones(m.region)
	if err != nil {
		for _, r := range p.Requirements {
			for _, value := range r.Values {
				if r.Key == zoneLabel && r.Operator == "In" && strings.HasPrefix(value, m.region) {
					zones = append(zones, catalog.Zone{Region: m.region, Name: value})
				}
			}
		}
	}
	return slices.DeleteFunc(zones, func(zone catalog.Zone) bool {
		return slices.ContainsFunc(p.Requirements, func(r catalog.Requirement) bool {
			return r.Key == zoneLabel && !r.Met(map[string]string{zoneLabel: zone.Name})
		})
	})
}

// quote records where the prices of a node that is shown come from.
func (m *pricedCatalog) quote(n *Node) {
	if n.OnDemand != nil {
		m.source(onDemand, n.OnDemand.Basis)
	}
	if n.Spot != nil {
		m.source(spot, n.Spot.Basis)
	}
}

func (m *pricedCatalog) source(capacity string, basis catalog.Basis) {
	m.prices[provision.Price{CapacityType: capacity, Basis: string(basis), Date: m.types.PriceDate()}] = true
}

func (m *pricedCatalog) sources() []provision.Price {
	out := slices.AppendSeq([]provision.Price{}, maps.Keys(m.prices))
	slices.SortFunc(out, func(a, b provision.Price) int {
		return strings.Compare(a.CapacityType+a.Basis, b.CapacityType+b.Basis)
	})
	return out
}

func (m *pricedCatalog) noteTexts() []string {
	return append([]string{}, slices.Sorted(maps.Keys(m.notes))...)
}
