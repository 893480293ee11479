package get

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/suspension"
)

// Sync is the state of a Sync.
type Sync struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Ready and Drifted are the statuses of its conditions; Unknown where it has none.
	Ready   string `json:"ready"`
	Drifted string `json:"drifted"`
	// NotSelectedBy is the controller's --watch-label-selector where it does not select the Sync, so that this is not reconciled and its conditions
	// are of an earlier time; empty where it does, or where that is not known, which incompleteKinds has.
	NotSelectedBy string `json:"notSelectedBy,omitempty"`
	Suspended     bool   `json:"suspended"`
	// SuspendReason is why, where somebody named a reason.
	SuspendReason string `json:"suspendReason,omitempty"`
	// SuspendedUntil is when the controller resumes it; absent where it does not.
	SuspendedUntil *metav1.Time `json:"suspendedUntil,omitempty"`
	SyncRollback   `json:",inline"`
	// Revision is what was applied last, AttemptedRevision what was tried last.
	Revision          string `json:"revision,omitempty"`
	AttemptedRevision string `json:"attemptedRevision,omitempty"`
	// Objects is how many it manages, Pending how many changes were not made.
	Objects int         `json:"objects"`
	Pending int         `json:"pending"`
	Created metav1.Time `json:"created"`
	// Reason and Message are those of the condition Ready.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// DriftReason is that of the condition Drifted, DriftTransition is when it changed last; absent where it has none.
	DriftReason     string       `json:"driftReason,omitempty"`
	DriftTransition *metav1.Time `json:"driftTransition,omitempty"`
	// PullRequests is whether the pull requests into its branch are read; absent without spec.pullRequests.
	PullRequests *PullRequestsState `json:"pullRequests,omitempty"`
}

// SyncRollback is what a Sync was rolled back to; empty where it was not.
type SyncRollback struct {
	// RolledBackTo is the revision that it stays at, and RollbackReason why, where somebody named a reason.
	RolledBackTo   string `json:"rolledBackTo,omitempty"`
	RollbackReason string `json:"rollbackReason,omitempty"`
}

// PullRequestsState is the state of a Sync's pull requests, as of when they were read last.
type PullRequestsState struct {
	// Open is how many are open, those included that are not planned; absent before the first time that they are read.
	Open *int `json:"open,omitempty"`
	// Reason and Message are why they cannot be read or commented on; empty while they can.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// statusOf is the status of a condition; Unknown where there is none.
func statusOf(from conditions.Getter, kind string) string {
	if c := conditions.Get(from, kind); c != nil {
		return string(c.Status)
	}
	return string(metav1.ConditionUnknown)
}

// syncsOf are the Syncs, of which the controller of a namespace selects some.
func syncsOf(syncs []v1alpha1.Sync, selectors map[string]labels.Selector) []Sync {
	out := []Sync{}
	for _, s := range syncs {
		row := Sync{
			Namespace: s.Namespace, Name: s.Name, Suspended: s.Spec.Suspend, Created: s.CreationTimestamp,
			Ready: statusOf(&s, fluxmeta.ReadyCondition), Drifted: statusOf(&s, "Drifted"),
			Revision: s.Status.LastAppliedRevision, AttemptedRevision: s.Status.LastAttemptedRevision,
			Objects: int(s.Status.Objects), Pending: len(s.Status.Pending) + int(s.Status.PendingOmitted),
			SyncRollback: SyncRollback{rollback.Revision(&s), rollback.Reason(&s)},
		}
		if c := conditions.Get(&s, fluxmeta.ReadyCondition); c != nil {
			row.Reason, row.Message = c.Reason, sanitize.Text(c.Message)
		}
		if c := conditions.Get(&s, "Drifted"); c != nil {
			row.DriftReason, row.DriftTransition = c.Reason, &c.LastTransitionTime
		}
		if selector := selectors[s.Namespace]; selector != nil && !selector.Matches(labels.Set(s.Labels)) {
			row.NotSelectedBy = selector.String()
		}
		row.PullRequests = pullRequestsState(&s)
		row.SuspendReason = suspension.Reason(&s)
		if until := suspension.Until(&s); !until.IsZero() {
			row.SuspendedUntil = &metav1.Time{Time: until}
		}
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b Sync) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) })
	return out
}

// pullRequestsState is the state of a Sync's pull requests; nil where it has none.
func pullRequestsState(s *v1alpha1.Sync) *PullRequestsState {
	status := s.Status.PullRequests
	switch {
	case s.Spec.PullRequests == nil:
		return nil
	case status == nil:
		return &PullRequestsState{}
	}
	open := int(status.Open)
	return &PullRequestsState{Open: &open, Reason: sanitize.Text(status.Reason), Message: sanitize.Text(status.Message)}
}

// pullRequestURL is the page of a pull request at the forge; empty where the address of the repository is not of the form https://host/owner/name.
func pullRequestURL(s *v1alpha1.Sync, number int64) string {
	at, err := url.Parse(repositoryAddress(s))
	if s.Spec.PullRequests == nil || err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return ""
	}
	path := map[v1alpha1.ForgeProvider]string{v1alpha1.ForgeGitHub: "pull", v1alpha1.ForgeGitLab: "-/merge_requests", v1alpha1.ForgeGitea: "pulls", v1alpha1.ForgeForgejo: "pulls"}[s.Spec.PullRequests.Provider]
	if path == "" {
		return ""
	}
	at.Path = strings.TrimSuffix(strings.TrimSuffix(at.Path, "/"), ".git")
	return at.JoinPath(path, strconv.FormatInt(number, 10)).String()
}

// repositoryAddress is the address of the repository at the forge.
func repositoryAddress(s *v1alpha1.Sync) string {
	if p := s.Spec.PullRequests; p != nil && p.URL != "" {
		return p.URL
	}
	return s.Spec.Source.Git.URL
}

// shortRevision is a revision with seven digits of its commit, or of an artifact's digest.
func shortRevision(revision string) string {
	const digits = 7
	for _, algorithm := range []string{"sha1:", "sha256:"} {
		if ref, commit, found := strings.Cut(revision, algorithm); found && (ref == "" || strings.HasSuffix(ref, "@")) && len(commit) >= digits {
			return ref + commit[:digits]
		}
	}
	return revision
}

// PullRequest is a pull request of which a Sync reports.
type PullRequest struct {
	Namespace string `json:"namespace"`
	Sync      string `json:"sync"`
	Number    int64  `json:"number"`
	// URL is its page at the forge; absent where that is not known.
	URL string `json:"url,omitempty"`
	// Phase is Planned, Failed, Merged, RollingOut or Done.
	Phase string `json:"phase"`
	Head  string `json:"head,omitempty"`
	// NodesReplaced and NodesRemoved are what its comment forecast; absent where it did not.
	NodesReplaced *int `json:"nodesReplaced,omitempty"`
	NodesRemoved  *int `json:"nodesRemoved,omitempty"`
	// Headline is the first line of its comment.
	Headline string       `json:"headline,omitempty"`
	Merged   *metav1.Time `json:"merged,omitempty"`
	// Reviewed is what its comment predicted of nodes, and for which objects; absent where it did not.
	Reviewed *v1alpha1.ReviewedDisruption `json:"reviewed,omitempty"`
	// Rollout is what was observed of nodes after the merge, without the names of the NodeClaims; absent before.
	Rollout *v1alpha1.RolloutOutcome `json:"rollout,omitempty"`
}

// pullRequestsOf are those of all Syncs, the newest first.
func pullRequestsOf(syncs []v1alpha1.Sync) []PullRequest {
	out := []PullRequest{}
	for _, s := range syncs {
		if s.Status.PullRequests == nil {
			continue
		}
		for _, item := range s.Status.PullRequests.Items {
			row := PullRequest{Namespace: s.Namespace, Sync: s.Name, Number: item.Number, URL: pullRequestURL(&s, item.Number), Phase: string(item.Phase), Head: item.Head, Headline: sanitize.Text(item.Headline), Merged: item.MergedTime}
			if r := item.Reviewed; r != nil {
				replaced, removed := int(r.NodesReplaced), int(r.NodesRemoved)
				row.NodesReplaced, row.NodesRemoved, row.Reviewed = &replaced, &removed, r
			}
			if item.Rollout != nil {
				rollout := *item.Rollout
				rollout.NodeClaims = nil
				row.Rollout = &rollout
			}
			out = append(out, row)
		}
	}
	slices.SortStableFunc(out, func(a, b PullRequest) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Sync, b.Sync), cmp.Compare(b.Number, a.Number))
	})
	return out
}

// Difference is an object that is not as declared, and was not corrected.
type Difference struct {
	// Owner is the object whose status has it: Sync namespace/name, or Cluster name.
	Owner string `json:"owner"`
	// Object is Kind.group/namespace/name, after "aws " where it is in AWS.
	Object string `json:"object"`
	// Action is what would correct it: create, update or delete; empty where it is not known.
	Action string `json:"action,omitempty"`
	// HeldBy are the rules that hold the correction, as in status.pending of a Sync.
	HeldBy []string `json:"heldBy,omitempty"`
	// SkippedBy are the rules by which it is never made.
	SkippedBy []string `json:"skippedBy,omitempty"`
	// Reason is why it was not corrected, or what differs.
	Reason string `json:"reason,omitempty"`
	// Source is file:line in the repository.
	Source string `json:"source,omitempty"`
	// Ignored are the fields that differ and are not corrected, because the Sync ignores them.
	Ignored []string `json:"ignored,omitempty"`
}

// driftOf are the differences that Syncs and the Cluster report.
func driftOf(o Objects) []Difference {
	out := []Difference{}
	for _, s := range o.Syncs {
		for _, c := range s.Status.Pending {
			out = append(out, Difference{Owner: "Sync " + s.Namespace + "/" + s.Name, Object: sanitize.Text(c.Object), Action: c.Action, HeldBy: c.HeldBy, SkippedBy: c.SkippedBy, Reason: sanitize.Text(c.Reason), Source: sanitize.Text(c.Source)})
		}
	}
	for _, s := range o.Syncs {
		for _, i := range s.Status.Ignored {
			d := Difference{Owner: "Sync " + s.Namespace + "/" + s.Name, Object: sanitize.Text(i.Object), Source: sanitize.Text(i.Source)}
			for _, field := range i.Fields {
				d.Ignored = append(d.Ignored, sanitize.Text(field))
			}
			d.Reason = "ignored: " + strings.Join(d.Ignored, ", ")
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int { return cmp.Compare(a.Owner, b.Owner) })
	if o.Cluster == nil || o.Cluster.Status.AWS == nil {
		return out
	}
	for _, d := range o.Cluster.Status.AWS.Differences {
		out = append(out, Difference{Owner: "Cluster " + o.Cluster.Name, Object: "aws " + sanitize.Text(d.Resource), Reason: sanitize.Text(d.Message)})
	}
	for _, u := range o.Cluster.Status.AWS.Unknown {
		out = append(out, Difference{Owner: "Cluster " + o.Cluster.Name, Object: "aws " + sanitize.Text(u.Resource), Reason: "unknown: " + sanitize.Text(u.Reason)})
	}
	return out
}

// Quota is a vCPU quota of EC2 in the Cluster's region and account.
type Quota struct {
	Name       string `json:"name"`
	LimitVCPUs int64  `json:"limitVCPUs"`
	UsedVCPUs  int64  `json:"usedVCPUs"`
	// Observed is when AWS was read.
	Observed metav1.Time `json:"observed"`
}

func quotasOf(c *v1alpha1.Cluster) []Quota {
	out := []Quota{}
	if c == nil || c.Status.AWS == nil {
		return out
	}
	for _, q := range c.Status.AWS.Quotas {
		out = append(out, Quota{Name: sanitize.Text(q.Name), LimitVCPUs: q.LimitVCPUs, UsedVCPUs: q.UsedVCPUs, Observed: c.Status.AWS.ObservedAt})
	}
	return out
}
