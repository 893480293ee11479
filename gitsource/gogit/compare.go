package gogit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/poolwright/poolwright/gitsource"
)

// errUnrelated marks two histories that share no commit.
var errUnrelated = errors.New("they share no commit")

// steps are the depths, in commits, in which history is asked for; the last is
// Limits.Commits. A young branch needs the first one only.
func (g *generation) steps() []int {
	var out []int
	for _, n := range []int{50, 500, 5000} {
		if n < g.limits.Commits {
			out = append(out, n)
		}
	}
	return append(out, g.limits.Commits)
}

// reachability is whether one commit is an ancestor of another, as far as the local
// history shows.
type reachability struct {
	// reachable is the result, as far as it is known.
	reachable bool
	// open are the cuts that leave it uncertain; cutsOlder, that only a wrong
	// clock could make them matter.
	open      []plumbing.Hash
	cutsOlder bool
	// unknown says that a commit is not held that may be behind a cut.
	unknown bool
}

func (v reachability) certain() bool { return len(v.open) == 0 && !v.unknown }

// learn fetches history from tips, deeper step by step, until judge is
// certain. Where the limits forbid more, a result with older cuts has to do; any
// other is an error.
func (g *generation) learn(ctx context.Context, sess *remoteConnection, tips []tip, judge func() (reachability, error)) error {
	var reach reach
	for {
		missing, err := g.missing(tips)
		if err != nil {
			return err
		}
		var v reachability
		if len(missing) == 0 {
			if v, err = judge(); err != nil || v.certain() {
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
		wanted := missing
		if len(missing) == 0 {
			wanted = tips
		}
		switch err = g.deepen(ctx, sess, wanted, depth); {
		case err == nil:
			reach.got = depth
		case errors.Is(err, gitsource.ErrLimit):
			reach.refused = depth
		default:
			return err
		}
	}
}

func (g *generation) missing(tips []tip) ([]tip, error) {
	var out []tip
	for _, t := range tips {
		ok, err := g.history.contains(t.commit)
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

// next is the depth to ask for, counted from the tips: the smallest step that
// reaches beyond the nearest cut in question, or, where that was too much, one
// between; 0 when none is left. How many commits a depth has depends on the
// merges.
func (g *generation) next(tips, missing []tip, v reachability, r reach) (int, error) {
	nearest := max(r.got, 1)
	if len(missing) == 0 {
		d, err := g.history.distance(commits(tips), v.open...)
		if err != nil {
			return 0, err
		}
		nearest = max(nearest, d+1)
	}
	for _, n := range g.steps() {
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
func (g *generation) finish(v reachability) error {
	if v.cutsOlder {
		return nil
	}
	return fmt.Errorf("%w: the answer lies more than %d commits back, or in history that the server does not have; rebase the branch onto its base",
		gitsource.ErrLimit, g.limits.Commits)
}

func commits(tips []tip) []plumbing.Hash {
	out := make([]plumbing.Hash, len(tips))
	for i, t := range tips {
		out[i] = t.commit
	}
	return out
}

// filtering reports whether the server gives out commits without their trees.
func filtering(adv *packp.AdvRefs) bool { return adv.Capabilities.Supports(capability.Filter) }

// deepen fetches the newest depth commits that lead to tips, without their
// trees where the server can do that.
func (g *generation) deepen(ctx context.Context, sess *remoteConnection, tips []tip, depth int) error {
	req := packp.NewUploadPackRequestFromCapabilities(sess.adv.Capabilities)
	for _, t := range tips {
		req.Wants = append(req.Wants, t.object)
	}
	limits := g.limits
	if g.record.Filtered {
		req.Filter = packp.FilterTreeDepth(0)
		_ = req.Capabilities.Set(capability.Filter) // fails only for capabilities with arguments
		limits.Objects = min(limits.Objects, limits.Commits)
		limits.UnpackedBytes = min(limits.UnpackedBytes, int64(limits.Commits)*4<<10+maxCommitBytes)
		limits.PackBytes = min(limits.PackBytes, limits.UnpackedBytes)
	}
	if sess.adv.Capabilities.Supports(capability.Shallow) {
		if err := g.offer(req); err != nil {
			return err
		}
		req.Depth = packp.DepthCommits(depth)
		_ = req.Capabilities.Set(capability.Shallow)
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

// offer tells the server which history is held: that of the tips up to the
// cuts.
func (g *generation) offer(req *packp.UploadPackRequest) error {
	for _, s := range g.record.Tips {
		id := plumbing.NewHash(s)
		if ok, err := g.history.contains(id); err != nil {
			return err
		} else if ok {
			req.Haves = append(req.Haves, id)
		}
	}
	var err error
	req.Shallows, err = g.history.cuts(req.Haves)
	return err
}

func (g *generation) added(tips, trees []plumbing.Hash) {
	g.objects.refresh()
	g.record.Tips = remember(g.record.Tips, maxTips, tips...)
	g.record.Trees = remember(g.record.Trees, maxTrees, trees...)
	g.dirty = true
}

// compare answers Repository.Compare within one generation.
func (g *generation) compare(ctx context.Context, sess *remoteConnection, base, head tip) (gitsource.Comparison, error) {
	key := pair{base.commit, head.commit}
	p, ok := g.mergeBases[key]
	if !ok {
		err := g.learn(ctx, sess, []tip{base, head}, func() (_ reachability, err error) {
			p, err = g.history.mergeBase(ctx, base.commit, head.commit)
			return reachability{open: p.open, cutsOlder: p.cutsOlder}, err
		})
		if err != nil {
			return gitsource.Comparison{}, err
		}
		if p.commit.IsZero() {
			return gitsource.Comparison{}, fmt.Errorf("%w: %w; begin the branch anew from its base, or rebase it onto that", gitsource.ErrNotFound, errUnrelated)
		}
		// A hostile history has many cuts, and once they are settled nobody needs them.
		p.open = nil
		if len(g.mergeBases) >= maxMergeBases {
			clear(g.mergeBases)
		}
		g.mergeBases[key] = p
		g.record.Tips = remember(g.record.Tips, maxTips, head.commit, base.commit)
	}
	if err := g.fetchTrees(ctx, sess, base, head, p.commit); err != nil {
		return gitsource.Comparison{}, err
	}
	return g.comparison(base, head, p)
}

// recall answers Repository.Recall within the generation at hand.
func (g *generation) recall(base, head tip) (gitsource.Comparison, bool) {
	p, ok := g.mergeBases[pair{base.commit, head.commit}]
	if !ok {
		return gitsource.Comparison{}, false
	}
	for _, id := range []plumbing.Hash{base.commit, head.commit, p.commit} {
		if held, err := g.hasTree(id); err != nil || !held {
			return gitsource.Comparison{}, false
		}
	}
	c, err := g.comparison(base, head, p)
	return c, err == nil
}

func (g *generation) comparison(base, head tip, p mergeBase) (c gitsource.Comparison, err error) {
	defer g.evictTrees()
	c.UniqueMergeBase = p.unique
	if c.Base, err = g.snapshot(base.commit, snapshotName(base.name)); err != nil {
		return gitsource.Comparison{}, fmt.Errorf("reading %s: %w", base.name, err)
	}
	if c.Head, err = g.snapshot(head.commit, snapshotName(head.name)); err != nil {
		return gitsource.Comparison{}, fmt.Errorf("reading %s: %w", head.name, err)
	}
	if c.MergeBase, err = g.snapshot(p.commit, ""); err != nil {
		return gitsource.Comparison{}, fmt.Errorf("reading commit %s, where they parted: %w", p.commit, err)
	}
	return c, nil
}

// fetchTrees transfers what is missing of the files of three commits, in one
// request.
func (g *generation) fetchTrees(ctx context.Context, sess *remoteConnection, base, head tip, at plumbing.Hash) error {
	req := packp.NewUploadPackRequestFromCapabilities(sess.adv.Capabilities)
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
		if t.name != "" || advertised(sess.adv, t.object) || gives(sess.adv) {
			req.Wants = append(req.Wants, t.object)
			continue
		}
		// The server gives out tips only: ask for one with all commits down to it.
		d, err := g.history.distance([]plumbing.Hash{head.commit}, at)
		if err != nil {
			return err
		}
		depth = d + 1
		req.Wants = append(req.Wants, head.object)
	}
	if len(got) == 0 {
		return nil
	}
	if sess.adv.Capabilities.Supports(capability.Shallow) {
		if depth == 1 {
			// Offered as commits without a past: their files are held, not those
			// of their ancestors.
			req.Haves = g.recentTrees()
			req.Shallows = slices.Clone(req.Haves)
			askThin(req, sess.adv)
		}
		req.Depth = packp.DepthCommits(depth)
		_ = req.Capabilities.Set(capability.Shallow)
	}
	if err := g.receive(ctx, sess, req, g.limits); err != nil {
		return err
	}
	g.added(nil, got)
	return nil
}

// gives reports whether the server lets commits be asked for that are no tips.
func gives(adv *packp.AdvRefs) bool {
	return adv.Capabilities.Supports(capability.AllowReachableSHA1InWant)
}

// maxOffered is how many trees are offered as bases to a server.
const maxOffered = 8

func (g *generation) recentTrees() []plumbing.Hash {
	var out []plumbing.Hash
	for _, s := range g.record.Trees[max(0, len(g.record.Trees)-maxOffered):] {
		out = append(out, plumbing.NewHash(s))
	}
	return out
}
