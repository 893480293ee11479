package quota

import "slices"

// Shortage is that pools cannot have what they declare within some quotas.
type Shortage struct {
	// Quotas are the names of the quotas, Codes what Service Quotas calls them in requests.
	Quotas, Codes []string
	// Pools are the names of all pools that draw on nothing but these; one alone where it is
	// short by itself.
	Pools []string
	// IncreasedPools are those of the pools that draw more on the quotas than before.
	IncreasedPools []string
	// NeededVCPUs is with how many vCPUs the pools would have what they declare, LimitVCPUs what
	// the quotas allow in all.
	NeededVCPUs, LimitVCPUs int64
	// UsedByOthers is true where instances of no declared pool use a part of that.
	UsedByOthers bool
	// Smallest is the pool's instance type with the fewest vCPUs where it can have no node, since no
	// quota has as many left; empty for all others.
	Smallest string
	// Unlimited is true where the pool loses the last of its limits that counts, so that it can
	// need any number; NeededVCPUs is then 0. Default false.
	Unlimited bool
}

// NewShortages are the shortages that a change from some pools to others makes, or makes worse: more of what the pools
// need exceeds what the quotas have left than before. What was short before and is no shorter is not among
// them, nor what only moved from one pool to another.
func NewShortages(before, after []Pool, limits map[string]Limit) []Shortage {
	var out []Shortage
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
	for _, s := range allShortages(after, limits) {
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
		out = append(out, shortageOf(s.pools, causing, s.needs, s.classes, limits))
	}
	return out
}

// caused is what the pool alone cannot have and could before, or needed less of; nil where there is nothing. grows
// reports whether all pools that draw on its quotas need more of them than before.
func (p Pool) caused(was Pool, limits map[string]Limit, grows func() bool) *Shortage {
	if !p.DrawsMore(was) || slices.ContainsFunc(p.Classes(), func(name string) bool { _, known := limits[name]; return !known }) {
		return nil
	}
	if p.unbounds(was) {
		out := shortageOf([]Pool{p}, []string{p.Name}, 0, p.Classes(), limits)
		out.Unlimited = true
		return &out
	}
	s := p.alone(limits)
	if s.needs == 0 || !grows() {
		return nil
	}
	out := shortageOf([]Pool{p}, []string{p.Name}, s.needs, p.Classes(), limits)
	if s.what == "" {
		out.Smallest = s.smallest
	}
	return &out
}

// unbounds reports whether the pool loses the last of its limits that counts.
func (p Pool) unbounds(was Pool) bool { return was.limited() && !p.limited() && len(p.demands) > 0 }

// onlyBounds reports whether the pool gets its first limit, by which it draws no more of the quotas than before.
func (p Pool) onlyBounds(was Pool, classes []string) bool {
	return p.replicas == nil && was.within(classes) && !was.limited()
}

func shortageOf(pools []Pool, causing []string, needs float64, classes []string, limits map[string]Limit) Shortage {
	out := Shortage{Quotas: classes, IncreasedPools: causing, NeededVCPUs: int64(needs)}
	if float64(out.NeededVCPUs) < needs {
		out.NeededVCPUs++
	}
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
