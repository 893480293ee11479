package preview

import (
	"context"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Revisions are those of a repository.
type Revisions interface {
	Compare(ctx context.Context, base, head string) (gitsource.Comparison, error)
	Recall(base, head gitsource.Revision) (gitsource.Comparison, bool)
	Contains(ctx context.Context, ref, commit, ancestor string) (bool, error)
}

// position is where the forge and the Sync have a head and its base.
type position struct{ head, base, attempted string }

// compared are the commits that were compared at that position. Their trees are not
// kept: who opens a pull request chooses how large they are.
type compared struct {
	position
	base, head gitsource.Revision
}

// comparisonsKept is how many are remembered.
const comparisonsKept = 256

// compare is what lies between the followed branch and the pull request's head. Plans
// are made again now and then because live objects move; of a hundred idle pull requests
// none asks Git for that. A Sync that does not read its branch does not notice that it
// moved: then Git is asked each time.
func (p *Planner) compare(ctx context.Context, pr forge.PullRequest, sync *v1alpha1.Sync) (gitsource.Comparison, error) {
	_, attempted, _ := strings.Cut(sync.Status.LastAttemptedRevision, "sha1:")
	now := position{head: pr.Head.SHA, base: pr.Base.SHA, attempted: attempted}
	if was, ok := p.compared[pr.Number]; ok && was.position == now && attempted != "" && !sync.Spec.Suspend {
		if between, ok := p.Revisions.Recall(was.base, was.head); ok {
			return between, nil
		}
	}
	between, err := p.Revisions.Compare(ctx, p.base(), pr.Ref())
	if err != nil {
		return between, sourceFailure(err)
	}
	if between.Head.Commit == between.MergeBase.Commit {
		// The forge still lists it as open: its status must not be lost.
		return between, state.Failf(state.Retry, "AlreadyMerged", "planning the merge: %s has the head already", p.branch())
	}
	if len(p.compared) >= comparisonsKept || between.Base.Commit != p.tip {
		p.compared = nil // The others are to be compared with the new tip as well.
	}
	if between.Head.Commit == pr.Head.SHA {
		if p.compared == nil {
			p.compared = map[int]compared{}
		}
		p.compared[pr.Number] = compared{now, gitsource.Revision{Ref: p.base(), Commit: between.Base.Commit}, gitsource.Revision{Ref: pr.Ref(), Commit: between.Head.Commit}}
		p.tip = between.Base.Commit
	}
	return between, nil
}
