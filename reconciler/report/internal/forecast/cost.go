package forecast

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/report/internal/markup"
	"github.com/poolwright/poolwright/reconciler/report/internal/section"
)

// hoursPerMonth is what a month of use around the clock is commonly billed as.
const hoursPerMonth = 730

// difference is how much more or less is paid in an hour; empty for as much.
func (v View) difference(now, after provision.Amount) string {
	whole, spot := after.Total()-now.Total(), after.Spot-now.Spot
	switch {
	case nothing(whole) && nothing(spot):
		return ""
	case nothing(spot):
		return v.signed(whole) + "/h"
	case nothing(whole - spot):
		return v.signed(spot) + "/h spot"
	}
	if (whole-spot)*spot < 0 {
		// Neither is a part of the sum.
		return fmt.Sprintf("%s/h (%s on-demand, %s spot)", v.signed(whole), v.signed(whole-spot), v.signed(spot))
	}
	return fmt.Sprintf("%s/h (%s spot)", v.signed(whole), v.signed(spot))
}

// ceilings is the most that the limits allow, before and after where they differ.
func (v View) ceilings(c provision.Cost) string {
	bound := func(x *float64) string {
		if x == nil {
			return "none"
		}
		return v.dollars(*x)
	}
	was, is := bound(c.CeilingBefore), bound(c.Ceiling)
	switch {
	case was == is && c.Ceiling == nil:
		return "none"
	case was == is:
		return is + "/h"
	case c.Ceiling == nil:
		return was + "/h → none"
	}
	return was + " → " + is + "/h"
}

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

// dollars writes an amount in dollars and cents, smaller ones in full.
func (v View) dollars(usd float64) string {
	digits := 2
	if !nothing(usd) && math.Abs(usd) < 0.01 {
		digits = 4
	}
	whole, cents, _ := strings.Cut(strconv.FormatFloat(usd, 'f', digits, 64), ".")
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return v.USD + whole + "." + cents
}

// amount is money with the spot part marked.
func (v View) amount(a provision.Amount) string {
	switch {
	case nothing(a.Spot):
		return v.dollars(a.OnDemand)
	case nothing(a.OnDemand):
		return v.dollars(a.Spot) + " spot"
	}
	return v.dollars(a.OnDemand) + " + " + v.dollars(a.Spot) + " spot"
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
		out.Lines = append(out.Lines, markup.Count(same, "other pool")+" as before.")
	}
	out.Lines = append(out.Lines, v.month(c)...)
	if c.Unblocked != nil {
		out.Lines = append(out.Lines, "Once the remaining nodes are replaced: "+v.amount(*c.Unblocked)+".")
	}
	switch {
	case len(c.Notes) > 0:
		out.Lines = append(out.Lines, section.First(each(c.Notes, v.Name), v.Lines.Few())...)
	case slices.ContainsFunc(f.Removed, func(r provision.Removal) bool { return r.Pods > 0 }):
		out.Lines = append(out.Lines, "What the pods of removed pools need elsewhere is not counted.")
	}
	return v.stamped(out, c.Prices)
}

// unpriced is the part on money that stays as it is: nobody has to read it.
func (v View) unpriced(c provision.Cost) section.Section {
	v.Style = markup.Plain()
	out := v.stamped(section.Section{Lines: v.month(c)}, c.Prices)
	return section.Section{Title: "Cost in an hour, as before", Color: "bold", Folded: append(
		[]string{fmt.Sprintf("%s; floor %s, ceiling %s.", v.amount(c.Now), v.dollars(c.Floor), v.ceilings(c))}, out.Lines...)}
}

// free reports whether there is nothing to report about money.
func free(c provision.Cost) bool {
	return nothing(c.Now.Total()) && nothing(c.After.Total()) && nothing(c.Floor) && c.Ceiling == nil && c.CeilingBefore == nil
}

// costRows are the head and the pools whose cost changes, all when every line is to be
// shown, and how many others there are.
func (v View) costRows(f *provision.Forecast) (rows [][]string, same int) {
	rows = [][]string{{"Pool", "Now", "After", "Floor", "Ceiling"}}
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

// month is the cost of a month's use.
func (v View) month(c provision.Cost) []string {
	hoursPerDay := v.hoursPerDay()
	hours := hoursPerDay / 24 * hoursPerMonth
	now, after := v.dollars(c.Now.Total()*hours), v.dollars(c.After.Total()*hours)
	if now != after {
		now += " → " + after
	}
	if nothing(c.Now.Total()) && nothing(c.After.Total()) {
		return nil
	}
	return []string{fmt.Sprintf("A month of %s hours a day (%.0f h): %s.", strconv.FormatFloat(hoursPerDay, 'g', 4, 64), hours, now)}
}

// costRow is a pool's. A pool that comes had no ceiling before, one that goes has
// none after: that is not to be without bound.
func (v View) costRow(name, action string, c provision.Cost) []string {
	ceiling := v.ceilings(c)
	switch {
	case action == "delete":
		ceiling = "gone"
	case action == "create":
		c.CeilingBefore = c.Ceiling
		ceiling = v.ceilings(c)
	}
	return []string{name, v.amount(c.Now), v.amount(c.After), v.dollars(c.Floor), ceiling}
}

// stamped adds where the prices come from.
func (v View) stamped(out section.Section, prices []provision.Price) section.Section {
	var bases []string
	for _, p := range prices {
		basis := map[string]string{
			"listed": "as listed for the region", "other-region": "of another region, as the region's are not listed",
			"estimated": "estimated by a model", "price-list": "by AWS's price list of the region",
			"spot-price-history": "by EC2's spot price history",
		}[p.Basis]
		if basis == "" {
			basis = v.Name(p.Basis)
		}
		kind := map[string]string{"on-demand": "on-demand", "spot": "spot"}[p.CapacityType]
		if kind == "" {
			kind = v.Name(p.CapacityType)
		}
		bases = append(bases, fmt.Sprintf("%s %s (%s)", kind, basis, v.Name(p.Date)))
	}
	if len(bases) > 0 {
		out.Lines = append(out.Lines, "Prices of instances, without disks, before tax and discounts: "+strings.Join(bases, "; ")+".")
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
