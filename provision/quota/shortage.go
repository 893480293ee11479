package quota

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Limit is what there is of one quota.
type Limit struct {
	// Code is what Service Quotas calls the quota in requests.
	Code string
	// VCPUs is its value.
	VCPUs int64
	// Used are those of VCPUs that instances of no declared pool use, and unused capacity reservations that
	// none of them may use.
	Used int64
}

// available are the vCPUs that the declared pools can use together.
func (l Limit) available() float64 { return float64(max(0, l.VCPUs-l.Used)) }

// shortage are pools that cannot all reach their limits, since they draw on nothing but some quotas.
type shortage struct {
	pools   []Pool
	classes []string
	// needs is the least number of vCPUs with which all of them would.
	needs float64
}

// Shortfall is that NodePools need more vCPUs than quotas allow.
type Shortfall struct {
	// Pools are the names of those that need more, together where they are several.
	Pools []string
	// QuotaCodes are what Service Quotas calls the quotas in requests for an increase.
	QuotaCodes []string
	// NeededVCPUs is with how many vCPUs they would reach their limits, or have one node where SmallestType is set.
	NeededVCPUs int64
	// SmallestType is the instance type with the fewest vCPUs of a pool that can have no node; empty for all others.
	SmallestType string
	// Text is the same for people, with the remedy.
	Text string
}

func (s shortage) shortfall(limits map[string]Limit) Shortfall {
	out := Shortfall{QuotaCodes: quotaCodes(s.classes, limits), NeededVCPUs: int64(math.Ceil(s.needs))}
	var names []string
	for _, p := range s.pools {
		out.Pools, names = append(out.Pools, p.Name), append(names, p.String())
	}
	last := len(names) - 1
	allows, codes := allowance(s.classes, limits)
	out.Text = fmt.Sprintf("NodePools %s and %s need at least %.0f vCPUs together to reach their limits, %s: request a quota increase (%s) or lower a limit",
		strings.Join(names[:last], ", "), names[last], s.needs, allows, codes)
	return out
}

// shortages are the sets of two pools and more whose needs exceed what all quotas that they can draw on have left, the
// smallest sets of quotas only. By Hall's theorem there is one exactly where the needs cannot be divided among
// the quotas. Pools without a limit that counts, and of an unknown quota, are left out.
func shortages(pools []Pool, limits map[string]Limit) (out []shortage) {
	for _, s := range allShortages(pools, limits) {
		if !slices.ContainsFunc(out, func(o shortage) bool { return contains(s.classes, o.classes) }) {
			out = append(out, s)
		}
	}
	return out
}

// allShortages are those of shortages and of the sets of quotas that contain a smaller one of them, smaller sets first.
func allShortages(pools []Pool, limits map[string]Limit) (out []shortage) {
	var names []string
	for _, class := range Classes() {
		if _, known := limits[class.Name]; known {
			names = append(names, class.Name)
		}
	}
	slices.Sort(names)
	for _, classes := range subsets(names) {
		s := shortage{classes: classes}
		for _, p := range pools {
			if n := p.least(); n > 0 && p.within(classes) {
				s.pools, s.needs = append(s.pools, p), s.needs+n
			}
		}
		if len(s.pools) > 1 && s.needs > available(classes, limits) {
			out = append(out, s)
		}
	}
	return out
}

// subsets are the non-empty sets of some of the names, smaller ones first.
func subsets(names []string) [][]string {
	var out [][]string
	for mask := 1; mask < 1<<len(names); mask++ {
		var set []string
		for i, name := range names {
			if mask&(1<<i) != 0 {
				set = append(set, name)
			}
		}
		out = append(out, set)
	}
	slices.SortStableFunc(out, func(a, b []string) int { return len(a) - len(b) })
	return out
}

func contains(all, some []string) bool {
	return !slices.ContainsFunc(some, func(name string) bool { return !slices.Contains(all, name) })
}

// within reports whether the pool draws on these quotas and on no other.
func (p Pool) within(classes []string) bool {
	return len(p.demands) > 0 && contains(classes, p.Classes())
}

// Advice is for which pools the quota of a class is too small, alone and together. A pool that may draw on
// several quotas is warned of only where all of them together are: Karpenter
// goes to the next when one is used up.
func Advice(pools []Pool, class string, limits map[string]Limit) []Shortfall {
	var out []Shortfall
	for _, s := range shortages(pools, limits) {
		if slices.Contains(s.classes, class) {
			out = append(out, s.shortfall(limits))
		}
	}
	for _, p := range pools {
		if _, draws := p.demands[class]; !draws {
			continue
		}
		if s := p.alone(limits); s.needs > 0 {
			out = append(out, s.shortfall(p, limits))
		}
	}
	return out
}

// poolShortage is what one pool cannot reach; needs is 0 where it can.
type poolShortage struct {
	// needs is the number of vCPUs with which it could.
	needs float64
	// what is the limit that it cannot reach; empty where it can have no node.
	what string
	// smallest is the name of its type with the fewest vCPUs.
	smallest string
}

func (s poolShortage) shortfall(p Pool, limits map[string]Limit) Shortfall {
	out := Shortfall{Pools: []string{p.Name}, QuotaCodes: quotaCodes(p.Classes(), limits), NeededVCPUs: int64(math.Ceil(s.needs))}
	allows, codes := allowance(p.Classes(), limits)
	if s.what == "" {
		if len(p.demands) > 1 {
			allows = "none of the quotas has as many left"
		}
		out.SmallestType = s.smallest
		out.Text = fmt.Sprintf("NodePool %s can have no node: its smallest instance type %s has %.0f vCPUs, %s: request a quota increase (%s)",
			p, s.smallest, s.needs, allows, codes)
		return out
	}
	lower := "the limit"
	if p.replicas != nil {
		lower = "spec.replicas"
	}
	out.Text = fmt.Sprintf("NodePool %s needs at least %.0f vCPUs to reach %s, %s: request a quota increase (%s) or lower %s", p, s.needs, s.what, allows, codes, lower)
	return out
}

// alone is what the pool cannot reach even if no other draws on its quotas; nothing where a
// quota of its is unknown.
func (p Pool) alone(limits map[string]Limit) poolShortage {
	fits := false
	for _, name := range p.Classes() {
		have, known := limits[name]
		if !known {
			return poolShortage{}
		}
		fits = fits || float64(p.demands[name].smallest.VCPUs) <= have.available()
	}
	smallest, one := p.smallest()
	if !fits {
		return poolShortage{needs: one, smallest: smallest}
	}
	needs, what := p.unreached(func(name string) float64 { return limits[name].available() })
	return poolShortage{needs: needs, what: what, smallest: smallest}
}

// smallest is the type with the fewest vCPUs that the pool may have, and how many these are.
func (p Pool) smallest() (name string, vcpus float64) {
	for _, class := range p.Classes() {
		if t := p.demands[class].smallest; name == "" || float64(t.VCPUs) < vcpus {
			name, vcpus = t.Name, float64(t.VCPUs)
		}
	}
	return name, vcpus
}

// quotaCodes are what Service Quotas calls some quotas in requests.
func quotaCodes(names []string, limits map[string]Limit) []string {
	var out []string
	for _, name := range names {
		out = append(out, limits[name].Code)
	}
	return out
}

// allowance is what some quotas allow, and by which codes they are increased.
func allowance(names []string, limits map[string]Limit) (allows, codes string) {
	all := quotaCodes(names, limits)
	vcpus, taken := int64(0), false
	for _, name := range names {
		vcpus += limits[name].VCPUs
		taken = taken || limits[name].Used > 0
	}
	allows, codes = fmt.Sprintf("the quota allows %d", vcpus), "quota code "+strings.Join(all, ", ")
	if len(all) > 1 {
		allows, codes = fmt.Sprintf("the quotas allow %d in all", vcpus), "quota codes "+strings.Join(all, ", ")
	}
	// Without the number, which moves: the quota's own line has what is used.
	if taken {
		allows += ", less what other instances use"
	}
	return allows, codes
}
