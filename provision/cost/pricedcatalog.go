package cost

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// homeRegion is the only region whose on-demand prices the catalog has.
const homeRegion = "us-east-1"

// pricedCatalog reads prices, and records whose they are and what was missing.
type pricedCatalog struct {
	region string
	types  *catalog.Catalog
	// listed is what AWS returned of the region; nil where nothing was read.
	listed *pricelist.List
	at     time.Time
	notes  map[string]bool
	prices map[provision.Price]bool
}

// choose divides what the pool's requirements allow by whether pods find whole GPUs
// on it, and notes what that leaves open. A type with a fraction of a GPU offers
// Kubernetes none: such nodes count only where the pool has no others.
func (m *pricedCatalog) choose(p Pool) (gpus, plain []catalog.InstanceType) {
	var fractions []catalog.InstanceType
	for _, t := range m.types.Types() {
		if !p.allows(t) || !m.offers(p, t.Name) {
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
				m.addNote("NodePool %s: ${%s} has no value here, so that the instance types that it selects are left out; give it one with --substitute %s=VALUE or --sync-file.", name(p.Name), name(found[1]), name(found[1]))
				continue
			}
			if _, known := m.types.Lookup(value); !known {
				m.addNote("NodePool %s: the catalog of %s has no instance type %s, so that it is left out.", name(p.Name), m.types.PriceDate(), name(value))
			}
		}
	}
	if m.listed != nil && r.Key == zoneLabel && !r.IsResolved() {
		m.addNote("NodePool %s: the requirement of %s holds a variable that has no value here, so that offerings and spot prices are those of all zones.", name(p.Name), name(r.Key))
	}
	if strings.HasPrefix(r.Key, "karpenter.k8s.aws/instance-") && !r.ByType() {
		m.addNote("NodePool %s: the catalog has no data for the requirement of %s, so that it is ignored.", name(p.Name), name(r.Key))
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
	return p.mayLaunch(t, onDemand) || p.mayLaunch(t, spot) || p.reservedOnly()
}

// reservedOnly reports whether the pool may launch nothing but reserved capacity.
func (p Pool) reservedOnly() bool {
	return p.allowsCapacity(reserved) && !p.allowsCapacity(onDemand) && !p.allowsCapacity(spot)
}

// mayLaunch reports whether the pool may launch the type with that capacity type, and EC2 offers it so.
func (p Pool) mayLaunch(t catalog.InstanceType, capacity string) bool {
	return p.allowsCapacity(capacity) && slices.Contains(t.UsageClasses, capacity)
}

// allowsCapacity reports whether the pool's requirements allow the capacity type.
func (p Pool) allowsCapacity(capacity string) bool {
	return !slices.ContainsFunc(p.Requirements, func(r catalog.Requirement) bool {
		return r.Key == capacityLabel && !r.Met(map[string]string{capacityLabel: capacity})
	})
}

// offers reports whether a zone that the pool may use offers the type, as far as that was read.
func (m *pricedCatalog) offers(p Pool, kind string) bool {
	if m.listed == nil || m.listed.ZonesAt.IsZero() {
		return true
	}
	return slices.ContainsFunc(m.listed.Zones[kind], p.allowsZone)
}

// onDemand is the price in the region; nil where none is known.
func (m *pricedCatalog) onDemand(kind string) *catalog.Price {
	price, known := m.listed.OnDemandPrice(kind)
	if known && price.USDPerHour == 0 {
		return nil
	}
	if !known {
		var err error
		if price, err = m.types.OnDemand(m.region, kind); err != nil {
			return nil
		}
	}
	return &price
}

// home is the on-demand price that us-east-1 lists.
func (m *pricedCatalog) home(kind string) (float64, bool) {
	price, err := m.types.OnDemand(homeRegion, kind)
	return price.USDPerHour, err == nil
}

// spot is the least of the zones that the pool may use, or where spot prices were not read, the
// most that it may be; nil where neither is known.
func (m *pricedCatalog) spot(p Pool, kind string) *catalog.Price {
	if m.listed == nil || m.listed.SpotAt.IsZero() {
		price := m.onDemand(kind)
		if price != nil {
			price.AtMost = true
		}
		return price
	}
	var least *catalog.Price
	for zone := range m.listed.Spot {
		price, _ := m.listed.SpotPrice(kind, zone)
		if price.USDPerHour > 0 && p.allowsZone(zone) && (least == nil || price.USDPerHour < least.USDPerHour) {
			least = &price
		}
	}
	return least
}

// allowsZone reports whether the pool may use the zone. A requirement that holds a variable may allow any.
func (p Pool) allowsZone(zone string) bool {
	return !slices.ContainsFunc(p.Requirements, func(r catalog.Requirement) bool {
		return r.Key == zoneLabel && r.IsResolved() && !r.Met(map[string]string{zoneLabel: zone})
	})
}

// quote records where the prices of a node that is shown come from.
func (m *pricedCatalog) quote(n *Node) {
	if n.OnDemand != nil {
		m.source(onDemand, n.OnDemand.Basis, false)
	}
	if n.Spot != nil {
		m.source(spot, n.Spot.Basis, n.Spot.AtMost)
	}
}

// source records where a price is from: that of a spot instance that is not known, from nowhere,
// and its bound from the on-demand price.
func (m *pricedCatalog) source(capacity string, basis catalog.Basis, atMost bool) {
	if atMost {
		m.prices[provision.Price{CapacityType: capacity, Basis: provision.UnknownPrice}] = true
		capacity = onDemand
	}
	m.prices[provision.Price{
		CapacityType: capacity, Basis: string(basis), Date: cmp.Or(m.listed.Date(basis), m.types.PriceDate()), Outdated: m.listed.IsOutdated(basis, m.at),
	}] = true
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
