package quota

import "fmt"

// poolLimit is where a pool stops to grow: one of spec.limits, or spec.replicas of a static pool.
type poolLimit struct {
	amount float64
	// what is the limit as a person reads it, such as "its limit of 8 CPUs".
	what string
	// each is how many vCPUs of a class one of it takes at least; 0 where no type of the class has any.
	each func(demand) float64
}

// poolLimits are those that a type of the pool counts towards. A static pool has its replicas, whatever its limits.
func (p Pool) poolLimits() []poolLimit {
	node := func(d demand) float64 { return float64(d.smallest.VCPUs) }
	var all, out []poolLimit
	if p.replicas != nil {
		all = []poolLimit{{*p.replicas, fmt.Sprintf("its %.0f replicas", *p.replicas), node}}
	} else {
		if p.cpus != nil {
			all = append(all, poolLimit{*p.cpus, fmt.Sprintf("its limit of %.0f CPUs", *p.cpus), func(demand) float64 { return 1 }})
		}
		if p.gpus != nil {
			all = append(all, poolLimit{*p.gpus, fmt.Sprintf("its limit of %.0f %s", *p.gpus, p.gpu), func(d demand) float64 { return d.perGPU }})
		}
		if p.nodes != nil {
			all = append(all, poolLimit{*p.nodes, fmt.Sprintf("its limit of %.0f nodes", *p.nodes), node})
		}
	}
	for _, g := range all {
		for _, d := range p.demands {
			if g.each(d) > 0 {
				out = append(out, g)
				break
			}
		}
	}
	return out
}

// rounding is how far a sum of quotients may be from the whole number that it stands for.
const rounding = 1e-9

// needs is with how many vCPUs in all the pool would reach the limit where its quotas have some left; 0 where
// they suffice.
func (p Pool) needs(g poolLimit, left func(class string) float64) float64 {
	units, vcpus, fewest := 0.0, 0.0, 0.0
	for _, class := range p.Classes() {
		vcpus += left(class)
		if each := g.each(p.demands[class]); each > 0 {
			units += left(class) / each
			if fewest == 0 || each < fewest {
				fewest = each
			}
		}
	}
	if units+rounding >= g.amount {
		return 0
	}
	return vcpus + (g.amount-units)*fewest
}

// unreached is which limit cannot be reached, and how many vCPUs it takes. A pool grows until it meets its first limit,
// so one that can be met is enough.
func (p Pool) unreached(left func(class string) float64) (needs float64, what string) {
	for _, g := range p.poolLimits() {
		n := p.needs(g, left)
		if n == 0 {
			return 0, ""
		}
		if what == "" || n < needs {
			needs, what = n, g.what
		}
	}
	return needs, what
}

// least is the least number of vCPUs with which the pool reaches its first limit, 0 where it has none.
func (p Pool) least() float64 {
	needs, _ := p.unreached(func(string) float64 { return 0 })
	return needs
}

// limited reports whether anything but the quotas bounds what the pool draws.
func (p Pool) limited() bool { return len(p.poolLimits()) > 0 }
