package operator

import (
	"strings"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/buildcache"
	"github.com/poolwright/poolwright/reconciler/forecasting"
)

// children start the processes in which Git content is rendered and Karpenter's code
// runs on it. All share the slots of this process.
type children struct {
	// followed render followed branches, ahead forecast before an apply, and proposed do
	// both for pull requests: nobody who may open one makes the others wait.
	followed, ahead, proposed *child.Runner
	// builds are builds of what was rendered of followed branches.
	builds *buildcache.Cache
	// revisions are what was rendered for the Syncs, decoded.
	revisions *reconciler.RevisionCache
}

// followedOutput and followedDecoded bound, in bytes, what is rendered of a followed
// branch: twice what a proposal may come to, of which several are at hand at once.
const (
	followedOutput  = 32 << 20
	followedDecoded = 192 << 20
)

// cachedRevisions is how many bytes of memory the decoded revisions of all Syncs take
// between runs, and uncachedRevisions how many those that runs load for themselves.
const (
	cachedRevisions   = 192 << 20
	uncachedRevisions = 256 << 20
)

func newChildren() children {
	return children{
		builds:    &buildcache.Cache{},
		revisions: reconciler.NewRevisionCache(cachedRevisions, uncachedRevisions),
		followed:  &child.Runner{Limits: child.Limits{Output: followedOutput, Decoded: followedDecoded}},
		ahead:     &child.Runner{Limits: child.Limits{Deadline: forecasting.Timeout}},
		proposed:  &child.Runner{Proposed: true},
	}
}

// forSync are the children for what a Sync follows, which keep builds from one of its revisions to
// the next, and nothing for another's.
func (c children) forSync(sync *v1alpha1.Sync) *child.Runner {
	followed := *c.followed
	followed.Builds = c.builds.Folder(strings.Join([]string{string(sync.UID), sync.Address(), sync.Spec.Path}, "\n"))
	return &followed
}

// forPullRequests are the children for the pull requests of a repository, which takes turns with
// the others.
func (c children) forPullRequests(repository string) *child.Runner {
	proposed := *c.proposed
	proposed.Repository = repository
	return &proposed
}
