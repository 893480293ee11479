package quota

import "slices"

// NewlyExceeded are the quotas that a change from some pools to others exceeds, or exceeds by more: more of what the
// pools need is beyond what the quotas have left than before. What was exceeded before by as much is not among
// them, nor what only moved from one pool to another.
func NewlyExceeded(before, after []Pool, limits map[string]Limit) []ExceededQuota {
	var out []ExceededQuota
	known := map[string]bool{}
	for _, p := range after {
		was := named(before, p.Name)
		one := p.caused(was, limits, func() bool {
			return total(after, p.Classes(), Pool.required) > total(before, p.Classes(), Pool.required)
		})
		if one != nil {
			known[p.Name], out = true, append(out, *one)
		}
	}
	var found [][]string
	for _, s := range allExceedingPools(after, limits) {
		var causing []string
		for _, p := range s.pools {
			was := named(before, p.Name)
			if p.drawn(s.classes, Pool.least) > was.drawn(s.classes, Pool.least) && !p.onlyBounds(was, s.classes) {
				causing = append(causing, p.Name)
			}
		}
		smaller := slices.ContainsFunc(found, func(classes []string) bool { return contains(s.classes, classes) })
		reported := !slices.ContainsFunc(causing, func(name string) bool { return !known[name] })
		if smaller || reported || s.needs-available(s.classes, limits) <= deficit(before, s.classes, limits) {
			continue
		}
		found = append(found, s.classes)
		one := exceededBy(s.pools, s.needs, s.classes, limits)
		one.IncreasedPools = causing
		out = append(out, one)
	}
	return out
}

// caused is what the pool alone cannot have and could before, or needed less of; nil where there is nothing. grows
// reports whether all pools that draw on its quotas need more of them than before.
func (p Pool) caused(was Pool, limits map[string]Limit, grows func() bool) *ExceededQuota {
	if !p.DrawsMore(was) || slices.ContainsFunc(p.Classes(), func(name string) bool { _, known := limits[name]; return !known }) {
		return nil
	}
	if p.unbounds(was) {
		out := exceededBy([]Pool{p}, 0, p.Classes(), limits)
		out.IncreasedPools, out.Unlimited = []string{p.Name}, true
		return &out
	}
	s := p.alone(limits)
	if s.needs == 0 || !grows() {
		return nil
	}
	out := exceededBy([]Pool{p}, s.needs, p.Classes(), limits)
	out.IncreasedPools = []string{p.Name}
	if s.what == "" {
		out.SmallestType = s.smallest
	}
	return &out
}

// unbounds reports whether the pool loses the last of its limits that counts.
func (p Pool) unbounds(was Pool) bool { return was.limited() && !p.limited() && len(p.demands) > 0 }

// onlyBounds reports whether the pool gets its first limit, by which it draws no more of the quotas than before.
func (p Pool) onlyBounds(was Pool, classes []string) bool {
	return p.replicas == nil && was.within(classes) && !was.limited()
}

// deficit is what the pools need of some quotas and these do not have left, however the needs are divided
// among them: that of the set of them that is shortest.
func deficit(pools []Pool, classes []string, limits map[string]Limit) float64 {
	most := 0.0
	for _, some := range subsets(classes) {
		most = max(most, total(pools, some, Pool.least)-available(some, limits))
	}
	return most
}

// available is what quotas have left together.
func available(classes []string, limits map[string]Limit) (sum float64) {
	for _, name := range classes {
		sum += limits[name].available()
	}
	return sum
}

// total is what the pools need of the quotas, by what one of them needs.
func total(pools []Pool, classes []string, needs func(Pool) float64) (sum float64) {
	for _, p := range pools {
		sum += p.drawn(classes, needs)
	}
	return sum
}

// drawn is what the pool needs of the quotas, 0 where it can draw on another one.
func (p Pool) drawn(classes []string, needs func(Pool) float64) float64 {
	if !p.within(classes) {
		return 0
	}
	return needs(p)
}

// required is what the pool needs to reach its first limit, and for one node at least.
func (p Pool) required() float64 {
	_, one := p.smallest()
	return max(p.least(), one)
}

// DrawsMore reports whether the pool can need more of its quotas than another does of them, such as the pool
// before a change; the zero Pool needs nothing. One without a limit that counts can need any number.
func (p Pool) DrawsMore(than Pool) bool {
	classes := p.Classes()
	switch {
	case len(classes) == 0:
		return false
	case !than.within(classes), p.unbounds(than):
		return true
	case !p.limited(), p.onlyBounds(than, classes):
		return false
	}
	return p.required() > than.required() || p.least() > than.least()
}

func named(pools []Pool, name string) Pool {
	if i := slices.IndexFunc(pools, func(p Pool) bool { return p.Name == name }); i >= 0 {
		return pools[i]
	}
	return Pool{}
}
