package gogit

import (
	"bytes"
	"container/heap"
	"context"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/poolwright/poolwright/gitsource"
)

// history is the graph of the commits that an object store holds, read as far
// as it is asked about. A commit whose parents are not all held is a cut: what
// lies beyond is unknown, and nothing is concluded from its absence.
type history struct {
	objects *objects
	nodes   map[plumbing.Hash]node
	// edges counts the parents in nodes, which are what they cost.
	edges int
}

// node is what is kept of a commit.
type node struct {
	tree    plumbing.Hash
	parents []plumbing.Hash
	when    int64 // the committer's clock, in seconds
}

func newHistory(o *objects) *history {
	return &history{objects: o, nodes: map[plumbing.Hash]node{}}
}

// maxCommitBytes is the longest commit or tag that is read.
const maxCommitBytes = 1 << 20

// node reads a commit; false when it is not held.
func (h *history) node(id plumbing.Hash) (node, bool, error) {
	if n, ok := h.nodes[id]; ok {
		return n, true, nil
	}
	b, ok, err := h.objects.find(plumbing.CommitObject, id, maxCommitBytes)
	if err != nil || !ok {
		return node{}, false, err
	}
	obj := new(plumbing.MemoryObject)
	obj.SetType(plumbing.CommitObject)
	_, _ = obj.Write(b) // a MemoryObject takes everything
	var c object.Commit
	if err := c.Decode(obj); err != nil {
		return node{}, false, fmt.Errorf("reading commit %s: %w: %w", id, gitsource.ErrCorrupt, err)
	}
	n := node{tree: c.TreeHash, parents: c.ParentHashes, when: c.Committer.When.Unix()}
	h.nodes[id] = n
	h.edges += len(n.parents)
	return n, true, nil
}

func (h *history) contains(id plumbing.Hash) (bool, error) {
	_, ok, err := h.node(id)
	return ok, err
}

// isCut reports whether a held commit has a parent that is not.
func (h *history) isCut(n node) (bool, error) {
	for _, p := range n.parents {
		if ok, err := h.contains(p); err != nil || !ok {
			return true, err
		}
	}
	return false, nil
}

// walk visits the held commits that lead from tips, nearest first, with their
// distance from the nearest tip, until visit says stop.
func (h *history) walk(tips []plumbing.Hash, visit func(id plumbing.Hash, n node, distance int) (stop bool, err error)) error {
	seen := map[plumbing.Hash]bool{}
	level := tips
	for distance := 0; len(level) > 0; distance++ {
		var next []plumbing.Hash
		for _, id := range level {
			if seen[id] {
				continue
			}
			seen[id] = true
			n, ok, err := h.node(id)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			stop, err := visit(id, n, distance)
			if err != nil || stop {
				return err
			}
			next = append(next, n.parents...)
		}
		level = next
	}
	return nil
}

// cuts lists the cuts that tips lead to.
func (h *history) cuts(tips []plumbing.Hash) ([]plumbing.Hash, error) {
	var out []plumbing.Hash
	err := h.walk(tips, func(id plumbing.Hash, n node, _ int) (bool, error) {
		cut, err := h.isCut(n)
		if cut && err == nil {
			out = append(out, id)
		}
		return false, err
	})
	return out, err
}

// distance is how many steps lie between tips and the nearest of targets; -1
// when none is reached.
func (h *history) distance(tips []plumbing.Hash, targets ...plumbing.Hash) (int, error) {
	wanted := map[plumbing.Hash]bool{}
	for _, t := range targets {
		wanted[t] = true
	}
	found := -1
	err := h.walk(tips, func(id plumbing.Hash, _ node, d int) (bool, error) {
		if wanted[id] {
			found = d
		}
		return wanted[id], nil
	})
	return found, err
}

// Which of two commits one is an ancestor of, and whether it is an ancestor of
// a commit that is one of both.
const (
	ofFirst = 1 << iota
	ofSecond
	ofBoth = ofFirst | ofSecond
	stale  = 1 << 2
)

// painting walks from two commits towards the past, newest first, and stops
// where everything left is behind a common ancestor. Clocks decide only the
// order of the walk: a wrong one makes it longer, not wrong.
type painting struct {
	history *history
	flags   map[plumbing.Hash]int
	queue   byAge
	// live are the queued commits that may still lead to something new.
	live  map[plumbing.Hash]bool
	found []plumbing.Hash
	cut   []plumbing.Hash
}

// common is what two commits share, as far as the held history shows it.
type common struct {
	// bases are ancestors of both that are no ancestors of another such one,
	// in no order.
	bases []plumbing.Hash
	// open are the cuts behind which there may be a better base.
	open []plumbing.Hash
}

// common finds what a and b, both held, share.
func (h *history) common(ctx context.Context, a, b plumbing.Hash) (common, error) {
	if a == b {
		return common{bases: []plumbing.Hash{a}}, nil
	}
	p := &painting{history: h, flags: map[plumbing.Hash]int{}, live: map[plumbing.Hash]bool{}}
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

func (p *painting) result(a, b plumbing.Hash) common {
	var c common
	for _, id := range p.found {
		if id == a || id == b {
			return common{bases: []plumbing.Hash{id}} // nothing can be better
		}
		if p.flags[id]&stale == 0 {
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

// add paints a commit; false when it is not held.
func (p *painting) add(id plumbing.Hash, color int) (bool, error) {
	n, ok, err := p.history.node(id)
	if err != nil || !ok {
		return false, err
	}
	if p.flags[id]|color == p.flags[id] {
		return true, nil
	}
	p.flags[id] |= color
	if p.flags[id]&stale == 0 {
		p.live[id] = true
	} else {
		delete(p.live, id)
	}
	heap.Push(&p.queue, aged{id, n.when})
	return true, nil
}

func (p *painting) step() error {
	id := heap.Pop(&p.queue).(aged).id
	delete(p.live, id)
	color := p.flags[id]
	if color == ofBoth {
		p.found = append(p.found, id)
		color |= stale // what lies behind it, not itself
	}
	n, _, err := p.history.node(id)
	if err != nil {
		return err
	}
	whole := true
	for _, parent := range n.parents {
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

// mergeBase is the merge base of two commits.
type mergeBase struct {
	commit plumbing.Hash // zero when nothing common is held
	// open are the cuts that leave it uncertain; none means that it is certain.
	open []plumbing.Hash
	// cutsOlder is true where whatever the cuts hide is older than commit, if the
	// committers' clocks were right.
	cutsOlder bool
	// unique is true where commit is the only merge base, for certain.
	unique bool
}

// maxBases bounds how many of several merge bases are weighed.
const maxBases = 64

// mergeBase finds the merge base of a and b: of several merge bases the newest.
func (h *history) mergeBase(ctx context.Context, a, b plumbing.Hash) (mergeBase, error) {
	c, err := h.common(ctx, a, b)
	if err != nil {
		return mergeBase{}, err
	}
	p := mergeBase{open: c.open}
	var at aged
	for _, id := range c.bases {
		next := aged{id, h.nodes[id].when}
		if p.commit.IsZero() || next.before(at) {
			p.commit, at = id, next
		}
	}
	// Clocks may be wrong: the newest must not be an ancestor of another.
	for i, id := range c.bases {
		if i >= maxBases || id == p.commit {
			continue
		}
		between, err := h.common(ctx, p.commit, id)
		if err != nil {
			return mergeBase{}, err
		}
		if slices.Contains(between.bases, p.commit) {
			p.commit, at = id, aged{id, h.nodes[id].when}
		}
		p.open = append(p.open, between.open...)
	}
	p.cutsOlder = !p.commit.IsZero() && h.allOlder(p.open, at.when)
	p.unique = len(c.bases) == 1 && len(p.open) == 0
	return p, nil
}

func (h *history) allOlder(ids []plumbing.Hash, than int64) bool {
	for _, id := range ids {
		if h.nodes[id].when >= than {
			return false
		}
	}
	return true
}
