package cost

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/gpu"
)

// about marks what is reckoned with prices of the catalog, or with old ones. A tilde would strike text through in
// Markdown.
const about = "≈"

// tableSection is a piece of the table as it is shown: a title, rows under a head, lines.
type tableSection struct {
	title string
	// head and rows are cells; the first left columns hold text, the others figures.
	head []string
	rows [][]cell
	left int
	// lines are sentences below the rows.
	lines [][]cell
}

// cell is a piece of text: names are quoted where a format has a way to.
type cell struct {
	text  string
	quote bool
}

func textCell(format string, args ...any) cell { return cell{text: fmt.Sprintf(format, args...)} }

func named(s string) cell { return cell{s, s != ""} }

func line(cells ...cell) []cell { return cells }

// sections are all there is to show.
func (t Table) sections() []tableSection {
	out := []tableSection{t.nodes()}
	if t.Document != nil {
		out = append(out, t.Document.quotes(t.Region), t.Document.figures(), t.Document.savings())
	}
	out = append(out, tableSection{lines: t.footnotes()})
	return slices.DeleteFunc(out, func(p tableSection) bool { return len(p.rows)+len(p.lines) == 0 })
}

// nodes is the table of the pools.
func (t Table) nodes() tableSection {
	short := hours(t.HoursPerDay) + " H A DAY"
	out := tableSection{
		title: fmt.Sprintf("One node of each pool in %s, a month of %s hours%s", t.Region, hours(t.HoursPerMonth), t.approximate()),
		head:  []string{"POOL", "NODE", "ON DEMAND", "SPOT", short, "IDLE", "AN HOUR"}, left: 2,
	}
	for i, r := range t.Pools {
		pool := named(r.Pool)
		if i > 0 && t.Pools[i-1].Pool == r.Pool {
			pool = textCell("  with a GPU")
		}
		if r.Cheapest == nil {
			out.rows = append(out.rows, []cell{pool, textCell("?"), textCell("?"), textCell("?"), textCell("?"), textCell("?"), textCell("?")})
			continue
		}
		out.rows = append(out.rows, r.Cheapest.cells(pool, ""))
		if r.MostExpensive.InstanceType != r.Cheapest.InstanceType {
			out.rows = append(out.rows, r.MostExpensive.cells(cell{}, "to "))
		}
		out.lines = append(out.lines, r.shares()...)
		out.lines = append(out.lines, r.nonCompute()...)
		if r.ConsolidationDisabled {
			out.lines = append(out.lines, line(named(r.Pool), textCell(": consolidateAfter is Never, so that a node that has come stays without any pod, too, and costs the month; before the first one comes it is nothing.")))
		}
	}
	if len(out.rows) > 0 {
		out.lines = append(out.lines, line(textCell("ON DEMAND and SPOT are around the clock; %s, IDLE (no pod at all) and AN HOUR (of use) are at what the pool launches first, spot where it may, and ≤ where that has no known price. - is not offered to the pool, ? has no known price.", short)))
	}
	return out
}

// beside is what a node costs beside its instance, as far as it is known.
func (r Row) nonCompute() [][]cell {
	var parts []string
	if volumes := r.NonCompute.Volumes; volumes != nil && *volumes > 0 {
		parts = append(parts, "EBS volumes are "+about+dollars(*volumes))
	}
	if address := r.NonCompute.PublicIPv4; address != nil && *address > 0 {
		parts = append(parts, "a public IPv4 address is "+about+dollars(*address))
	}
	if len(parts) == 0 {
		return nil
	}
	return [][]cell{line(named(r.Pool), textCell(": beside the instance, %s a month.", strings.Join(parts, " and ")))}
}

// approximate marks a table with prices of the catalog, or with old ones.
func (t Table) approximate() string {
	if (provision.Cost{Prices: t.Prices}).Approximate() {
		return ", " + about
	}
	return ""
}

func (n Node) cells(pool cell, before string) []cell {
	month := func(r *Rate, launches bool) cell {
		switch {
		case r != nil:
			return textCell("%s", r.between(r.PerMonth, dollars))
		case launches:
			return textCell("?")
		}
		return textCell("-")
	}
	first := n.first()
	sum := func(usd *float64) cell {
		if usd == nil {
			return textCell("?")
		}
		if *usd == 0 {
			return textCell("$0")
		}
		return textCell("%s", first.most(dollars(*usd)))
	}
	hour := textCell("?")
	if first != nil {
		hour = textCell("%s", first.most(hourly(first.PerHour)))
	}
	kind := cell{before + n.InstanceType, true}
	return []cell{pool, kind, month(n.OnDemand, n.CapacityType == onDemand), month(n.Spot, n.CapacityType == spot), sum(n.PartTime), sum(n.Idle), hour}
}

// most is a sum at the rate, marked where it is the most that it may be.
func (r *Rate) most(sum string) string {
	if r.AtMost {
		return "≤" + sum
	}
	return sum
}

// between is a sum at the rate, or the range of one that is not known.
func (r *Rate) between(usd float64, write func(float64) string) string {
	if r.AtMost {
		return write(usd*catalog.LowestSpot) + "–" + write(usd)
	}
	return write(usd)
}

// shares is what a GPU or a slice costs on a node that has several.
func (r Row) shares() [][]cell {
	n := r.Cheapest
	if n.Shares < 2 {
		return nil
	}
	what := "a GPU"
	text := fmt.Sprintf(": a %s has %d GPUs", n.InstanceType, n.GPUs)
	if n.Sharing != string(gpu.SharingStrategyNone) {
		what = "a slice"
		text = fmt.Sprintf(": a %s has %d slices of %s (%s)", n.InstanceType, n.Shares, plural.Count(n.GPUs, "GPU"), n.Sharing)
	}
	var prices []string
	for _, x := range []struct {
		r    *Rate
		name string
	}{{n.OnDemand, "on demand"}, {n.Spot, spot}} {
		if x.r != nil {
			prices = append(prices, fmt.Sprintf("%s/h %s", x.r.between(x.r.PerShare, hourly), x.name))
		}
	}
	if len(prices) > 0 {
		text += ": " + what + " is " + strings.Join(prices, ", ")
	}
	return [][]cell{line(named(r.Pool), textCell("%s.", text))}
}

// quotes are the document's unit prices beside today's.
func (d Recomputed) quotes(region string) tableSection {
	out := tableSection{
		title: "Prices of an hour in the document and today in " + region,
		head:  []string{"NODE", "CALLED", "DOCUMENT", "ON DEMAND", "SPOT"}, left: 2,
	}
	today := func(usd *float64) cell {
		if usd == nil {
			return textCell("?")
		}
		return textCell("%s", hourly(*usd))
	}
	for _, p := range d.Prices {
		out.rows = append(out.rows, []cell{named(p.InstanceType), textCell("%s", p.CapacityType), textCell("%s", hourly(p.USDPerHour)), today(p.OnDemand), today(p.Spot)})
		if len(p.Causes) > 0 {
			out.lines = append(out.lines, line(named(p.InstanceType), textCell(", %s: %s.", p.CapacityType, reasons(p.Causes, nil))))
		}
	}
	return out
}

// figures are the document's rows.
func (d Recomputed) figures() tableSection {
	title := fmt.Sprintf("The document's table, a month of %s hours", hours(d.HoursPerMonth))
	if d.Region != "" {
		title += ", " + d.Region
	}
	out := tableSection{title: title, head: []string{"SCENARIO", "HOURS", "STATED", "REDONE", "TODAY", "DIFFERENCE"}, left: 1}
	explained := map[Cause]bool{}
	for _, p := range d.Prices {
		for _, w := range p.Causes {
			explained[w] = true
		}
	}
	for _, f := range d.Scenarios {
		out.rows = append(out.rows, f.cells())
		if len(f.Causes) > 0 {
			out.lines = append(out.lines, line(named(f.Name), textCell(" (%s, %s): %s.", f.InstanceType, f.CapacityType, reasons(f.Causes, explained))))
		}
	}
	return out
}

func (f RecomputedScenario) cells() []cell {
	redone, today, difference := "-", "?", "?"
	if f.Recomputed != nil {
		redone = dollars(*f.Recomputed)
	}
	if !f.MatchesStated {
		redone = "≠ " + redone
	}
	if f.Today != nil {
		today = dollars(*f.Today)
	}
	if d := f.Difference; d != nil {
		difference = signed(dollars(math.Abs(d.USD)), d.USD)
		if p := d.Percent; p != nil {
			difference += fmt.Sprintf(" (%s%%)", signed(digits(math.Abs(*p), 1), *p))
		}
	}
	return []cell{named(f.Name), textCell("%s", hours(f.Hours)), textCell("%s", f.Stated.dollars()), textCell("%s", redone), textCell("%s", today), textCell("%s", difference)}
}

// savings are those that the document states.
func (d Recomputed) savings() tableSection {
	out := tableSection{title: "Savings that the document states", head: []string{"SCENARIO", "STATED", "REDONE", "TODAY"}, left: 1}
	for _, f := range d.Scenarios {
		s := f.Saving
		if s == nil {
			continue
		}
		redone, today := digits(s.Recomputed, 1)+"%", "?"
		if !s.MatchesStated {
			redone = "≠ " + redone
		}
		if s.Today != nil {
			today = digits(*s.Today, 1) + "%"
		}
		out.rows = append(out.rows, []cell{named(f.Name), textCell("%s%%", s.Stated.withoutUnit()), textCell("%s", redone), textCell("%s", today)})
	}
	return out
}

// reasons are texts with what they are about; of what is listed already, the text alone.
func reasons(why []Cause, explained map[Cause]bool) string {
	var out []string
	for _, w := range why {
		text := w.Reason
		if !explained[w] {
			text += " (" + w.Text + ")"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// footnotes state what is unknown and where the prices come from.
func (t Table) footnotes() [][]cell {
	var out [][]cell
	for _, n := range t.Notes {
		out = append(out, line(textCell("%s", n)))
	}
	var sources []string
	for _, p := range t.Prices {
		source := p.Source(name)
		if p.Basis == provision.UnknownPrice {
			source += "; the cheapest and the most expensive node are those by on-demand prices"
		}
		sources = append(sources, source)
	}
	if slices.ContainsFunc(t.Pools, func(r Row) bool { return len(r.nonCompute()) > 0 }) {
		out = append(out, line(textCell("Prices of volumes and addresses: as AWS publishes them for us-east-1 (%s), of gp3, gp2, io1, io2, st1 and sc1.", about)))
	}
	if len(sources) > 0 {
		out = append(out, line(textCell("%s", provision.PriceNote(sources))))
	}
	return out
}

// dollars writes a sum, dollars with cents, and $0 for nothing and for nothing else.
func dollars(usd float64) string {
	switch {
	case usd == 0:
		return "$0"
	case usd > 0 && usd < 0.005:
		return "<$0.01"
	}
	whole, fraction, _ := strings.Cut(strconv.FormatFloat(usd, 'f', 2, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return "$" + whole + "." + fraction
}

// dollars writes a stated figure as it was stated.
func (r Range) dollars() string {
	one := func(usd float64) string {
		if r.Decimals > 0 {
			return dollars(usd)
		}
		return strings.TrimSuffix(dollars(usd), ".00")
	}
	if r.Min == r.Max {
		return one(r.Min)
	}
	return one(r.Min) + "–" + one(r.Max)
}

// hourly writes a price of an hour: cents at least, and four decimals at most.
func hourly(usd float64) string {
	if usd == 0 {
		return "$0"
	}
	text := digits(usd, 4)
	if usd < 0.001 {
		text = digits(usd, 6)
	}
	_, fraction, _ := strings.Cut(text, ".")
	if len(fraction) < 2 {
		text = strconv.FormatFloat(usd, 'f', 2, 64)
	}
	return "$" + text
}

func hours(h float64) string { return digits(h, 1) }

func signed(text string, of float64) string {
	switch {
	case of > 0:
		return "+" + text
	case of < 0:
		return "−" + text
	}
	return "±" + text
}
