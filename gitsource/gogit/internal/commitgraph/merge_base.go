package commitgraph

import (
	"bytes"
	"container/heap"
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// Which of two commits one is an ancestor of, and whether it is an ancestor of
// a commit that is one of both.
const (
	ofFirst = 1 << iota
	ofSecond
	ofBoth = ofFirst | ofSecond
	ofBase = 1 << 2
)

// ancestorWalk walks from two commits towards the past, newest first, and stops
// where everything left is behind a common ancestor. Clocks decide only the
// order of the walk: a wrong one makes it longer, not wrong.
type ancestorWalk struct {
	graph *Graph
	flags map[plumbing.Hash]int
	queue byAge
	// live are the queued commits that may still lead to something new.
	live  map[plumbing.Hash]bool
	found []plumbing.Hash
	cut   []plumbing.Hash
}

// common is what two commits share, as far as the history that is present shows it.
type common struct {
	// bases are ancestors of both that are no ancestors of another such one,
	// in no order.
	bases []plumbing.Hash
	// open are the cuts behind which there may be a better base.
	open []plumbing.Hash
}

// common finds what a and b, both present, share.
func (g *Graph) common(ctx context.Context, a, b plumbing.Hash) (common, error) {
	if a == b {
		return common{bases: []plumbing.Hash{a}}, nil
	}
	p := &ancestorWalk{graph: g, flags: map[plumbing.Hash]int{}, live: map[plumbing.Hash]bool{}}
	for id, color := range map[plumbing.Hash]int{a: ofFirst, b: ofSecond} {
		if _, err := p.add(id, color); err != nil {
			return common{}, err
		}
	}
	for len(p.live) > 0 {
		if err := ctx.Err(); err != nil {
			return common{}, err
		}
		if err := p.step(); err != nil {
			return common{}, err
		}
	}
	return p.result(a, b), nil
}

func (p *ancestorWalk) result(a, b plumbing.Hash) common {
	var c common
	for _, id := range p.found {
		if id == a || id == b {
			return common{bases: []plumbing.Hash{id}} // nothing can be better
		}
		if p.flags[id]&ofBase == 0 {
			c.bases = append(c.bases, id)
		}
	}
	for _, id := range p.cut {
		if color := p.flags[id]; color == ofFirst || color == ofSecond {
			c.open = append(c.open, id)
		}
	}
	return c
}

// add marks a commit; false when it is not present.
func (p *ancestorWalk) add(id plumbing.Hash, color int) (bool, error) {
	n, ok, err := p.graph.Commit(id)
	if err != nil || !ok {
		return false, err
	}
	if p.flags[id]|color == p.flags[id] {
		return true, nil
	}
	p.flags[id] |= color
	if p.flags[id]&ofBase == 0 {
		p.live[id] = true
	} else {
		delete(p.live, id)
	}
	heap.Push(&p.queue, aged{id, n.When})
	return true, nil
}

func (p *ancestorWalk) step() error {
	id := heap.Pop(&p.queue).(aged).id
	delete(p.live, id)
	color := p.flags[id]
	if color == ofBoth {
		p.found = append(p.found, id)
		color |= ofBase // what lies behind it, not itself
	}
	n, _, err := p.graph.Commit(id)
	if err != nil {
		return err
	}
	whole := true
	for _, parent := range n.Parents {
		ok, err := p.add(parent, color)
		if err != nil {
			return err
		}
		whole = whole && ok
	}
	if !whole {
		p.cut = append(p.cut, id)
	}
	return nil
}

// aged is a commit in the order of the walk.
type aged struct {
	id   plumbing.Hash
	when int64
}

func (a aged) before(b aged) bool {
	if a.when != b.when {
		return a.when > b.when
	}
	return bytes.Compare(a.id[:], b.id[:]) > 0
}

// byAge is a heap with the newest commit on top.
type byAge []aged

func (q byAge) Len() int           { return len(q) }
func (q byAge) Less(i, j int) bool { return q[i].before(q[j]) }
func (q byAge) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byAge) Push(x any)        { *q = append(*q, x.(aged)) }
func (q *byAge) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// MergeBase is the merge base of two commits.
type MergeBase struct {
	// Commit is the merge base; zero when nothing common is present.
	Commit plumbing.Hash
	// ShallowBoundary are the cuts that leave it uncertain; none means that it is certain.
	ShallowBoundary []plumbing.Hash
	// BoundaryOlder is true where whatever the cuts hide is older than Commit, if the
	// committers' clocks were right.
	BoundaryOlder bool
	// Unique is true where Commit is the only merge base, for certain.
	Unique bool
}

// maxBases bounds how many of several merge bases are weighed.
const maxBases = 64

// MergeBase finds the merge base of a and b: of several merge bases the newest.
func (g *Graph) MergeBase(ctx context.Context, a, b plumbing.Hash) (MergeBase, error) {
	c, err := g.common(ctx, a, b)
	if err != nil {
		return MergeBase{}, err
	}
	p := MergeBase{ShallowBoundary: c.open}
	var at aged
	for _, id := range c.bases {
		next := aged{id, g.nodes[id].When}
		if p.Commit.IsZero() || next.before(at) {
			p.Commit, at = id, next
		}
	}
	// Clocks may be wrong: the newest must not be an ancestor of another.
	for i, id := range c.bases {
		if i >= maxBases || id == p.Commit {
			continue
		}
		between, err := g.common(ctx, p.Commit, id)
		if err != nil {
			return MergeBase{}, err
		}
		if slices.Contains(between.bases, p.Commit) {
			p.Commit, at = id, aged{id, g.nodes[id].When}
		}
		p.ShallowBoundary = append(p.ShallowBoundary, between.open...)
	}
	p.BoundaryOlder = !p.Commit.IsZero() && g.allOlder(p.ShallowBoundary, at.when)
	p.Unique = len(c.bases) == 1 && len(p.ShallowBoundary) == 0
	return p, nil
}

func (g *Graph) allOlder(ids []plumbing.Hash, than int64) bool {
	for _, id := range ids {
		if g.nodes[id].When >= than {
			return false
		}
	}
	return true
}
