package quotas

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/catalog"
)

// shortage are pools that cannot all reach their limits, since they draw on nothing but some quotas.
type shortage struct {
	pools   []pool
	classes []string
	// needs is the least number of vCPUs with which all of them would.
	needs float64
}

func (s shortage) text(limits map[string]limit) string {
	var names []string
	for _, p := range s.pools {
		names = append(names, p.String())
	}
	last := len(names) - 1
	allows, codes := allowance(s.classes, limits)
	return fmt.Sprintf("NodePools %s and %s need at least %.0f vCPUs together to reach their limits, %s: request a quota increase (%s) or lower a limit",
		strings.Join(names[:last], ", "), names[last], s.needs, allows, codes)
}

// shortages are the sets of two pools and more whose needs exceed what all quotas that they can draw on have left, the
// smallest sets of quotas only. By Hall's theorem there is one exactly where the needs cannot be divided among
// the quotas. Pools without a limit that counts, and of an unknown quota, are left out.
func shortages(pools []pool, limits map[string]limit) (out []shortage) {
	var names []string
	for _, class := range quotaClasses() {
		if _, known := limits[class.name]; known {
			names = append(names, class.name)
		}
	}
	slices.Sort(names)
	for _, classes := range subsets(names) {
		s, left := shortage{classes: classes}, 0.0
		for _, name := range classes {
			left += limits[name].left()
		}
		for _, p := range pools {
			if n := p.least(); n > 0 && p.within(classes) {
				s.pools, s.needs = append(s.pools, p), s.needs+n
			}
		}
		smaller := slices.ContainsFunc(out, func(o shortage) bool { return contains(classes, o.classes) })
		if len(s.pools) > 1 && s.needs > left && !smaller {
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
func (p pool) within(classes []string) bool {
	return len(p.demands) > 0 && contains(classes, slices.Collect(maps.Keys(p.demands)))
}

// least is the least number of vCPUs with which the pool reaches its first limit, 0 where it has none that counts.
func (p pool) least() float64 {
	perGPU := 0.0
	for _, d := range p.demands {
		if d.perGPU > 0 && (perGPU == 0 || d.perGPU < perGPU) {
			perGPU = d.perGPU
		}
	}
	needs, what := p.unreached(-1, -1, perGPU)
	if what == "" {
		return 0
	}
	return needs
}

// advice is for which pools a quota is too small, alone and together. A pool that may draw on
// several quotas is warned of only where all of them together are: Karpenter
// goes to the next when one is used up.
func advice(pools []pool, class string, limits map[string]limit) []string {
	var out []string
	for _, s := range shortages(pools, limits) {
		if slices.Contains(s.classes, class) {
			out = append(out, s.text(limits))
		}
	}
	for _, p := range pools {
		if _, draws := p.demands[class]; !draws {
			continue
		}
		if text := p.shortage(limits); text != "" {
			out = append(out, text)
		}
	}
	return out
}

// shortage is what the pool cannot reach; empty where it can, and where a
// quota of its is unknown.
func (p pool) shortage(limits map[string]limit) string {
	var vcpus, gpus float64
	fits := false
	var smallest catalog.InstanceType
	perGPU := 0.0
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p.demands)) {
		have, known := limits[name]
		if !known {
			return ""
		}
		d := p.demands[name]
		vcpus += have.left()
		names = append(names, name)
		fits = fits || float64(d.smallest.VCPUs) <= have.left()
		if smallest.Name == "" || d.smallest.VCPUs < smallest.VCPUs {
			smallest = d.smallest
		}
		if d.perGPU > 0 {
			gpus += have.left() / d.perGPU
			if perGPU == 0 || d.perGPU < perGPU {
				perGPU = d.perGPU
			}
		}
	}
	allows, which := allowance(names, limits)
	if !fits {
		return fmt.Sprintf("NodePool %s can have no node: its smallest instance type %s has %d vCPUs, %s: request a quota increase (%s)",
			p, smallest.Name, smallest.VCPUs, allows, which)
	}
	needs, what := p.unreached(vcpus, gpus, perGPU)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("NodePool %s needs at least %.0f vCPUs to reach its limit of %s, %s: request a quota increase (%s) or lower the limit", p, needs, what, allows, which)
}

// allowance is what some quotas allow, and by which codes they are increased.
func allowance(names []string, limits map[string]limit) (allows, codes string) {
	var all []string
	vcpus, taken := int64(0), false
	for _, name := range names {
		vcpus += limits[name].vcpus
		taken = taken || limits[name].taken > 0
		all = append(all, limits[name].code)
	}
	allows, codes = fmt.Sprintf("the quota allows %d", vcpus), "quota code "+all[0]
	if len(all) > 1 {
		allows, codes = fmt.Sprintf("the quotas allow %d in all", vcpus), "quota codes "+strings.Join(all, ", ")
	}
	// Without the number, which moves: the quota's own line has what is used.
	if taken {
		allows += ", less what other instances use"
	}
	return allows, codes
}

// unreached is which limit cannot be reached and how many vCPUs it takes. A
// pool grows until it meets its first limit, so one that can be met is enough.
func (p pool) unreached(vcpus, gpus, perGPU float64) (needs float64, what string) {
	if p.cpus != nil {
		if *p.cpus <= vcpus {
			return 0, ""
		}
		needs, what = *p.cpus, fmt.Sprintf("%.0f CPUs", *p.cpus)
	}
	if p.gpus != nil && perGPU > 0 {
		if *p.gpus <= gpus {
			return 0, ""
		}
		if forGPUs := *p.gpus * perGPU; what == "" || forGPUs < needs {
			needs, what = forGPUs, fmt.Sprintf("%.0f %s", *p.gpus, p.gpu)
		}
	}
	return needs, what
}
