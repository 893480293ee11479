package grammar

import (
	"math/rand/v2"
	"slices"
)

// Mutate changes one place of a derivation: a number, or a part that is derived anew, doubled,
// removed, or taken from the other derivation. The given ones stay as they are.
func Mutate(random *rand.Rand, d, other Derivation) Derivation {
	out := d.clone()
	places := out.places()
	at := places[random.IntN(len(places))]
	r, _ := ruleNamed(at.Rule)
	switch way := random.IntN(10); {
	case way < 5 && len(at.N) > 0:
		i := random.IntN(len(at.N))
		at.N[i] = r.numbers[i].near(random, at.N[i])
	case way < 7 && len(r.parts) > 0:
		at.addPart(random, r)
	case way < 8 && len(r.parts) > 0:
		at.removePart(random, r)
	case way < 9:
		donors := slices.DeleteFunc(other.places(), func(p *Derivation) bool { from, _ := ruleNamed(p.Rule); return from.symbol != r.symbol })
		if len(donors) > 0 {
			*at = donors[random.IntN(len(donors))].clone()
		}
	default:
		*at = derive(random, r.symbol, 2)
	}
	return out
}

// near is another number within the bound: the double, the half, an end of it, or any.
func (b bound) near(random *rand.Rand, n int) int {
	switch random.IntN(6) {
	case 0, 1:
		n = 2*n + 1
	case 2:
		n /= 2
	case 3:
		n = b.most
	case 4:
		n++
	default:
		n = b.draw(random)
	}
	return min(max(n, b.least), b.most)
}

// places are the derivation and all within it.
func (d *Derivation) places() []*Derivation {
	out := []*Derivation{d}
	for i := range d.Of {
		out = append(out, d.Of[i].places()...)
	}
	return out
}

// groups are where the parts of each symbol begin and end.
func (d *Derivation) groups(r rule) [][2]int {
	var out [][2]int
	at := 0
	for _, p := range r.parts {
		begin := at
		for at < len(d.Of) {
			if of, _ := ruleNamed(d.Of[at].Rule); of.symbol != p.symbol {
				break
			}
			at++
		}
		out = append(out, [2]int{begin, at})
	}
	return out
}

func (d *Derivation) addPart(random *rand.Rand, r rule) {
	i := random.IntN(len(r.parts))
	g := d.groups(r)[i]
	if g[1]-g[0] >= r.parts[i].most {
		return
	}
	part := derive(random, r.parts[i].symbol, 3)
	if g[1] > g[0] && random.IntN(2) == 0 {
		part = d.Of[g[0]+random.IntN(g[1]-g[0])].clone()
	}
	d.Of = slices.Insert(d.Of, g[1], part)
}

func (d *Derivation) removePart(random *rand.Rand, r rule) {
	i := random.IntN(len(r.parts))
	if g := d.groups(r)[i]; g[1]-g[0] > r.parts[i].least {
		at := g[0] + random.IntN(g[1]-g[0])
		d.Of = slices.Delete(d.Of, at, at+1)
	}
}

// Smaller are derivations that are one step smaller, the boldest steps first: without a part,
// with a part in the place of what holds it, with a number at its least, or half of it.
func Smaller(d Derivation) []Derivation {
	var out []Derivation
	add := func(change func(at *Derivation, r rule) bool) {
		for i := range d.places() {
			c := d.clone()
			at := c.places()[i]
			r, _ := ruleNamed(at.Rule)
			if change(at, r) {
				out = append(out, c)
			}
		}
	}
	for part := range widest(d) {
		add(func(at *Derivation, r rule) bool { return at.drop(r, part) })
		add(func(at *Derivation, r rule) bool {
			if part >= len(at.Of) {
				return false
			}
			if of, _ := ruleNamed(at.Of[part].Rule); of.symbol != r.symbol {
				return false
			}
			*at = at.Of[part]
			return true
		})
	}
	for _, to := range []func(b bound, n int) int{
		func(b bound, _ int) int { return b.least },
		func(b bound, n int) int { return b.least + (n-b.least)/2 },
		func(b bound, n int) int { return n - max((n-b.least)/8, min(n-b.least, 1)) },
	} {
		for i := range widest(d) {
			add(func(at *Derivation, r rule) bool {
				if i >= len(at.N) {
					return false
				}
				was := at.N[i]
				at.N[i] = to(r.numbers[i], was)
				return at.N[i] < was
			})
		}
	}
	return out
}

// widest is the most parts, or numbers, that a place has.
func widest(d Derivation) int {
	most := 0
	for _, p := range d.places() {
		most = max(most, len(p.Of), len(p.N))
	}
	return most
}

// drop removes a part that may be missing.
func (d *Derivation) drop(r rule, part int) bool {
	for i, g := range d.groups(r) {
		if part >= g[0] && part < g[1] && g[1]-g[0] > r.parts[i].least {
			d.Of = slices.Delete(d.Of, part, part+1)
			return true
		}
	}
	return false
}
