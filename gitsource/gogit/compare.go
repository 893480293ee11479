package gogit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/commitgraph"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/objects"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/refs"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/remote"
)

// errUnrelated marks two histories that share no commit.
var errUnrelated = errors.New("they share no commit")

// depths are the depths, in commits, in which history is fetched; the last is
// Limits.Commits. A young branch needs the first one only.
func (g *clone) depths() []int {
	var out []int
	for _, n := range []int{50, 500, 5000} {
		if n < g.limits.Commits {
			out = append(out, n)
		}
	}
	return append(out, g.limits.Commits)
}

// deepenUntil fetches history from tips, deeper step by step, until the result of
// evaluate is certain. Where the limits forbid more, a result with older cuts has to
// do; any other is an error.
func (g *clone) deepenUntil(ctx context.Context, sess *remote.Connection, tips []tip, evaluate func() (commitgraph.Reachability, error)) error {
	var reach reach
	for {
		missing, err := g.missing(tips)
		if err != nil {
			return err
		}
		var v commitgraph.Reachability
		if len(missing) == 0 {
			if v, err = evaluate(); err != nil || v.Certain() {
				return err
			}
		} else if reach.got > 0 {
			return fmt.Errorf("%w: the server did not send what was requested", gitsource.ErrCorrupt)
		}
		depth, err := g.next(tips, missing, v, reach)
		if err != nil {
			return err
		}
		if depth == 0 {
			return g.finish(v)
		}
		desired := missing
		if len(missing) == 0 {
			desired = tips
		}
		switch err = g.deepen(ctx, sess, desired, depth); {
		case err == nil:
			reach.got = depth
		case errors.Is(err, gitsource.ErrLimit):
			reach.refused = depth
		default:
			return err
		}
	}
}

func (g *clone) missing(tips []tip) ([]tip, error) {
	var out []tip
	for _, t := range tips {
		ok, err := g.graph.Has(t.commit)
		if err != nil {
			return nil, err
		}
		if !ok && !slices.ContainsFunc(out, func(o tip) bool { return o.object == t.object }) {
			out = append(out, t)
		}
	}
	return out, nil
}

// reach is how deep the transfers of one search went, and what was too deep;
// 0 means none yet.
type reach struct{ got, refused int }

// next is the depth to fetch, counted from the tips: the smallest step that reaches
// beyond the nearest cut that matters, or, where that was too much, one between; 0 when
// none is left. How many commits a depth has depends on the merges.
func (g *clone) next(tips, missing []tip, v commitgraph.Reachability, r reach) (int, error) {
	nearest := max(r.got, 1)
	if len(missing) == 0 {
		d, err := g.graph.Depth(commits(tips), v.ShallowBoundary...)
		if err != nil {
			return 0, err
		}
		nearest = max(nearest, d+1)
	}
	for _, n := range g.depths() {
		if n > nearest && (r.refused == 0 || n < r.refused) {
			return n, nil
		}
	}
	if between := int(math.Sqrt(float64(nearest) * float64(r.refused))); between > nearest+nearest/4 {
		return between, nil
	}
	return 0, nil
}

// finish ends the search where no more history is to be had.
func (g *clone) finish(v commitgraph.Reachability) error {
	if v.BoundaryOlder {
		return nil
	}
	return fmt.Errorf("%w: the comparison needs more than %d commits of history, or history that the server does not have; rebase the branch onto its base",
		gitsource.ErrLimit, g.limits.Commits)
}

func commits(tips []tip) []plumbing.Hash {
	out := make([]plumbing.Hash, len(tips))
	for i, t := range tips {
		out[i] = t.commit
	}
	return out
}

// deepen fetches the newest depth commits that lead to tips, without their
// trees where the server can do that.
func (g *clone) deepen(ctx context.Context, sess *remote.Connection, tips []tip, depth int) error {
	req := remote.Request{Filtered: g.record.Filtered}
	for _, t := range tips {
		req.Wants = append(req.Wants, t.object)
	}
	limits := g.limits.pack()
	if g.record.Filtered {
		limits.Objects = min(limits.Objects, g.limits.Commits)
		limits.UnpackedBytes = min(limits.UnpackedBytes, int64(g.limits.Commits)*4<<10+objects.MaxCommitBytes)
		limits.PackBytes = min(limits.PackBytes, limits.UnpackedBytes)
	}
	if sess.SupportsShallow() {
		if err := g.offer(&req); err != nil {
			return err
		}
		req.Depth = depth
	}
	err := g.receive(ctx, sess, req, limits)
	if errors.Is(err, gitsource.ErrLimit) && g.record.Filtered {
		return fmt.Errorf("%w: the newest %d generations of its history are more than %d commits, or very long ones", gitsource.ErrLimit, depth, limits.Objects)
	}
	if err != nil {
		return err
	}
	g.added(commits(tips), nil)
	return nil
}

// offer puts into req which history is present: that of the tips up to the cuts.
func (g *clone) offer(req *remote.Request) error {
	for _, s := range g.record.Tips {
		id := plumbing.NewHash(s)
		if ok, err := g.graph.Has(id); err != nil {
			return err
		} else if ok {
			req.Haves = append(req.Haves, id)
		}
	}
	var err error
	req.Shallows, err = g.graph.ShallowBoundary(req.Haves)
	return err
}

func (g *clone) added(tips, trees []plumbing.Hash) {
	g.objects.Refresh()
	g.record.Tips = appendRecent(g.record.Tips, maxTips, tips...)
	g.record.Trees = appendRecent(g.record.Trees, maxTrees, trees...)
	g.dirty = true
}

// compare is Repository.Compare within one clone.
func (g *clone) compare(ctx context.Context, sess *remote.Connection, base, head tip) (gitsource.Comparison, error) {
	key := pair{base.commit, head.commit}
	p, ok := g.mergeBases[key]
	if !ok {
		err := g.deepenUntil(ctx, sess, []tip{base, head}, func() (_ commitgraph.Reachability, err error) {
			p, err = g.graph.MergeBase(ctx, base.commit, head.commit)
			return commitgraph.Reachability{ShallowBoundary: p.ShallowBoundary, BoundaryOlder: p.BoundaryOlder}, err
		})
		if err != nil {
			return gitsource.Comparison{}, err
		}
		if p.Commit.IsZero() {
			return gitsource.Comparison{}, fmt.Errorf("%w: %w; begin the branch anew from its base, or rebase it onto that", gitsource.ErrNotFound, errUnrelated)
		}
		// A hostile history has many cuts, and once the merge base is certain nobody needs
		// them.
		p.ShallowBoundary = nil
		if len(g.mergeBases) >= maxMergeBases {
			clear(g.mergeBases)
		}
		g.mergeBases[key] = p
		g.record.Tips = appendRecent(g.record.Tips, maxTips, head.commit, base.commit)
	}
	if err := g.fetchTrees(ctx, sess, base, head, p.Commit); err != nil {
		return gitsource.Comparison{}, err
	}
	return g.comparison(base, head, p)
}

// recall is Repository.CompareCached within the clone at hand.
func (g *clone) recall(base, head tip) (gitsource.Comparison, bool) {
	p, ok := g.mergeBases[pair{base.commit, head.commit}]
	if !ok {
		return gitsource.Comparison{}, false
	}
	for _, id := range []plumbing.Hash{base.commit, head.commit, p.Commit} {
		if present, err := g.hasTree(id); err != nil || !present {
			return gitsource.Comparison{}, false
		}
	}
	c, err := g.comparison(base, head, p)
	return c, err == nil
}

func (g *clone) comparison(base, head tip, p commitgraph.MergeBase) (c gitsource.Comparison, err error) {
	defer g.evictTrees()
	c.UniqueMergeBase = p.Unique
	if c.Base, err = g.snapshot(base.commit, refs.ShortName(base.name)); err != nil {
		return gitsource.Comparison{}, fmt.Errorf("reading %s: %w", base.name, err)
	}
	if c.Head, err = g.snapshot(head.commit, refs.ShortName(head.name)); err != nil {
		return gitsource.Comparison{}, fmt.Errorf("reading %s: %w", head.name, err)
	}
	if c.MergeBase, err = g.snapshot(p.Commit, ""); err != nil {
		return gitsource.Comparison{}, fmt.Errorf("reading the merge base, commit %s: %w", p.Commit, err)
	}
	return c, nil
}

// fetchTrees transfers what is missing of the files of three commits, in one
// request.
func (g *clone) fetchTrees(ctx context.Context, sess *remote.Connection, base, head tip, at plumbing.Hash) error {
	var req remote.Request
	depth := 1
	var got []plumbing.Hash
	for _, t := range []tip{base, head, {object: at, commit: at}} {
		ok, err := g.hasTree(t.commit)
		if err != nil {
			return err
		}
		if ok || slices.Contains(got, t.commit) {
			continue
		}
		got = append(got, t.commit)
		if t.name != "" || sess.Advertises(t.object) || sess.SupportsReachable() {
			req.Wants = append(req.Wants, t.object)
			continue
		}
		// The server gives out tips only: fetch one with all commits down to it.
		d, err := g.graph.Depth([]plumbing.Hash{head.commit}, at)
		if err != nil {
			return err
		}
		depth = d + 1
		req.Wants = append(req.Wants, head.object)
	}
	if len(got) == 0 {
		return nil
	}
	if sess.SupportsShallow() {
		if depth == 1 {
			// Offered as commits without a past: their files are present, not those
			// of their ancestors.
			req.Haves = g.recentTrees()
			req.Shallows = slices.Clone(req.Haves)
			req.Thin = true
		}
		req.Depth = depth
	}
	if err := g.receive(ctx, sess, req, g.limits.pack()); err != nil {
		return err
	}
	g.added(nil, got)
	return nil
}

// maxOffered is how many trees are offered as bases to a server.
const maxOffered = 8

func (g *clone) recentTrees() []plumbing.Hash {
	var out []plumbing.Hash
	for _, s := range g.record.Trees[max(0, len(g.record.Trees)-maxOffered):] {
		out = append(out, plumbing.NewHash(s))
	}
	return out
}

func tipOf(r gitsource.Revision) tip {
	id := plumbing.NewHash(r.Commit)
	return tip{name: r.Ref, object: id, commit: id}
}
