package page

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/cmd/internal/get"
	past "github.com/poolwright/poolwright/cmd/internal/history"
	"github.com/poolwright/poolwright/reconciler/history"
)

// SavingsWindows are the lengths of time that the page of savings can have.
func SavingsWindows() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{day, 7 * day, 30 * day, 62 * day}
}

// maxIdleNodes is how many nodes whose GPUs were idle the page has.
const maxIdleNodes = 10

// usageTotal is what became of what was paid for.
type usageTotal struct {
	history.PoolHour
}

// add adds an hour of a pool.
func (u *usageTotal) add(p history.PoolHour) {
	u.NodeSeconds += p.NodeSeconds
	u.UnpricedSeconds += p.UnpricedSeconds
	u.Approximate = u.Approximate || p.Approximate
	u.GPUSeconds, u.USD = u.GPUSeconds.Plus(p.GPUSeconds), u.USD.Plus(p.USD)
}

// Paid and Idle are amounts of dollars, Share is how much of what was paid was for idle GPUs. Where the price of a node is not known, both
// amounts are bounds, and the share is not known.
func (u usageTotal) Paid() string { return u.dollars(u.USD.Paid) }

// Idle is what was paid for GPUs that no pod requested.
func (u usageTotal) Idle() string { return u.dollars(u.USD.Idle) }

// Share is the part of what was paid that was for idle GPUs.
func (u usageTotal) Share() string {
	if u.UnpricedSeconds > 0 {
		return unknown
	}
	return share(u.USD.Idle, u.USD.Paid)
}

// dollars is an amount that lacks the nodes without a price.
func (u usageTotal) dollars(usd float64) string {
	const cent = 0.01
	switch {
	case u.UnpricedSeconds <= 0:
		return dollars(usd, u.Approximate)
	case usd < cent:
		return unknown
	}
	return atLeast + dollars(usd, u.Approximate)
}

// Unpriced is how long nodes ran whose price is not known, in hours; empty where there are none.
func (u usageTotal) Unpriced() string {
	if u.UnpricedSeconds <= 0 {
		return ""
	}
	return hours(u.UnpricedSeconds)
}

// GPUHours are those of the devices, in the order of the columns: paid, requested, idle, not allocatable, not observed.
func (u usageTotal) GPUHours() []string {
	g := u.GPUSeconds
	return []string{hours(g.Paid), hours(g.Requested), hours(g.Idle), hours(max(0, g.Paid-g.Allocatable-g.Unobserved)), hours(g.Unobserved)}
}

// hours are seconds as hours with a tenth; what is less than a tenth is not rounded to nothing.
func hours(seconds float64) string {
	const tenth = 0.1
	switch h := seconds / time.Hour.Seconds(); {
	case h <= 0:
		return "0"
	case h < tenth:
		return "<0.1"
	default:
		whole, fraction, _ := strings.Cut(strconv.FormatFloat(h, 'f', 1, 64), ".")
		return grouped(whole) + "." + fraction
	}
}

// share is a part of a whole in percent; – of nothing.
func share(part, whole float64) string {
	if whole <= 0 {
		return unknown
	}
	return strconv.FormatFloat(percent(part, whole), 'f', 0, 64) + " %"
}

// stack is a bar of a chart: what was paid for, by what became of it, in units of the chart's height, from the bottom.
type stack struct {
	X, Width int
	Parts    []stackPart
	Text     string
}

// stackPart is a part of a bar.
type stackPart struct {
	Class     string
	Y, Height int
}

// periodRow is what was paid for in a day or an hour.
type periodRow struct {
	usageTotal
	Name string
	At   metav1.Time
}

// poolUse is what was paid for a pool.
type poolUse struct {
	usageTotal
	Name, Path string
}

// idleNode is a node whose GPUs were idle.
type idleNode struct {
	Name, Path, Pool string
	Launched         metav1.Time
	Lifetime         string
	IdleHours, USD   string
	// usd is what its idle GPUs cost where it is priced, idle for how many seconds they were.
	usd, idle float64
	priced    bool
	FirstPods []string
	Reason    string
}

// savingsModel is what the page of savings is rendered from.
type savingsModel struct {
	statusModel
	Interrupted string
	Window      time.Duration
	Windows     []time.Duration
	Total       usageTotal
	Pools       []poolUse
	Periods     []periodRow
	// ByHour is whether the periods are hours, and not days.
	ByHour    bool
	Chart     []stack
	ChartMost string
	// IdleNodes are at most maxIdleNodes. IdleLeft is how many more there are, and IdleUnpriced how many of these have no price.
	IdleNodes              []idleNode
	IdleLeft, IdleUnpriced int
	// Recorded is until when the history is; empty without one.
	Recorded string
	CSV      string
}

// SavingsInput is what the page of savings is made of.
type SavingsInput struct {
	Report      get.Report
	History     history.History
	Interrupted *Interruption
	// Window is how much of the past it has, one of SavingsWindows. Zero is a week.
	Window time.Duration
}

// defaultSavings is the window of a page of savings that has no other.
const defaultSavings = 7 * 24 * time.Hour

// SavingsHours are the hours of pools that the page of savings has.
func SavingsHours(h history.History, now time.Time, window time.Duration) []history.PoolHour {
	window = cmp.Or(window, defaultSavings)
	return past.Since(history.History{PoolHours: h.PoolHours}, now.Add(-window), "").PoolHours
}

// Savings renders the page of what was paid for, and what of it was idle.
func (r *Renderer) Savings(in SavingsInput) (Document, error) {
	now := in.Report.Time.Time
	window := cmp.Or(in.Window, defaultSavings)
	m := savingsModel{
		statusModel: statusOf(in.Report, in.Interrupted), Interrupted: interruptionText(in.Interrupted, now), Window: window, Windows: SavingsWindows(),
		ByHour: window <= 24*time.Hour, CSV: "/api/v1/savings.csv" + windowQuery(in.Window), Recorded: clock(in.History.Time.Time, now),
	}
	m.add(SavingsHours(in.History, now, window))
	m.chart()
	m.addIdleNodes(in.History, now)
	m.Title = m.titled("Savings")
	return r.render(Document{Title: m.Title, Updates: "/updates/savings" + windowQuery(in.Window), Data: "/api/v1/savings" + windowQuery(in.Window)}, m, "status", "savings")
}

// add adds up the hours by pool and by period.
func (m *savingsModel) add(of []history.PoolHour) {
	pools, periods := map[string]*poolUse{}, map[time.Time]*periodRow{}
	for _, p := range of {
		at, layout := p.Hour.UTC().Truncate(24*time.Hour), "Mon Jan 2"
		if m.ByHour {
			at, layout = p.Hour.UTC(), "Jan 2 15:04"
		}
		if pools[p.NodePool] == nil {
			pools[p.NodePool] = &poolUse{Name: clean(p.NodePool), Path: pathOf("pools", p.NodePool)}
		}
		if periods[at] == nil {
			periods[at] = &periodRow{Name: at.Format(layout), At: metav1.NewTime(at)}
		}
		pools[p.NodePool].add(p)
		periods[at].add(p)
		m.Total.add(p)
	}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		m.Pools = append(m.Pools, *pools[name])
	}
	slices.SortStableFunc(m.Pools, func(a, b poolUse) int { return cmp.Compare(b.USD.Idle, a.USD.Idle) })
	for _, at := range slices.SortedFunc(maps.Keys(periods), time.Time.Compare) {
		m.Periods = append(m.Periods, *periods[at])
	}
}

const (
	// chartHeight and chartWidth are those of the viewBox.
	chartWidth, chartHeight = 1000, 120
	// maxBarWidth keeps a single bar from being as wide as the page.
	maxBarWidth = 60
)

// chart makes the bars of the periods.
func (m *savingsModel) chart() {
	most := 0.0
	for _, p := range m.Periods {
		most = max(most, p.USD.Paid)
	}
	if most <= 0 {
		return
	}
	m.ChartMost = withSign(amount(most))
	step := min(maxBarWidth, chartWidth/len(m.Periods))
	for i, p := range m.Periods {
		s := stack{X: i * step, Width: max(1, step-max(1, step/6)), Text: fmt.Sprintf("%s: %s, of it %s idle", p.Name, p.Paid(), p.Idle())}
		y := chartHeight
		rest := max(0, p.USD.Paid-p.USD.Requested-p.USD.Idle)
		for _, part := range []struct {
			class string
			usd   float64
		}{{"requested", p.USD.Requested}, {"idle", p.USD.Idle}, {"rest", rest}} {
			height := min(y, int(part.usd/most*chartHeight+0.5))
			y -= height
			s.Parts = append(s.Parts, stackPart{Class: part.class, Y: y, Height: height})
		}
		m.Chart = append(m.Chart, s)
	}
}

// addIdleNodes adds the nodes whose idle GPUs cost most, of those that ran within the window. Those without a price follow, by idle hours.
func (m *savingsModel) addIdleNodes(h history.History, now time.Time) {
	var out []idleNode
	for _, n := range past.Since(history.History{NodeClaims: h.NodeClaims}, now.Add(-m.Window), "").NodeClaims {
		if n.GPUSeconds.Idle <= 0 || n.GPUs <= 0 {
			continue
		}
		row := idleNode{Name: shortName(clean(cmp.Or(n.Node, n.Name))), Path: pathOf("nodes", n.Name), Pool: clean(n.NodePool), Launched: n.Launched, Lifetime: lifetime(n, now), IdleHours: bound(n) + hours(n.GPUSeconds.Idle), USD: unknown, idle: n.GPUSeconds.Idle, Reason: clean(string(n.Reason))}
		if n.USDPerHour != nil {
			row.usd = *n.USDPerHour * n.GPUSeconds.Idle / float64(n.GPUs) / time.Hour.Seconds()
			row.USD, row.priced = bound(n)+dollars(row.usd, n.PriceBasis.Approximate()), true
		}
		for _, pod := range n.Pods {
			row.FirstPods = append(row.FirstPods, clean(pod))
		}
		out = append(out, row)
	}
	slices.SortStableFunc(out, func(a, b idleNode) int { return cmp.Or(cmp.Compare(b.usd, a.usd), cmp.Compare(b.idle, a.idle)) })
	m.IdleNodes = out[:min(len(out), maxIdleNodes)]
	for _, row := range out[len(m.IdleNodes):] {
		m.IdleLeft++
		if !row.priced {
			m.IdleUnpriced++
		}
	}
}

// WriteCSV writes hours of pools as CSV with a header, times as RFC 3339 in UTC. A text that a spreadsheet would take for a formula begins
// with an apostrophe.
func WriteCSV(w io.Writer, of []history.PoolHour) error {
	out := csv.NewWriter(w)
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	rows := [][]string{{
		"hour", "nodepool", "node_seconds", "gpu_seconds_paid", "gpu_seconds_allocatable", "gpu_seconds_requested", "gpu_seconds_idle", "gpu_seconds_unobserved",
		"usd_paid", "usd_requested", "usd_idle", "unpriced_node_seconds", "approximate",
	}}
	for _, p := range of {
		pool := clean(p.NodePool)
		if strings.ContainsAny(pool[:min(1, len(pool))], "=+-@\t\r") {
			pool = "'" + pool
		}
		rows = append(rows, []string{
			stamp(p.Hour), pool, number(p.NodeSeconds), number(p.GPUSeconds.Paid), number(p.GPUSeconds.Allocatable), number(p.GPUSeconds.Requested), number(p.GPUSeconds.Idle), number(p.GPUSeconds.Unobserved),
			number(p.USD.Paid), number(p.USD.Requested), number(p.USD.Idle), number(p.UnpricedSeconds), strconv.FormatBool(p.Approximate),
		})
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}

// costsOf are what each pool has cost since the day began, UTC, and all of them together in the last 24 hours, of which the page of savings has the same. Both are as of the
// history's time.
func costsOf(h history.History, now time.Time) (today map[string]usageTotal, day usageTotal) {
	today = map[string]usageTotal{}
	for _, p := range SavingsHours(h, now, 24*time.Hour) {
		day.add(p)
	}
	midnight := now.UTC().Truncate(24 * time.Hour)
	for _, p := range h.PoolHours {
		if !p.Hour.Time.Before(midnight) {
			u := today[p.NodePool]
			u.add(p)
			today[p.NodePool] = u
		}
	}
	return today, day
}
