// Package cost is the arithmetic of a cost table: what one node of each NodePool
// costs in a month around the clock, for some hours a day and with no pod at all,
// and a document's own table of costs, done again from the document's unit prices and
// held against today's.
//
// It is pure: values in, values out, sorted, the same for the same input. It refuses to
// estimate: what has no price, as spot instances have none in the catalog, has none here but the
// most and the least that it may be, and a price that is another region's is marked. How many nodes there will be is no
// business of its; what a change does to those that run is package simulate's.
//
// Start reading at [Of]; document.go is a document's table, sections.go what is shown of
// either, and write.go writes it.
package cost

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/ebs"
	"github.com/poolwright/poolwright/provision/gpu"
	"github.com/poolwright/poolwright/provision/pricelist"
)

// HoursPerMonth is what a month around the clock is commonly billed as: a twelfth of
// a year of 365 days.
const HoursPerMonth = 730

const (
	onDemand = "on-demand"
	spot     = "spot"
	reserved = "reserved"

	capacityLabel = "karpenter.sh/capacity-type"
	zoneLabel     = "topology.kubernetes.io/zone"
)

// Query is what the table is to be about.
type Query struct {
	// Region is the cluster's, "eu-west-1".
	Region string
	// HoursPerDay is the use that the table has beside a month around the clock; more than
	// 0, at most 24.
	HoursPerDay float64
	// Offerings are what AWS returned of the region's prices and offerings; nil where nothing was
	// read, and then the catalog's count.
	Offerings *pricelist.List
	// Time is when the table is made, by which prices of Offerings are outdated.
	Time time.Time
	// Pools are the cluster's, in any order.
	Pools []Pool
	// Document is a table to do again; nil for none.
	Document *Document
}

// Pool is a NodePool as far as the cost of its nodes goes.
type Pool struct {
	// Name is the NodePool's.
	Name string
	// Requirements are those of its template, see [catalog.Requirements].
	Requirements []catalog.Requirement
	// Replicas is how many nodes a static pool keeps without any pod; 0 for others.
	Replicas int
	// ConsolidationDisabled is true where a node stays once it has come, whether there are pods for it or
	// not: spec.disruption.consolidateAfter is Never.
	ConsolidationDisabled bool
	// NonCompute is what a node costs beside its instance, by its class.
	NonCompute ebs.Costs
	// PluginConfig is how its GPUs are shared; the zero value for whole GPUs.
	PluginConfig gpu.PluginConfig
}

// Table is the result. Its JSON form is stable: fields are added, never renamed or
// given another meaning.
//
// Names come from a repository: they are shown with "?" for each character that no name
// in Kubernetes has.
type Table struct {
	// Region is the one whose prices these are, or are to stand for.
	Region string `json:"region"`
	// HoursPerMonth is the month of Pools, and HoursPerDay the shorter use in them.
	HoursPerMonth float64 `json:"hoursPerMonth"`
	HoursPerDay   float64 `json:"hoursPerDay"`
	// Pools are by name; one whose nodes can be with and without GPUs is there twice.
	Pools []Row `json:"pools"`
	// Document is the document's table; absent where there is none.
	Document *Recomputed `json:"document,omitempty"`
	// Prices are where the prices come from, by capacity type.
	Prices []provision.Price `json:"prices"`
	// Notes are sentences about what is unknown, sorted.
	Notes []string `json:"notes"`
}

// Row is what one node of a pool costs.
type Row struct {
	Pool string `json:"pool"`
	// For is "gpu" for a node that comes for a pod with one GPU, "pod" for one that
	// comes for a pod without.
	For string `json:"for"`
	// Types is how many instance types of the catalog the node may be.
	Types int `json:"types"`
	// Cheapest is the type that Karpenter requests of EC2 first, MostExpensive the other
	// end of what it may become; absent where no type is known. By price, then by name.
	Cheapest      *Node `json:"cheapest,omitempty"`
	MostExpensive *Node `json:"mostExpensive,omitempty"`
	// NonCompute is what one of its nodes costs in a month around the clock beside its instance.
	NonCompute NonCompute `json:"nonCompute"`
	// Nodes is how many of them are kept without any pod, a static pool's replicas.
	Nodes int `json:"idleNodes"`
	// ConsolidationDisabled is true where a node that has come stays without any pod, too, so that any use
	// costs the month around the clock.
	ConsolidationDisabled bool `json:"consolidationDisabled,omitempty"`
}

// NonCompute is in US dollars a month, at the prices that AWS publishes for us-east-1.
type NonCompute struct {
	// Volumes is that of EBS volumes, PublicIPv4 that of a public address; absent where it is not known.
	Volumes    *float64 `json:"volumes,omitempty"`
	PublicIPv4 *float64 `json:"publicIPv4,omitempty"`
}

// nonCompute is what a node costs in a month, each part to the cent.
func nonCompute(costs ebs.Costs) (out NonCompute) {
	if !costs.VolumesUnknown {
		out.Volumes = cents(costs.Volumes * HoursPerMonth)
	}
	if !costs.PublicIPv4Unknown {
		out.PublicIPv4 = cents(costs.PublicIPv4 * HoursPerMonth)
	}
	return out
}

// Node is what a node of one instance type costs, in US dollars.
type Node struct {
	InstanceType string `json:"instanceType"`
	// GPUs is how many there are; Shares how many pods can have a GPU or a slice of
	// one at once, and Sharing how: "none", "time-slicing", "mps" or "mig"; empty
	// without.
	GPUs    int    `json:"gpus"`
	Shares  int    `json:"shares"`
	Sharing string `json:"sharing,omitempty"`
	// OnDemand and Spot are absent where the pool does not launch so, or where no price
	// is known.
	OnDemand *Rate `json:"onDemand,omitempty"`
	Spot     *Rate `json:"spot,omitempty"`
	// CapacityType is what the pool launches first, "spot" wherever it may, and "reserved" where it may launch nothing
	// else; the costs below are at that rate, and absent without one. A node of reserved capacity has the
	// on-demand rate, and no costs below, since a reservation is paid for whether there are pods or not.
	CapacityType string `json:"capacityType"`
	// PartTime is a month of Table.HoursPerDay hours a day.
	PartTime *float64 `json:"usdPartTimeMonth,omitempty"`
	// Idle is a month without any pod; where nodes stay, once one has come.
	Idle *float64 `json:"usdIdleMonth,omitempty"`
}

// Rate is a price, in US dollars.
type Rate struct {
	PerHour  float64 `json:"usdPerHour"`
	PerMonth float64 `json:"usdPerMonth"`
	// PerShare is the hour divided by Node.Shares; 0 without GPUs.
	PerShare float64 `json:"usdPerShareHour,omitempty"`
	// Basis is as in [provision.Price], of spot instances whose price is not known that of their
	// on-demand price.
	Basis catalog.Basis `json:"basis"`
	// AtMost is true for spot instances whose price is not known: the sums are then the most that
	// they may be, those at the on-demand price, and a tenth of them the least.
	AtMost bool `json:"atMost,omitempty"`
}

// NewTable computes a table from a catalog. What has no price is in Notes.
func NewTable(q Query, types *catalog.Catalog) Table {
	listed := q.Offerings
	if listed != nil && listed.Region != q.Region {
		listed = nil
	}
	m := &pricedCatalog{region: q.Region, types: types, listed: listed, at: q.Time, notes: map[string]bool{}, prices: map[provision.Price]bool{}}
	out := Table{Region: name(q.Region), HoursPerMonth: HoursPerMonth, HoursPerDay: q.HoursPerDay, Pools: []Row{}}
	if all := types.Types(); len(all) == 0 || (listed == nil || listed.OnDemandAt.IsZero()) && m.onDemand(all[0].Name) == nil {
		m.addNote("Region %s: the catalog of %s has no prices of it, so that costs are left out.", name(q.Region), types.PriceDate())
	}
	pools := slices.SortedFunc(slices.Values(q.Pools), func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range pools {
		out.Pools = append(out.Pools, m.rows(p, q.HoursPerDay)...)
	}
	if q.Document != nil {
		out.Document = m.recompute(*q.Document)
	}
	out.Prices, out.Notes = m.sources(), m.noteTexts()
	return out
}

// rows are those of a pool: one for each need that its types serve.
func (m *pricedCatalog) rows(p Pool, hoursPerDay float64) []Row {
	gpus, plain := m.choose(p)
	if len(gpus)+len(plain) == 0 {
		m.addNote("NodePool %s: the catalog of %s has no instance type that it allows.", name(p.Name), m.types.PriceDate())
		return []Row{{Pool: name(p.Name), For: "pod", Nodes: p.Replicas}}
	}
	var out []Row
	for _, need := range []struct {
		of    string
		types []catalog.InstanceType
	}{{"pod", plain}, {"gpu", gpus}} {
		if len(need.types) > 0 {
			out = append(out, m.row(p, need.of, need.types, hoursPerDay))
		}
	}
	return out
}

func (m *pricedCatalog) row(p Pool, need string, types []catalog.InstanceType, hoursPerDay float64) Row {
	out := Row{Pool: name(p.Name), For: need, Types: len(types), Nodes: p.Replicas, ConsolidationDisabled: p.consolidationDisabled(), NonCompute: nonCompute(p.NonCompute)}
	var nodes []Node
	for _, t := range types {
		nodes = append(nodes, m.node(p, t, hoursPerDay))
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.hour(), b.hour()), strings.Compare(a.InstanceType, b.InstanceType))
	})
	// One without a price is not the most expensive of those with.
	priced := slices.IndexFunc(nodes, func(n Node) bool { return math.IsInf(n.hour(), 1) })
	if priced < 1 {
		priced = len(nodes)
	}
	out.Cheapest, out.MostExpensive = &nodes[0], &nodes[priced-1]
	for _, n := range []*Node{out.Cheapest, out.MostExpensive} {
		m.quote(n)
	}
	if p.reservedOnly() {
		m.addNote("NodePool %s: it allows only reserved capacity: an On-Demand Capacity Reservation costs the on-demand price, used or not; what a Capacity Block costs, which is paid in advance, is not known.", name(p.Name))
	}
	return out
}

// hour is the price by which nodes are ranked: of an hour of what the pool launches
// first, else the on-demand price, which has the same order; infinite without any.
func (n Node) hour() float64 {
	if r := n.first(); r != nil {
		return r.PerHour
	}
	if n.OnDemand != nil {
		return n.OnDemand.PerHour
	}
	return math.Inf(1)
}

func (n Node) first() *Rate {
	if n.CapacityType == spot {
		return n.Spot
	}
	return n.OnDemand
}

func (m *pricedCatalog) node(p Pool, t catalog.InstanceType, hoursPerDay float64) Node {
	out := Node{InstanceType: t.Name, GPUs: t.GPU.Count, Shares: t.GPU.Count, CapacityType: onDemand}
	if t.GPU.Count > 0 {
		out.Sharing = string(gpu.SharingStrategyNone)
	}
	if t.GPU.Manufacturer == "NVIDIA" && p.PluginConfig.Strategy != "" && p.PluginConfig.Strategy != gpu.SharingStrategyNone {
		out.Shares, out.Sharing = 0, string(p.PluginConfig.Strategy)
		for _, n := range p.PluginConfig.Allocatable(t.GPU.Count) {
			out.Shares += int(n)
		}
	}
	if p.reservedOnly() {
		out.CapacityType = reserved
		out.OnDemand = rate(m.onDemand(t.Name), out.Shares)
		return out
	}
	if p.mayLaunch(t, onDemand) {
		out.OnDemand = rate(m.onDemand(t.Name), out.Shares)
	}
	if p.mayLaunch(t, spot) {
		out.CapacityType = spot
		out.Spot = rate(m.spot(p, t.Name), out.Shares)
	}
	if r := out.first(); r != nil {
		out.PartTime = cents(r.PerHour * hoursPerDay / 24 * HoursPerMonth)
		out.Idle = cents(r.PerHour * float64(p.Replicas) * HoursPerMonth)
		if p.consolidationDisabled() {
			out.PartTime, out.Idle = cents(r.PerHour*HoursPerMonth), cents(r.PerHour*HoursPerMonth)
		}
	}
	return out
}

// consolidationDisabled is ConsolidationDisabled of a pool that is not static: nodes of one that is are counted.
func (p Pool) consolidationDisabled() bool { return p.ConsolidationDisabled && p.Replicas == 0 }

func rate(price *catalog.Price, shares int) *Rate {
	if price == nil {
		return nil
	}
	out := &Rate{PerHour: price.USDPerHour, PerMonth: *cents(price.USDPerHour * HoursPerMonth), Basis: price.Basis, AtMost: price.AtMost}
	if shares > 0 {
		out.PerShare = math.Round(price.USDPerHour/float64(shares)*1e6) / 1e6
	}
	return out
}

// cents rounds a sum of money; hourly prices stay as they are.
func cents(usd float64) *float64 {
	out := math.Round(usd*100) / 100
	return &out
}

// unnamable are the characters that no name, label or instance type has.
var unnamable = regexp.MustCompile(`[^A-Za-z0-9./_-]`)

// longestName bounds what is shown of a name.
const longestName = 63

// name is a name as it may be shown anywhere.
func name(s string) string {
	s = unnamable.ReplaceAllString(s, "?")
	if len(s) > longestName {
		s = s[:longestName] + "…"
	}
	return s
}

func (m *pricedCatalog) addNote(format string, args ...any) {
	m.notes[fmt.Sprintf(format, args...)] = true
}
