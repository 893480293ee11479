package limits

import (
	"encoding/json"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	// MaxReviewedBytes is how many bytes of reviewed consequences a Sync's status keeps:
	// etcd takes 1.5 MiB for an object, and managed fields repeat them.
	MaxReviewedBytes = 128 << 10
	// MaxReviewedBytesPerPullRequest is how many of them are of one pull request.
	MaxReviewedBytesPerPullRequest = 32 << 10
)

// DropReviewed drops the reviewed consequences for which a status has no room: nobody
// counts as having reviewed them then, which lets fewer nodes be replaced without confirmation.
func DropReviewed(items []v1alpha1.PullRequestStatus) {
	left := MaxReviewedBytes
	for i := range items {
		n := ReviewedBytes(items[i].Reviewed)
		if n > left {
			items[i].Reviewed = nil
			continue
		}
		left -= n
	}
}

// ReviewedBytes is the size of reviewed consequences as JSON; nil has none.
func ReviewedBytes(r *v1alpha1.ReviewedDisruption) int {
	if r == nil {
		return 0
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return MaxReviewedBytes + 1
	}
	return len(raw)
}

// MaxNodeClaims is how many names of NodeClaims that roll-outs have replaced a Sync's status keeps.
const MaxNodeClaims = 2000

// DropNodeClaims drops the names of NodeClaims for which a status has no room: after a restart there may be more
// nodes than are counted then.
func DropNodeClaims(items []v1alpha1.PullRequestStatus) {
	left := MaxNodeClaims
	for i := range items {
		out := items[i].Rollout
		if out == nil {
			continue
		}
		if len(out.NodeClaims) > left {
			out.NodeClaims, out.Incomplete = out.NodeClaims[:left], true
		}
		left -= len(out.NodeClaims)
	}
}
