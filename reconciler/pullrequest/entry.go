package pullrequest

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// entry is what is known of one pull request. Only the item outlives the process:
// after a restart nothing is written again as long as it is the same.
type entry struct {
	item v1alpha1.PullRequestStatus
	// made is what the last plan of this process was made of.
	made made
	// publication is what the last plan came to, nil before; good the last that was no
	// failure.
	publication, good *publication
	// unpublished is set while the forge does not have the publication.
	unpublished bool
	// pending is set while the forge has been informed that the head is planned for another
	// base: it must get what came of it, whatever that is.
	pending bool
	// announced is the new head beside which the forge shows that it is being planned, or
	// is not.
	announced string
	// retry is when to plan again after a failure that may pass, post when to send to the
	// forge again after one of its.
	retry, post limits.Backoff
	// verifiedAt is the pull request's last change at which its comment was sure to be
	// there.
	verifiedAt time.Time
	// publishedAt is when the comment was last known to be the newest.
	publishedAt time.Time
	rollout     rolloutReport
}

// made is what a plan was made of: where one of these differs, there may be another.
type made struct {
	at time.Time
	// head is as it was listed.
	head string
	// attempted is the Sync's newest revision.
	attempted  string
	driftHash  string
	generation int64
	// duration is how long was worked on it, spent how long on those before as well, same how
	// many in a row were made again and came to the same.
	duration time.Duration
	spent    limits.Usage
	same     int
}

// publication is what is to be published about one head.
type publication struct {
	forge.Comment
	// item is what the Sync's status lists once the forge has the comment.
	item v1alpha1.PullRequestStatus
	// line is the description of the commit status, state its state. The annotations stand beside the files of the head.
	line        string
	state       forge.State
	annotations []forge.LineAnnotation
}

func (e *entry) unaffected() bool {
	return e.item.CommentKind == v1alpha1.PullRequestCommentUnaffected
}

// merged reports whether the record follows what comes of a merge.
func (e *entry) merged() bool {
	switch e.item.Phase {
	case v1alpha1.PullRequestMerged, v1alpha1.PullRequestRollingOut, v1alpha1.PullRequestDone:
		return true
	default:
		return false
	}
}

// recordedEntries are the records that a Sync's status has kept.
func recordedEntries(sync *v1alpha1.Sync) map[int64]*entry {
	out := map[int64]*entry{}
	if sync.Status.PullRequests == nil {
		return out
	}
	for _, item := range sync.Status.PullRequests.Items {
		e := &entry{item: *item.DeepCopy()}
		if e.item.CommentKind == "" && e.item.CommentHash != "" {
			e.completeCommentKind()
		}
		out[item.Number] = e
	}
	return out
}

// completeCommentKind completes a record of a version that did not write the comment's kind.
// Whether there is a comment is unknown then, and an open pull request is planned again:
// what it was reported is edited once at most, and nothing is created for a merged one.
func (e *entry) completeCommentKind() {
	e.item.CommentKind, e.item.CommentEditOnly = v1alpha1.PullRequestCommentOutcome, true
	if !e.merged() {
		e.item.CommentKind, e.item.Base = v1alpha1.PullRequestCommentPlan, ""
	}
}

// unplanned are the records without what this process keeps in memory; for every open
// pull request the base counts as moved.
func unplanned(records map[int64]*entry) map[int64]*entry {
	out := map[int64]*entry{}
	for number, r := range records {
		out[number] = &entry{item: r.item}
		if !r.merged() {
			out[number].item.Base = ""
		}
	}
	return out
}

// itemsKept is how many pull requests a status lists.
const itemsKept = 50

// items are the records as the status shows them: the newest first, at most fifty.
// Where there are more, those whose merge is yet to be reported to its end stay before
// the open ones, and those before what is done.
func items(records map[int64]*entry) []v1alpha1.PullRequestStatus {
	var out []v1alpha1.PullRequestStatus
	for _, r := range records {
		if r.item.Phase != "" {
			item := *r.item.DeepCopy()
			item.Headline = sanitize.Text(item.Headline) // It repeats what others wrote.
			out = append(out, item)
		}
	}
	newest := func(a, b v1alpha1.PullRequestStatus) int { return cmp.Compare(b.Number, a.Number) }
	slices.SortFunc(out, func(a, b v1alpha1.PullRequestStatus) int {
		return cmp.Or(cmp.Compare(weight(a), weight(b)), newest(a, b))
	})
	out = out[:min(len(out), itemsKept)]
	limits.DropReviewed(out)
	limits.DropNodeClaims(out)
	slices.SortFunc(out, newest)
	return out
}

// weight orders what is kept of more than a status holds, the lightest first.
func weight(item v1alpha1.PullRequestStatus) int {
	switch item.Phase {
	case v1alpha1.PullRequestMerged, v1alpha1.PullRequestRollingOut:
		if item.Reviewed != nil {
			// By what was reviewed the apply is held.
			return 0
		}
		return 1
	case v1alpha1.PullRequestDone:
		return 3
	default:
		return 2
	}
}

// rolloutReport is what this process has of the end of a merged pull request's comment.
type rolloutReport struct {
	// at is when it was written last.
	at time.Time
	// checkedApplied is the applied commit that is known not to hold the merge, attemptedRevision the
	// one that was attempted, and attemptedContains whether that holds it.
	checkedApplied, attemptedRevision string
	attemptedContains                 bool
	// checkFailedAt is when a check whether a revision holds the merge last failed.
	checkFailedAt time.Time
	// most is the largest number of nodes that were stale at once.
	most int
	// line is what stands next to the commits, phases are those of the merge that
	// were reported.
	line   string
	phases map[mergePhase]bool
	// failing is the reason that the Sync has given since a time for not being ready.
	failing string
	since   time.Time
	// driftGone is set where the tail reports that the drift which it showed is gone.
	driftGone bool
}

// followedFor is how long ago a merge may be to be followed on although the forge's
// listing has dropped it for newer ones.
const followedFor = 30 * 24 * time.Hour

// unfinished reports whether there is still something to report of a merge.
func (e *entry) unfinished(now time.Time) bool {
	if e.item.Phase != v1alpha1.PullRequestMerged && e.item.Phase != v1alpha1.PullRequestRollingOut {
		return false
	}
	return e.item.MergedTime != nil && now.Sub(e.item.MergedTime.Time) < followedFor
}

// unlisted is a merged pull request as the record has it: without a page.
func (e *entry) unlisted() forge.PullRequest {
	return forge.PullRequest{
		Number: int(e.item.Number), Head: forge.Branch{SHA: e.item.Head}, Merged: e.item.MergedTime.Time, MergeCommit: e.item.MergeCommit,
	}
}

// merge is the commit by which the merge is found again.
func (e *entry) merge() string {
	if e.item.MergeCommit != "" {
		return e.item.MergeCommit
	}
	return e.item.Head
}

// stamp is a time as a status keeps it: the next process must read the same.
func stamp(t time.Time) *metav1.Time {
	at := metav1.NewTime(t)
	at = at.Rfc3339Copy()
	return &at
}

// recent is how long ago a pull request that nobody planned may have been merged to
// be followed all the same.
const recent = time.Hour

// mergePhase is how far a merge has come, as its status reports it.
type mergePhase string

// setReported records that a phase was reported.
func (t *rolloutReport) setReported(now mergePhase) {
	if t.phases == nil {
		t.phases = map[mergePhase]bool{}
	}
	t.phases[now] = true
}

// published records a publication that the forge has. It is of a pull request that is not
// merged, as far as it is recorded: no other field of the item is set.
func (e *entry) published(now time.Time) {
	e.item, e.unpublished, e.publishedAt = e.publication.item, false, now
}
