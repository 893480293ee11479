// Package grammar derives trees of files that a repository or a pull request may hold and that
// are meant to cost much: kustomizations that multiply, YAML that grows once it is read,
// variables, and the objects whose checks and simulation cost the most.
//
// It is pure: the same Derivation gives the same files. It refuses to write more than its Sizes,
// which are the documented limits of a folder, so that what is found is found within them.
// Start reading at New and Files.
package grammar

import (
	"math/rand/v2"
	"slices"
)

// Derivation is the rule by which a symbol of the grammar was replaced, with its numbers and
// the derivations of its parts. It is kept in the place of the files: it can be mutated and
// shrunk, and is written as JSON of a few lines.
type Derivation struct {
	Rule string       `json:"rule"`
	N    []int        `json:"n,omitempty"`
	Of   []Derivation `json:"of,omitempty"`
}

// Weight is how large a derivation is: what shrinking makes less.
func (d Derivation) Weight() int {
	total := 1
	for _, n := range d.N {
		total += bits(n)
	}
	for _, part := range d.Of {
		total += part.Weight()
	}
	return total
}

// bits is how often a number can be halved.
func bits(n int) int {
	count := 0
	for ; n > 0; n >>= 1 {
		count++
	}
	return count
}

// clone shares nothing with the original.
func (d Derivation) clone() Derivation {
	out := Derivation{Rule: d.Rule, N: slices.Clone(d.N), Of: make([]Derivation, len(d.Of))}
	for i, part := range d.Of {
		out.Of[i] = part.clone()
	}
	return out
}

// deepest is how many rules lie within each other at most, unless a rule requires more.
const deepest = 7

// New derives a repository at random.
func New(random *rand.Rand) Derivation { return derive(random, repository, 0) }

// derive replaces a symbol by one of its rules.
func derive(random *rand.Rand, s symbol, depth int) Derivation {
	of := rulesOf(s)
	if short := slices.DeleteFunc(slices.Clone(of), func(r rule) bool { return r.required() }); depth >= deepest && len(short) > 0 {
		of = short
	}
	return derived(random, of[random.IntN(len(of))], depth)
}

func derived(random *rand.Rand, r rule, depth int) Derivation {
	out := Derivation{Rule: r.name}
	for _, b := range r.numbers {
		out.N = append(out.N, b.draw(random))
	}
	for _, p := range r.parts {
		most := p.most
		if depth >= deepest {
			most = p.least
		}
		for range p.least + random.IntN(most-p.least+1) {
			out.Of = append(out.Of, derive(random, p.symbol, depth+1))
		}
	}
	return out
}

// draw is a number within the bound, of which small ones are as likely as large ones: each power
// of two up to the root of the largest. Mutations lead beyond.
func (b bound) draw(random *rand.Rand) int {
	span := b.most - b.least
	if span <= 0 {
		return b.least
	}
	return b.least + min(span, (1<<random.IntN(bits(span)/2+2))-1+random.IntN(2))
}

// Valid reports whether the derivation is one of the grammar.
func (d Derivation) Valid() bool { return d.is(repository) }

func (d Derivation) is(s symbol) bool {
	r, known := ruleNamed(d.Rule)
	if !known || r.symbol != s || len(d.N) != len(r.numbers) {
		return false
	}
	for i, b := range r.numbers {
		if d.N[i] < b.least || d.N[i] > b.most {
			return false
		}
	}
	left := d.Of
	for _, p := range r.parts {
		n := 0
		for n < len(left) && n < p.most && left[n].is(p.symbol) {
			n++
		}
		if n < p.least {
			return false
		}
		left = left[n:]
	}
	return len(left) == 0
}
