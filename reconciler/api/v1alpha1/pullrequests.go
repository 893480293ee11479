package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ForgeProvider names the kind of place where pull requests are made.
// +kubebuilder:validation:Enum=GitHub;GitLab;Gitea;Forgejo
type ForgeProvider string

// The values of ForgeProvider. Forgejo has Gitea's API.
const (
	ForgeGitHub  ForgeProvider = "GitHub"
	ForgeGitLab  ForgeProvider = "GitLab"
	ForgeGitea   ForgeProvider = "Gitea"
	ForgeForgejo ForgeProvider = "Forgejo"
)

// PullRequests is the forge on which pull requests get comments, and the credential for it.
type PullRequests struct {
	// Provider is the kind of forge.
	Provider ForgeProvider `json:"provider"`
	// SecretRef names a Secret in the Sync's namespace with the credential for the
	// forge's API: the key token, or for a GitHub App githubAppID,
	// githubAppInstallationID and githubAppPrivateKey. The key ca.crt contains a private
	// certificate authority, the key webhookSecret what signs webhooks (and
	// webhookSecretOld the one before, while they are changed). The Git credential of
	// spec.source is never used for it.
	SecretRef SecretRef `json:"secretRef"`
	// URL is the address of the repository at the forge where it is not that of
	// spec.source.git.url: https://host/owner/name, at GitLab with all groups.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern="^(https|http)://[^@\\s]+$"
	// +optional
	URL string `json:"url,omitempty"`
	// Interval is how often the forge is polled for pull requests; a webhook makes
	// updates faster. Default 30s, at least 5s.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s')",message="interval must be at least 5s"
	// +optional
	Interval metav1.Duration `json:"interval,omitzero"`
	// Forks lets pull requests from other repositories be planned, too. Anybody can
	// open one: its files are then rendered in a limited process without network or
	// credentials, and its author can read in the comment the part of the live cluster
	// that the change touches. Default false.
	// +optional
	Forks bool `json:"forks,omitempty"`
	// HoursPerDay is the hours of use a day for the month's cost in the comment. Default 24.
	// +kubebuilder:default=24
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=24
	// +optional
	HoursPerDay int32 `json:"hoursPerDay,omitempty"`
}

// PullRequestsStatus is the state of a Sync's pull requests.
type PullRequestsStatus struct {
	// Reason is why pull requests cannot be commented on now, in CamelCase, such as
	// ForgeUnavailable, Unauthorized or RateLimited; empty while they can.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is what is wrong, and the remedy.
	// +optional
	Message string `json:"message,omitempty"`
	// Open is the number of open pull requests into the followed branch, those that are
	// not planned included.
	Open int32 `json:"open"`
	// Items are the planned and the recently merged pull requests, the newest first,
	// at most fifty.
	// +listType=map
	// +listMapKey=number
	// +optional
	Items []PullRequestStatus `json:"items,omitempty"`
}

// PullRequestPhase is the state of a pull request.
// +kubebuilder:validation:Enum=Planned;Failed;Merged;RollingOut;Done
type PullRequestPhase string

// The values of PullRequestPhase.
const (
	// PullRequestPlanned is an open one whose comment shows what its merge would do.
	PullRequestPlanned PullRequestPhase = "Planned"
	// PullRequestFailed is an open one that cannot be planned; Headline has the reason.
	PullRequestFailed PullRequestPhase = "Failed"
	// PullRequestMerged is one whose merge is not applied yet.
	PullRequestMerged PullRequestPhase = "Merged"
	// PullRequestRollingOut is one that is applied, and nodes are yet to be replaced.
	PullRequestRollingOut PullRequestPhase = "RollingOut"
	// PullRequestDone is one of which there is no more to report.
	PullRequestDone PullRequestPhase = "Done"
)

// PullRequestCommentKind is what the comment on a pull request shows.
// +kubebuilder:validation:Enum=Plan;Unaffected;Outcome;Drift
type PullRequestCommentKind string

// The values of PullRequestCommentKind.
const (
	// PullRequestCommentPlan shows a plan, or why there is none.
	PullRequestCommentPlan PullRequestCommentKind = "Plan"
	// PullRequestCommentUnaffected is of a pull request that changes nothing of this cluster: no
	// comment is created for it, and one that is there reports that.
	PullRequestCommentUnaffected PullRequestCommentKind = "Unaffected"
	// PullRequestCommentOutcome also shows what came of the merge.
	PullRequestCommentOutcome PullRequestCommentKind = "Outcome"
	// PullRequestCommentDrift also shows how live objects differ from what is applied.
	PullRequestCommentDrift PullRequestCommentKind = "Drift"
)

// PullRequestStatus is what was reported on one pull request.
type PullRequestStatus struct {
	// Number is the pull request's number at the forge.
	Number int64 `json:"number"`
	// Phase is its state: Planned, Failed, Merged, RollingOut or Done.
	Phase PullRequestPhase `json:"phase"`
	// Head and Base are the commits that were compared.
	// +optional
	Head string `json:"head,omitempty"`
	// +optional
	Base string `json:"base,omitempty"`
	// Headline is the heading of the comment: what the merge would do, in one line, without markup. Of a Failed one it is
	// the reason.
	// +optional
	Headline string `json:"headline,omitempty"`
	// CommentHash identifies the comment that was written, so that it is not written again.
	// +optional
	CommentHash string `json:"commentHash,omitempty"`
	// CommentKind is what the comment shows: Plan, Unaffected, Outcome or Drift. Absent where
	// nothing was reported.
	// +optional
	CommentKind PullRequestCommentKind `json:"commentKind,omitempty"`
	// CommentEditOnly is true where a comment that is there is edited and none is created,
	// because the merged head was not planned.
	// +optional
	CommentEditOnly bool `json:"commentEditOnly,omitempty"`
	// MergedOtherHead is true where another head was merged than the one that the comment's
	// plan was made for.
	// +optional
	MergedOtherHead bool `json:"mergedOtherHead,omitempty"`
	// Reviewed are the consequences that the comment showed, against which the merge is
	// checked.
	// +optional
	Reviewed *ReviewedDisruption `json:"reviewed,omitempty"`
	// Rollout is what was observed of nodes after the merge, for a comparison with Reviewed. Absent
	// where no pool, class or overlay changed.
	// +optional
	Rollout *RolloutOutcome `json:"rollout,omitempty"`
	// MergeCommit is the commit of the merge.
	// +optional
	MergeCommit string `json:"mergeCommit,omitempty"`
	// MergedTime is when it was merged, AppliedTime when that was applied,
	// RolledOutTime when the last node that it made stale was gone.
	// +optional
	MergedTime *metav1.Time `json:"mergedTime,omitempty"`
	// +optional
	AppliedTime *metav1.Time `json:"appliedTime,omitempty"`
	// +optional
	RolledOutTime *metav1.Time `json:"rolledOutTime,omitempty"`
}

// ReviewedDisruption are what a reviewer was shown of nodes.
type ReviewedDisruption struct {
	// Objects are the pools, classes and overlays that would change, sorted.
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +optional
	Objects []ReviewedObject `json:"objects,omitempty"`
	// NodesReplaced is how many nodes would be replaced, NodesRemoved how many would
	// be removed with their pools.
	NodesReplaced int32 `json:"nodesReplaced"`
	NodesRemoved  int32 `json:"nodesRemoved"`
	// Pools are the pools that the changes touch, with how many of the nodes above are
	// of each: 0 for one that loses none. Nodes of other pools were not shown.
	// +listType=map
	// +listMapKey=name
	// +optional
	Pools []ReviewedPool `json:"pools,omitempty"`
	// MinMinutes and MaxMinutes bound the time until the last of the nodes would be replaced; 0
	// where none would be.
	// +optional
	MinMinutes int32 `json:"minMinutes,omitempty"`
	// +optional
	MaxMinutes int32 `json:"maxMinutes,omitempty"`
	// CostChange is by how much the nodes would cost more an hour; absent where prices of some
	// are not known.
	// +optional
	CostChange *HourlyCost `json:"costChange,omitempty"`
}

// HourlyCost is in US dollars an hour, before tax and discounts, as decimal numbers: "4.1", "-0.526".
type HourlyCost struct {
	// Min and Max bound it; they differ where there are spot instances whose prices are not known.
	Min string `json:"min"`
	Max string `json:"max"`
}

// RolloutOutcome is what was observed of nodes after a merge.
type RolloutOutcome struct {
	// NodesReplaced is how many nodes were or are to be replaced for the merge, NodesRemoved how many
	// with their pools.
	NodesReplaced int32 `json:"nodesReplaced"`
	NodesRemoved  int32 `json:"nodesRemoved"`
	// CostBefore is what the nodes of the pools in Reviewed cost when the merge was applied,
	// CostAfter when the roll-out had ended; absent where prices of some are not known.
	// +optional
	CostBefore *HourlyCost `json:"costBefore,omitempty"`
	// +optional
	CostAfter *HourlyCost `json:"costAfter,omitempty"`
	// NodeClaims are the names of those that are counted, sorted, until the roll-out has ended; at most
	// two thousand in a status.
	// +optional
	// +listType=set
	NodeClaims []string `json:"nodeClaims,omitempty"`
	// Incomplete is true where there may have been more nodes than are counted.
	// +optional
	Incomplete bool `json:"incomplete,omitempty"`
}

// ReviewedObject is a pool, a class or an overlay that would change.
type ReviewedObject struct {
	// Kind and Name are the object's.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Hash is that of what is desired after the merge. Empty, the object is deleted.
	// +optional
	Hash string `json:"hash,omitempty"`
}

// ReviewedPool is what a reviewer was shown of one pool's nodes.
type ReviewedPool struct {
	// Name is the NodePool's.
	Name string `json:"name"`
	// Nodes is how many of its nodes would be replaced, or removed with it.
	Nodes int32 `json:"nodes"`
}
