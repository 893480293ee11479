package forecast

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// hoursPerMonth is what a month of use around the clock is commonly billed as.
const hoursPerMonth = 730

// costDifference is how much more or less is paid.
type costDifference struct {
	// sum is that in an hour; empty for as much. Where spot prices are not known, it is a range.
	sum string
	// detail is which part of it is spot, or why it is a range or not known; empty where that is in the sum.
	detail string
	// unknown is true where there is no sum, not even as a range.
	unknown bool
}

func (d costDifference) String() string {
	if d.detail == "" {
		return d.sum
	}
	return d.sum + " (" + d.detail + ")"
}

// difference is how much more or less the change costs.
func (v View) difference(c provision.Cost) costDifference {
	least, most, unpriced := c.Difference()
	if unpriced > 0 {
		return costDifference{sum: "cost change " + unknownSum, detail: plural.Count(unpriced, "node") + " without a price", unknown: true}
	}
	if !nothing(most - least) {
		return costDifference{sum: v.signed(least) + " to " + v.signed(most) + "/h", detail: "spot prices unknown"}
	}
	spot := c.After.Spot - c.Now.Spot + c.After.SpotAtMost - c.Now.SpotAtMost
	switch {
	case nothing(most) && nothing(spot):
		return costDifference{}
	case nothing(spot):
		return costDifference{sum: v.signed(most) + "/h"}
	case nothing(most - spot):
		return costDifference{sum: v.signed(spot) + "/h spot"}
	}
	sum := v.signed(most) + "/h"
	if (most-spot)*spot < 0 {
		// Neither is a part of the sum.
		return costDifference{sum: sum, detail: fmt.Sprintf("%s on-demand, %s spot", v.signed(most-spot), v.signed(spot))}
	}
	return costDifference{sum: sum, detail: v.signed(spot) + " spot"}
}

// maxima is the most that the limits allow, before and after where they differ as they are shown.
func (v View) maxima(c provision.Cost) (text string, differ bool) {
	was, is := v.maximum(c.MaxBefore, c.MaxBeforeUnknown), v.maximum(c.Max, c.MaxUnknown)
	if was != is {
		return v.maxChange(c, was, is), true
	}
	if c.Max != nil {
		is += "/h"
	}
	return is, false
}

func (v View) maxChange(c provision.Cost, was, is string) string {
	switch {
	case c.Max == nil && c.MaxBefore == nil:
		return was + " → " + is
	case c.Max == nil:
		return was + "/h → " + is
	}
	return was + " → " + is + "/h"
}

func (v View) maximum(bound *float64, unknown bool) string {
	switch {
	case unknown:
		return unknownSum
	case bound == nil:
		return "none"
	}
	return v.dollars(*bound)
}

// minimum is what is paid without any pod.
func (v View) minimum(c provision.Cost) string {
	switch {
	case c.MinUnknown:
		return unknownSum
	case c.MinAtMost:
		return "≤ " + v.dollars(c.Min)
	}
	return v.dollars(c.Min)
}

// unknownSum is written for what is not known, which is never 0.
const unknownSum = "unknown"

// nothing reports whether an amount is too small to be one.
func nothing(usd float64) bool { return math.Abs(usd) < 5e-5 }

func (v View) signed(usd float64) string {
	switch {
	case nothing(usd):
		return "±" + v.dollars(0)
	case usd < 0:
		return "−" + v.dollars(-usd)
	}
	return "+" + v.dollars(usd)
}

// CostChange is by how much something costs more an hour, or the range of it.
func (v View) CostChange(least, most float64) string {
	if nothing(most - least) {
		return v.signed(most) + "/h"
	}
	return v.signed(least) + " to " + v.signed(most) + "/h"
}

// dollars writes an amount in dollars and cents, smaller ones in full, and nothing as $0.
func (v View) dollars(usd float64) string {
	if nothing(usd) {
		return v.USD + "0"
	}
	digits := 2
	if math.Abs(usd) < 0.01 {
		digits = 4
	}
	whole, cents, _ := strings.Cut(strconv.FormatFloat(usd, 'f', digits, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return v.USD + whole + "." + cents
}

// between is a sum, or the range of one.
func (v View) between(least, most float64) string {
	if nothing(most - least) {
		return v.dollars(most)
	}
	return v.dollars(least) + "–" + v.dollars(most)
}

// amount is money with the spot part marked.
func (v View) amount(a provision.Amount) string {
	least, most := a.Least()-a.OnDemand, a.Most()-a.OnDemand
	var parts []string
	if !nothing(a.OnDemand) {
		parts = append(parts, v.dollars(a.OnDemand))
	}
	if !nothing(most) {
		parts = append(parts, v.between(least, most)+" spot")
	}
	if a.Unpriced > 0 {
		parts = append(parts, unknownSum+" for "+plural.Count(a.Unpriced, "node"))
	}
	if len(parts) == 0 {
		return v.dollars(0)
	}
	return strings.Join(parts, " + ")
}

// cost is the part on money: a row for each pool that comes to cost another sum,
// or may, and one for all.
func (v View) cost(f *provision.Forecast) section.Section {
	c := f.Cost
	if free(c) {
		return section.Section{}
	}
	out := section.Section{Title: "Cost in an hour", Color: "bold"}
	rows, same := v.costRows(f)
	if len(rows) == 1 && len(v.Money(c)) == 0 {
		return v.unpriced(c)
	}
	out.Rows = append(rows, v.costRow("all", "", c))
	if same > 0 && len(rows) > 1 {
		out.Lines = append(out.Lines, plural.Count(same, "other pool")+" as before.")
	}
	out.Lines = append(out.Lines, slices.Concat(v.month(c), v.beside(c))...)
	if c.Unblocked != nil {
		out.Lines = append(out.Lines, "Once the remaining nodes are replaced: "+v.amount(*c.Unblocked)+".")
	}
	switch {
	case len(c.Notes) > 0:
		out.Lines = append(out.Lines, section.First(each(c.Notes, v.Name), v.Lines.Few())...)
	case slices.ContainsFunc(f.Removed, func(r provision.RemovedPool) bool { return r.Pods > 0 }):
		out.Lines = append(out.Lines, "What the pods of removed pools need elsewhere is not counted.")
	}
	return v.withPriceSources(out, c.Prices)
}

// beside is what nodes cost beside their instances.
func (v View) beside(c provision.Cost) []string {
	of := func(name string, now, after float64, unknown bool, without string) string {
		text := v.dollars(now)
		switch is := v.dollars(after); {
		case unknown && nothing(now) && nothing(after):
			return name + " " + unknownSum
		case is != text:
			text += " → " + is
		}
		text = name + " ≈" + text + "/h"
		if unknown {
			text += ", " + without
		}
		return text
	}
	now, after := c.NonComputeNow, c.NonComputeAfter
	volumes := of("EBS volumes", now.Volumes, after.Volumes, now.VolumesUnknown || after.VolumesUnknown, "without those that images decide")
	addresses := of("public IPv4 addresses", now.PublicIPv4, after.PublicIPv4, now.PublicIPv4Unknown || after.PublicIPv4Unknown, "without those that subnets assign")
	if (now == provision.NonCompute{} && after == provision.NonCompute{}) {
		return nil
	}
	return []string{"Beside the instances, by AWS's published prices of us-east-1: " + volumes + "; " + addresses + "."}
}

// unpriced is the part on money that stays as it is: nobody has to read it.
func (v View) unpriced(c provision.Cost) section.Section {
	v.Style = markup.PlainText()
	out := v.withPriceSources(section.Section{Lines: slices.Concat(v.month(c), v.beside(c))}, c.Prices)
	maximum, _ := v.maxima(c)
	bounds := fmt.Sprintf("min %s, max %s.", v.minimum(c), maximum)
	if !v.Offline {
		bounds = v.amount(c.Now) + "; " + bounds
	}
	return section.Section{Title: "Cost in an hour, as before", Color: "bold", Folded: append([]string{bounds}, out.Lines...)}
}

// free reports whether there is nothing to report about money.
func free(c provision.Cost) bool {
	return c.Now.Unpriced+c.After.Unpriced == 0 && nothing(c.Now.Most()) && nothing(c.After.Most()) && nothing(c.Min) && c.Max == nil && c.MaxBefore == nil
}

// costRows are the head and the pools whose cost changes, all when every line is to be
// shown, and how many others there are.
func (v View) costRows(f *provision.Forecast) (rows [][]string, same int) {
	rows = [][]string{v.costColumns("Pool", "Now", "After", "Min", "Max")}
	for _, p := range f.Pools {
		changed := p.Action == "create" || p.Action == "delete" || len(v.Money(p.Cost)) > 0
		if !changed && v.Lines >= 0 {
			same++
			continue
		}
		rows = append(rows, v.costRow(v.Short(p.Name), p.Action, p.Cost))
	}
	return v.Lines.Rows(rows), same
}

// costColumns are a row of costs. Offline no node is known, and so not what they cost.
func (v View) costColumns(name, now, after, minimum, maximum string) []string {
	if v.Offline {
		return []string{name, minimum, maximum}
	}
	return []string{name, now, after, minimum, maximum}
}

// month is the cost of a month's use.
func (v View) month(c provision.Cost) []string {
	hoursPerDay := v.hoursPerDay()
	hours := hoursPerDay / 24 * hoursPerMonth
	now, after := v.between(c.Now.Least()*hours, c.Now.Most()*hours), v.between(c.After.Least()*hours, c.After.Most()*hours)
	if now != after {
		now += " → " + after
	}
	if nothing(c.Now.Most()) && nothing(c.After.Most()) {
		return nil
	}
	if unpriced := max(c.Now.Unpriced, c.After.Unpriced); unpriced > 0 {
		now += ", without " + plural.Count(unpriced, "node") + " of unknown price"
	}
	return []string{fmt.Sprintf("A month of %s hours a day (%.0f h): %s.", strconv.FormatFloat(hoursPerDay, 'g', 4, 64), hours, now)}
}

// costRow is a pool's. A pool that comes had no maximum before, one that goes has
// none after: that is not to be without bound.
func (v View) costRow(name, action string, c provision.Cost) []string {
	maximum, _ := v.maxima(c)
	switch {
	case action == "delete":
		maximum = "gone"
	case action == "create":
		c.MaxBefore, c.MaxBeforeUnknown = c.Max, c.MaxUnknown
		maximum, _ = v.maxima(c)
	}
	return v.costColumns(name, v.amount(c.Now), v.amount(c.After), v.minimum(c), maximum)
}

// withPriceSources adds where the prices come from.
func (v View) withPriceSources(out section.Section, prices []provision.Price) section.Section {
	var sources []string
	for _, p := range prices {
		sources = append(sources, p.Source(v.Name))
	}
	if len(sources) > 0 {
		out.Lines = append(out.Lines, provision.PriceNote(sources))
	}
	return out
}

// hoursPerDay is the stated use, within what a day has.
func (v View) hoursPerDay() float64 {
	if v.HoursPerDay <= 0 || v.HoursPerDay > 24 {
		return 24
	}
	return v.HoursPerDay
}
