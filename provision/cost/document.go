package cost

import (
	"fmt"
	"math"
	"strconv"

	"github.com/poolwright/poolwright/provision/catalog"
)

// Document is the cost table of some document, as it states it.
type Document struct {
	// Name is what the table is called where it is shown, a file's name.
	Name string
	// Region is the one that the document's prices are to be of; empty where it does not
	// name one.
	Region string
	// HoursPerMonth is the month that it counts, 720 or 730.
	HoursPerMonth float64
	// Prices are its unit prices, Scenarios its figures, both in its order. Savings
	// are of the first scenario.
	Prices    []Quote
	Scenarios []Scenario
}

// Quote is a unit price that the document states.
type Quote struct {
	InstanceType string `json:"instanceType"`
	// CapacityType is what the document calls it, "on-demand" or "spot".
	CapacityType string  `json:"capacityType"`
	USDPerHour   float64 `json:"usdPerHour"`
}

// Scenario is one row of the document's table.
type Scenario struct {
	Name         string
	InstanceType string
	CapacityType string
	// Hours is how many of the document's month it counts.
	Hours float64
	// Stated is a month's cost in US dollars.
	Stated Range
	// Saving is how many percent less than the first scenario that is; nil where the
	// document does not state it.
	Saving *Range
}

// Range is a stated figure: Min and Max are equal unless it was written as a range.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
	// Decimals is how many digits after the point were written, so that a rounded
	// figure can be distinguished from a wrong one.
	Decimals int `json:"-"`
}

// contains reports whether a value, rounded or cut off as the range is written, is
// within it: $100.60 is stated as $100 as often as it is as $101.
func (r Range) contains(value float64) bool {
	unit := math.Pow10(-r.Decimals) - 1e-9
	return value > r.Min-unit && value < r.Max+unit
}

// nearest is the figure of the range that is closest to a value.
func (r Range) nearest(value float64) float64 { return min(max(value, r.Min), r.Max) }

// Recomputed is a document's table done again.
type Recomputed struct {
	Name string `json:"name"`
	// Region is the one that the document names; empty where it does not.
	Region        string               `json:"region,omitempty"`
	HoursPerMonth float64              `json:"hoursPerMonth"`
	Prices        []RecomputedPrice    `json:"prices"`
	Scenarios     []RecomputedScenario `json:"scenarios"`
}

// RecomputedPrice is a unit price of the document, and what an hour costs today.
type RecomputedPrice struct {
	Quote
	// OnDemand and Spot are today's, in the cluster's region; absent where unknown.
	OnDemand *float64 `json:"onDemandToday,omitempty"`
	Spot     *float64 `json:"spotToday,omitempty"`
	Causes   []Cause  `json:"causes"`
}

// RecomputedScenario is a scenario of the document with what it comes to.
type RecomputedScenario struct {
	Name         string  `json:"name"`
	InstanceType string  `json:"instanceType"`
	CapacityType string  `json:"capacityType"`
	Hours        float64 `json:"hours"`
	// Stated is the document's figure in US dollars, Recomputed what its own unit price
	// makes for these hours, absent where it states no such price, and Today what
	// today's price makes, absent where none is known.
	Stated     Range    `json:"statedUSD"`
	Recomputed *float64 `json:"recomputedUSD,omitempty"`
	Today      *float64 `json:"todayUSD,omitempty"`
	// MatchesStated is false where Recomputed is not what is stated, rounding apart.
	MatchesStated bool `json:"matchesStated"`
	// Difference is Today less what is stated, of a range its nearest figure.
	Difference *Difference `json:"difference,omitempty"`
	// Saving is absent where the document states none.
	Saving *Saving `json:"saving,omitempty"`
	Causes []Cause `json:"causes"`
}

// Difference is how much more, or less, is paid today.
type Difference struct {
	USD float64 `json:"usd"`
	// Percent is absent where the document states nothing at all, $0.
	Percent *float64 `json:"percent,omitempty"`
}

// Saving is by how many percent a scenario is cheaper than the first one.
type Saving struct {
	Stated Range `json:"stated"`
	// Recomputed is by the document's unit prices, a stated figure standing in where it
	// has none; Today by today's, absent where one is unknown.
	Recomputed    float64  `json:"recomputed"`
	Today         *float64 `json:"today,omitempty"`
	MatchesStated bool     `json:"matchesStated"`
}

// Cause names one cause of a difference.
type Cause struct {
	// Reason is "unstated", "rounding", "hours", "arithmetic", "range", "saving",
	// "capacity", "region", "price" or "unknown".
	Reason string `json:"reason"`
	// Text is the sentence with its figures.
	Text string `json:"text"`
}

func newCause(name, format string, args ...any) Cause {
	return Cause{name, fmt.Sprintf(format, args...)}
}

func (m *pricedCatalog) recompute(d Document) *Recomputed {
	out := &Recomputed{Name: d.Name, Region: name(d.Region), HoursPerMonth: d.HoursPerMonth, Prices: []RecomputedPrice{}, Scenarios: []RecomputedScenario{}}
	for _, quote := range d.Prices {
		out.Prices = append(out.Prices, m.price(d, quote))
	}
	for _, s := range d.Scenarios {
		out.Scenarios = append(out.Scenarios, m.figure(d, s))
	}
	for i, s := range d.Scenarios {
		if s.Saving != nil {
			out.Scenarios[i].save(*s.Saving, out.Scenarios[0])
		}
	}
	return out
}

// price compares a unit price with today's.
func (m *pricedCatalog) price(d Document, q Quote) RecomputedPrice {
	out := RecomputedPrice{Quote: q, Causes: []Cause{}}
	for capacity, to := range map[string]**float64{onDemand: &out.OnDemand, spot: &out.Spot} {
		if price := m.today(q.InstanceType, capacity); price != nil {
			*to = &price.USDPerHour
		}
	}
	out.Causes = append(out.Causes, m.moved(d, q)...)
	return out
}

// figure does a scenario again.
func (m *pricedCatalog) figure(d Document, s Scenario) RecomputedScenario {
	out := RecomputedScenario{
		Name: s.Name, InstanceType: s.InstanceType, CapacityType: s.CapacityType,
		Hours: s.Hours, Stated: s.Stated, MatchesStated: true, Causes: []Cause{},
	}
	quote := d.quoted(s)
	if quote == nil {
		out.Causes = append(out.Causes, implied(s))
	} else {
		out.Recomputed = cents(quote.USDPerHour * s.Hours)
		out.MatchesStated = s.Stated.contains(*out.Recomputed)
		out.Causes = append(out.Causes, own(s, d.HoursPerMonth, quote.USDPerHour)...)
		out.Causes = append(out.Causes, m.moved(d, *quote)...)
	}
	today := m.today(s.InstanceType, s.CapacityType)
	if today == nil {
		if quote == nil {
			out.Causes = append(out.Causes, m.missing(s.InstanceType, s.CapacityType))
		}
		return out
	}
	out.Today = cents(today.USDPerHour * s.Hours)
	near := s.Stated.nearest(*out.Today)
	out.Difference = &Difference{USD: *cents(*out.Today - near)}
	if near > 0 {
		percent := tenth((*out.Today - near) / near * 100)
		out.Difference.Percent = &percent
	}
	if quote == nil {
		out.Causes = append(out.Causes, m.drifted(s, *today)...)
	}
	return out
}

// save works out what a scenario saves against the first.
func (f *RecomputedScenario) save(stated Range, first RecomputedScenario) {
	own := func(f RecomputedScenario) float64 {
		if f.Recomputed != nil {
			return *f.Recomputed
		}
		return (f.Stated.Min + f.Stated.Max) / 2
	}
	percent := func(part, whole float64) float64 {
		if whole <= 0 {
			return 0
		}
		return tenth((1 - part/whole) * 100)
	}
	f.Saving = &Saving{Stated: stated, Recomputed: percent(own(*f), own(first))}
	if f.Today != nil && first.Today != nil {
		today := percent(*f.Today, *first.Today)
		f.Saving.Today = &today
	}
	if f.Saving.MatchesStated = stated.contains(f.Saving.Recomputed); !f.Saving.MatchesStated {
		f.Causes = append(f.Causes, newCause("saving", "its own figures make %s%%, not %s%%", digits(f.Saving.Recomputed, 1), stated.withoutUnit()))
	}
}

// quoted is the document's unit price for a scenario; nil where it states none.
func (d Document) quoted(s Scenario) *Quote {
	for _, q := range d.Prices {
		if q.InstanceType == s.InstanceType && q.CapacityType == s.CapacityType {
			return &q
		}
	}
	return nil
}

// today is the price in the cluster's region, wherever in it that is least; nil where it is not
// known.
func (m *pricedCatalog) today(kind, capacity string) *catalog.Price {
	var price *catalog.Price
	if capacity == spot {
		price = m.spot(Pool{}, kind)
	} else {
		price = m.onDemand(kind)
	}
	if price == nil || price.AtMost {
		return nil
	}
	m.source(capacity, price.Basis, false)
	return price
}

func tenth(x float64) float64 { return math.Round(x*10) / 10 }

// digits writes a number with at most that many digits after the point.
func digits(x float64, most int) string {
	shift := math.Pow10(most)
	return strconv.FormatFloat(math.Round(x*shift)/shift, 'f', -1, 64)
}

// withoutUnit writes a range without a unit.
func (r Range) withoutUnit() string {
	if r.Min == r.Max {
		return digits(r.Min, 2)
	}
	return digits(r.Min, 2) + "–" + digits(r.Max, 2)
}
