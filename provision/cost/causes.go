package cost

import (
	"math"

	"github.com/poolwright/poolwright/provision/catalog"
)

// same reports whether two prices of an hour are one: price lists have four
// decimals.
func same(a, b float64) bool { return math.Abs(a-b) < 5e-5 }

// implied states that a figure comes without a price of an hour.
func implied(s Scenario) Cause {
	return newCause("unstated", "the document has no %s price of %s", s.CapacityType, s.InstanceType)
}

// own states how a figure comes from the document's own unit price, or why not.
func own(s Scenario, month, price float64) []Cause {
	makes := price * s.Hours
	stated := s.Stated
	switch {
	case stated.contains(makes) && stated.Min < stated.Max:
		return []Cause{newCause("range", "%s/h for %s h make %s; %s would be %s h", hourly(price), hours(s.Hours), dollars(makes), Range{Min: stated.Max, Max: stated.Max, Decimals: stated.Decimals}.dollars(), hours(stated.Max/price))}
	case stated.contains(makes) && math.Abs(stated.Min-makes) < 0.005:
		return nil
	case stated.contains(makes):
		return []Cause{newCause("rounding", "%s is stated as %s", dollars(makes), stated.dollars())}
	}
	for _, other := range []float64{720, 730, 744} {
		if other != month && stated.contains(makes/month*other) {
			return []Cause{newCause("hours", "%s is of a month of %s hours, the document counts %s", stated.dollars(), hours(other), hours(month))}
		}
	}
	return []Cause{newCause("arithmetic", "%s/h for %s h make %s, not %s", hourly(price), hours(s.Hours), dollars(makes), stated.dollars())}
}

// moved states why a unit price of the document is not today's.
func (m *pricedCatalog) moved(d Document, q Quote) []Cause {
	listed, known := m.home(q.InstanceType)
	today := m.today(q.InstanceType, q.CapacityType)
	region := d.Region
	if region == "" {
		region = m.region
	}
	switch {
	case q.CapacityType == spot && known && same(q.USDPerHour, listed):
		return []Cause{newCause("capacity", "%s/h is called spot, and is the on-demand price of %s", hourly(q.USDPerHour), homeRegion)}
	case today == nil:
		return []Cause{m.missing(q.InstanceType, q.CapacityType)}
	}
	var out []Cause
	if d.Region != "" && d.Region != m.region {
		out = append(out, newCause("region", "the document is about %s, the cluster is in %s", name(d.Region), name(m.region)))
	}
	switch {
	case q.CapacityType == onDemand && same(q.USDPerHour, listed) && region != homeRegion:
		return append(out, newCause("region", "%s/h is the price of %s; that of %s is not known", hourly(q.USDPerHour), homeRegion, name(region)))
	case same(q.USDPerHour, today.USDPerHour):
		return out
	}
	return append(out, m.since(hourly(q.USDPerHour)+"/h then", *today)...)
}

// drifted states why a figure without a unit price is not today's.
func (m *pricedCatalog) drifted(s Scenario, today catalog.Price) []Cause {
	if s.Stated.contains(today.USDPerHour * s.Hours) {
		return nil
	}
	was := hourly(s.Stated.Min / s.Hours)
	if s.Stated.Min < s.Stated.Max {
		was += " to " + hourly(s.Stated.Max/s.Hours)
	}
	return m.since(was+"/h by its figure", today)
}

// since states that the price is another today, and whose that is.
func (m *pricedCatalog) since(was string, today catalog.Price) []Cause {
	out := []Cause{newCause("price", "%s, %s/h today", was, hourly(today.USDPerHour))}
	if today.Basis == catalog.OtherRegion {
		out = append(out, newCause("region", "today's is the price of %s; that of %s is not known", homeRegion, name(m.region)))
	}
	return out
}

// missing states why there is no price of today.
func (m *pricedCatalog) missing(kind, capacity string) Cause {
	if _, known := m.types.Lookup(kind); !known {
		return newCause("unknown", "the catalog of %s has no instance type %s", m.types.PriceDate(), kind)
	}
	if capacity == spot && (m.listed == nil || m.listed.SpotAt.IsZero()) {
		return newCause("unknown", "the spot price of %s in %s is not known", kind, name(m.region))
	}
	return newCause("unknown", "the catalog of %s has no %s price of %s in %s", m.types.PriceDate(), capacity, kind, name(m.region))
}
