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

// exceeding are pools that cannot all reach their limits, since they draw on nothing but some quotas.
type exceeding struct {
	pools   []Pool
	classes []string
	// needs is the least number of vCPUs with which all of them would.
	needs float64
}

// ExceededQuota is that NodePools need more vCPUs than some quotas allow.
type ExceededQuota struct {
	// Quotas are the names of the quotas, Codes what Service Quotas calls them in requests for an increase.
	Quotas, Codes []string
	// Pools are the names of those that need more, together where they are several.
	Pools []string
	// IncreasedPools are those of the pools that draw more on the quotas than before. Only NewlyExceeded has them.
	IncreasedPools []string
	// NeededVCPUs is with how many vCPUs they would reach their limits, or have one node where SmallestType is set;
	// LimitVCPUs is what the quotas allow in all.
	NeededVCPUs, LimitVCPUs int64
	// UsedByOthers is true where instances of no declared pool use a part of that.
	UsedByOthers bool
	// SmallestType is the instance type with the fewest vCPUs of a pool that can have no node, since no quota has as
	// many left; empty for all others.
	SmallestType string
	// Unlimited is true where the pool loses the last of its limits that counts, so that it can need any number;
	// NeededVCPUs is then 0. Default false.
	Unlimited bool
	// Text is the same for people, with the remedy. Only Exceeded has it.
	Text string
}

// exceededBy is that pools need so many vCPUs of the quotas.
func exceededBy(pools []Pool, needs float64, classes []string, limits map[string]Limit) ExceededQuota {
	out := ExceededQuota{Quotas: classes, NeededVCPUs: int64(math.Ceil(needs))}
	for _, p := range pools {
		out.Pools = append(out.Pools, p.Name)
	}
	for _, name := range classes {
		l := limits[name]
		out.Codes = append(out.Codes, l.Code)
		out.LimitVCPUs += l.VCPUs
		out.UsedByOthers = out.UsedByOthers || l.Used > 0
	}
	return out
}

func (e exceeding) exceeded(limits map[string]Limit) ExceededQuota {
	out := exceededBy(e.pools, e.needs, e.classes, limits)
	var names []string
	for _, p := range e.pools {
		names = append(names, p.String())
	}
	last := len(names) - 1
	allows, codes := out.limit()
	out.Text = fmt.Sprintf("NodePools %s and %s need at least %.0f vCPUs together to reach their limits, %s: request a quota increase (%s) or lower a limit",
		strings.Join(names[:last], ", "), names[last], e.needs, allows, codes)
	return out
}

// exceedingPools are the sets of two pools and more whose needs exceed what all quotas that they can draw on have left, the
// smallest sets of quotas only. By Hall's theorem there is one exactly where the needs cannot be divided among
// the quotas. Pools without a limit that counts, and of an unknown quota, are left out.
func exceedingPools(pools []Pool, limits map[string]Limit) (out []exceeding) {
	for _, s := range allExceedingPools(pools, limits) {
		if !slices.ContainsFunc(out, func(o exceeding) bool { return contains(s.classes, o.classes) }) {
			out = append(out, s)
		}
	}
	return out
}

// allExceedingPools are those of exceedingPools and of the sets of quotas that contain a smaller one of them, smaller sets first.
func allExceedingPools(pools []Pool, limits map[string]Limit) (out []exceeding) {
	var names []string
	for _, class := range Classes() {
		if _, known := limits[class.Name]; known {
			names = append(names, class.Name)
		}
	}
	slices.Sort(names)
	for _, classes := range subsets(names) {
		s := exceeding{classes: classes}
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

// Exceeded is for which pools the quota of a class is too small, alone and together. A pool that may draw on
// several quotas is warned of only where all of them together are: Karpenter
// goes to the next when one is used up.
func Exceeded(pools []Pool, class string, limits map[string]Limit) []ExceededQuota {
	var out []ExceededQuota
	for _, s := range exceedingPools(pools, limits) {
		if slices.Contains(s.classes, class) {
			out = append(out, s.exceeded(limits))
		}
	}
	for _, p := range pools {
		if _, draws := p.demands[class]; !draws {
			continue
		}
		if s := p.alone(limits); s.needs > 0 {
			out = append(out, s.exceeded(p, limits))
		}
	}
	return out
}

// exceedingPool is what one pool cannot reach; needs is 0 where it can.
type exceedingPool struct {
	// needs is the number of vCPUs with which it could.
	needs float64
	// what is the limit that it cannot reach; empty where it can have no node.
	what string
	// smallest is the name of its type with the fewest vCPUs.
	smallest string
}

func (s exceedingPool) exceeded(p Pool, limits map[string]Limit) ExceededQuota {
	out := exceededBy([]Pool{p}, s.needs, p.Classes(), limits)
	allows, codes := out.limit()
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
func (p Pool) alone(limits map[string]Limit) exceedingPool {
	fits := false
	for _, name := range p.Classes() {
		have, known := limits[name]
		if !known {
			return exceedingPool{}
		}
		fits = fits || float64(p.demands[name].smallest.VCPUs) <= have.available()
	}
	smallest, one := p.smallest()
	if !fits {
		return exceedingPool{needs: one, smallest: smallest}
	}
	needs, what := p.unreached(func(name string) float64 { return limits[name].available() })
	return exceedingPool{needs: needs, what: what, smallest: smallest}
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

// limit is what the quotas allow, and by which codes they are increased.
func (e ExceededQuota) limit() (allows, codes string) {
	all := strings.Join(e.Codes, ", ")
	allows, codes = fmt.Sprintf("the quota allows %d", e.LimitVCPUs), "quota code "+all
	if len(e.Codes) > 1 {
		allows, codes = fmt.Sprintf("the quotas allow %d in all", e.LimitVCPUs), "quota codes "+all
	}
	// Without the number, which moves: the quota's own line has what is used.
	if e.UsedByOthers {
		allows += ", less what other instances use"
	}
	return allows, codes
}
