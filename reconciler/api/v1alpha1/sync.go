package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DriftPolicy is what to do about a live object that differs from Git.
// +kubebuilder:validation:Enum=Correct;Report
type DriftPolicy string

// DeletionPolicy is what the deletion of a Sync does to what it applied.
// +kubebuilder:validation:Enum=Orphan;Delete
type DeletionPolicy string

// The values of DriftPolicy and DeletionPolicy.
const (
	DriftCorrect DriftPolicy = "Correct"
	DriftReport  DriftPolicy = "Report"

	DeletionPolicyOrphan DeletionPolicy = "Orphan"
	DeletionPolicyDelete DeletionPolicy = "Delete"
)

// Sync has the controller apply a folder of a Git repository, or of an artifact of Flux, to the cluster. It is
// reconciled only in the controller's own namespace.
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'poolwright-installation'",message="the name poolwright-installation is reserved for what poolwright bootstrap installs; choose another"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.dependsOn) || self.spec.dependsOn.all(d, d.name != self.metadata.name)",message="a Sync cannot depend on itself: name others in spec.dependsOn"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.pullRequests) || !has(self.spec.sourceRef)",message="pullRequests needs spec.source.git: an artifact of Flux holds no pull requests"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.pullRequests) || !has(self.spec.source) || !has(self.spec.source.git.ref) || (!has(self.spec.source.git.ref.tag) && !has(self.spec.source.git.ref.commit))",message="pullRequests needs a branch to follow: set spec.source.git.ref.branch"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=poolwright
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.lastAppliedRevision`
// +kubebuilder:printcolumn:name="Drift",type=string,JSONPath=`.status.conditions[?(@.type=="Drifted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Sync struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SyncSpec `json:"spec"`
	// +optional
	Status SyncStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the status. It makes a Sync a Getter of
// github.com/fluxcd/pkg/runtime/conditions.
func (s *Sync) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions of the status. It makes a Sync a Setter of
// github.com/fluxcd/pkg/runtime/conditions.
func (s *Sync) SetConditions(conditions []metav1.Condition) { s.Status.Conditions = conditions }

// SyncSpec is the desired state of a Sync.
// +kubebuilder:validation:XValidation:rule="!has(self.healthCheckExprs) || (has(self.wait) && self.wait) || has(self.healthChecks)",message="healthCheckExprs needs wait: true or healthChecks, without which no object's health is checked"
// +kubebuilder:validation:XValidation:rule="has(self.source) != has(self.sourceRef)",message="set either source or sourceRef"
type SyncSpec struct {
	// Source is where the manifests are, where Poolwright fetches them itself. Either this
	// or SourceRef is set.
	// +optional
	Source Source `json:"source,omitzero"`
	// SourceRef names a source of Flux, whose artifact has the manifests: what source-controller
	// fetched last. It is applied as soon as the source has another.
	// +optional
	SourceRef *CrossNamespaceSourceReference `json:"sourceRef,omitempty"`
	// Path is the folder inside the source that contains a kustomization or
	// plain manifests. Slash-separated, relative to the root; default "."
	// (the root).
	// +kubebuilder:default="."
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="path must be relative to the repository's root and must not contain '..'"
	// +kubebuilder:validation:XValidation:rule=`!self.matches(r'\p{Cc}')`,message="path must not contain control characters such as line breaks"
	// +optional
	Path string `json:"path,omitempty"`
	// Interval is how often Git is fetched for a new revision, and a source of Flux read
	// again, which is watched besides. Default 1m, at least 5s.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s')",message="interval must be at least 5s"
	// +optional
	Interval metav1.Duration `json:"interval,omitzero"`
	// Drift is what happens to live objects that differ from Git: Correct
	// (default) corrects them, Report only reports it. With Report nothing is
	// ever written to AWS, for no revision and no deletion.
	// +kubebuilder:default=Correct
	// +optional
	Drift DriftPolicy `json:"drift,omitempty"`
	// Prune deletes objects that left the repository. Default true.
	// +kubebuilder:default=true
	// +optional
	Prune *bool `json:"prune,omitempty"`
	// Ignore names fields of which the live value stays: it is neither corrected nor counts as
	// drift. An object that does not exist is created with what the repository declares. Fields
	// that are guards cannot be ignored: those of Poolwright's own kinds, of roles and their
	// bindings, and the data of Secrets.
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	// +optional
	Ignore []IgnoreRule `json:"ignore,omitempty"`
	// Guard limits what one revision may do without a confirmation.
	// +kubebuilder:default={maxPrunePercent: 50}
	// +optional
	Guard Guard `json:"guard,omitzero"`
	// DeletionPolicy is what deleting the Sync does to the objects that it
	// applied: Orphan (default) leaves them, Delete deletes them.
	// +kubebuilder:default=Orphan
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// PullRequests lets Poolwright comment on each open pull request into the followed
	// branch what its merge would do, in one comment and a commit status, and after
	// the merge the progress of the roll-out. No request goes to a forge without it.
	// +optional
	PullRequests *PullRequests `json:"pullRequests,omitempty"`
	// Substitute gives variables their values: ${NAME} in the repository's manifests
	// becomes the value, after rendering and by the rules of Flux's post-build
	// substitution. It takes precedence over SubstituteFrom. Not for secrets.
	// +kubebuilder:validation:MaxProperties=256
	// +optional
	Substitute map[string]string `json:"substitute,omitempty"`
	// SubstituteFrom reads variables from other objects; a later entry takes precedence
	// over an earlier one.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	SubstituteFrom []SubstituteReference `json:"substituteFrom,omitempty"`
	// DependsOn are Syncs that have to be Ready before a revision is applied and objects are
	// deleted that left the repository. One of the same repository and branch, tag or commit
	// must have applied the same revision. Drift is corrected meanwhile.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	DependsOn       []DependencyReference `json:"dependsOn,omitempty"`
	HealthCheckSpec `json:",inline"`
	// Suspend stops fetching, applying and correcting. Default false.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Guard limits what one revision may do without a confirmation: delete objects,
// replace nodes, and declare more than quotas allow.
type Guard struct {
	// MaxPrunePercent of the managed objects may be deleted by one revision;
	// more wait for the annotation poolwright.dev/confirm. Fewer than ten
	// deletions never trip it, deleting everything always does. Default 50.
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	MaxPrunePercent *int32 `json:"maxPrunePercent,omitempty"`
	// MaxNodesReplaced is how many nodes the changes of pools, classes and overlays
	// in one revision may have Karpenter replace, or remove with a pool; with more,
	// or while the number cannot be predicted, those changes wait for the annotation
	// poolwright.dev/confirm. With 0 every replacement waits. Default: no limit.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxNodesReplaced *int32 `json:"maxNodesReplaced,omitempty"`
	// Quota is what happens to a change of a NodePool with which pools need more than the
	// account's vCPU quotas have left: Warn (default) applies it and warns, Hold has it wait for
	// the annotation poolwright.dev/confirm, or for the quota to be raised. What was short
	// before, and is no shorter with the change, does not hold it. While the quotas cannot be
	// read, each change with which a pool needs more of them waits.
	// +kubebuilder:default=Warn
	// +optional
	Quota QuotaPolicy `json:"quota,omitempty"`
}

// QuotaPolicy is what happens to a change that the account's quotas are too small for.
// +kubebuilder:validation:Enum=Warn;Hold
type QuotaPolicy string

// The values of QuotaPolicy.
const (
	// QuotaWarn applies the change, and warns.
	QuotaWarn QuotaPolicy = "Warn"
	// QuotaHold has the change wait for a confirmation.
	QuotaHold QuotaPolicy = "Hold"
)

// SyncStatus is the observed state of a Sync.
type SyncStatus struct {
	// ObservedGeneration is the generation of the spec that was last applied in full,
	// or found to be Stalled or suspended.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling, Stalled (kstatus), Drifted and RolledOut; Healthy where
	// objects have to be healthy; SourceVerified where revisions have to be signed; RolledBack while
	// an earlier revision is applied by a rollback; and ConfirmationMismatch while the annotation
	// poolwright.dev/confirm does not fit what waits.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// LastAppliedRevision is the revision whose objects were all applied,
	// written branch@sha1:commit, and otherwise as Flux writes it.
	// +optional
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`
	// SourceVerificationMode is the spec.source.git.verify.mode in which LastAppliedRevision was
	// verified before it was applied; absent where it was not.
	// +optional
	SourceVerificationMode GitVerificationMode `json:"sourceVerificationMode,omitempty"`
	// LastAppliedTreeID identifies the files of LastAppliedRevision, all of those in its source: a
	// source of Flux may have others under the same revision.
	// +optional
	LastAppliedTreeID string `json:"lastAppliedTreeID,omitempty"`
	// LastAttemptedRevision is the newest revision that the controller tried to apply.
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`
	// LastAttemptedURL is spec.source.git.url as it was when LastAttemptedRevision was
	// read from there, or KIND/NAMESPACE/NAME of spec.sourceRef.
	// +optional
	LastAttemptedURL string `json:"lastAttemptedURL,omitempty"`
	// LastHandledReconcileAt is the newest value of the annotation
	// reconcile.fluxcd.io/requestedAt that was acted on.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
	// ConfirmationToken is the value of the annotation poolwright.dev/confirm that lets
	// pass all that waits for a confirmation now, and nothing else; absent where nothing
	// does.
	// +optional
	ConfirmationToken string `json:"confirmationToken,omitempty"`
	// LastHandledConfirmationTokens are the confirmation tokens that were used, those of the highest
	// number of each purpose, separated by commas: their changes were made, or are no longer needed. A later
	// change of the same purpose needs a new token.
	// +optional
	LastHandledConfirmationTokens string `json:"lastHandledConfirmationTokens,omitempty"`
	// LastAttemptedConfirmationTokens are the confirmation tokens, separated by commas, with which
	// changes were begun that may not all be made: they are written before the first of
	// these. Tokens that let nothing pass any more are used, whatever else waits.
	// +optional
	LastAttemptedConfirmationTokens string `json:"lastAttemptedConfirmationTokens,omitempty"`
	// LastAppliedTime is when LastAppliedRevision was applied.
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`
	// PullRequests is the state of the pull requests; absent without
	// spec.pullRequests.
	// +optional
	PullRequests *PullRequestsStatus `json:"pullRequests,omitempty"`
	// Parameters are the values in use of the SSM parameters of spec.substituteFrom.
	// +listType=map
	// +listMapKey=variable
	// +optional
	Parameters []PinnedParameter `json:"parameters,omitempty"`
	// LastHandledUpdateParameters is the value of the annotation
	// poolwright.dev/update-parameters for which all of Parameters were last updated.
	// +optional
	LastHandledUpdateParameters string `json:"lastHandledUpdateParameters,omitempty"`
	// Objects is how many objects the Sync manages.
	// +optional
	Objects int32 `json:"objects,omitempty"`
	// Pending lists at most twenty changes that were not made: held by a
	// guard, refused by the API server, or drifted while only reporting. Those that
	// would lose nodes or data come first, the most first, then all by name.
	// +listType=atomic
	// +optional
	Pending []PendingChange `json:"pending,omitempty"`
	// PendingOmitted is how many changes that were not made are not listed in Pending.
	// +optional
	PendingOmitted int32 `json:"pendingOmitted,omitempty"`
	// Ignored lists at most twenty objects of which fields that spec.ignore names differ from the
	// repository, as of the last comparison of everything.
	// +listType=atomic
	// +optional
	Ignored []IgnoredFields `json:"ignored,omitempty"`
}

// PendingChange is a change that was not made, and why.
type PendingChange struct {
	// Object is Kind.group/namespace/name, after "aws " where it is in AWS.
	Object string `json:"object"`
	// Action is create, update or delete.
	Action string `json:"action"`
	// Reason is why it was not made.
	// +optional
	Reason string `json:"reason,omitempty"`
	// HeldBy are the rules that hold the change until a person confirms it or, by HoldUntil, until a time:
	// MaxPrunePercent, DeletionLosses, UpdateLosses, MaxNodesReplaced, ReviewExceeded, QuotaExceeded,
	// DependentDeletionHeld, SyncChangeHeld or HoldUntil.
	// Absent where none does.
	// +listType=atomic
	// +optional
	HeldBy []string `json:"heldBy,omitempty"`
	// SkippedBy are the rules by which the change is never made: ReadOnly or DriftReported. Absent where
	// none does; what has neither these nor HeldBy failed.
	// +listType=atomic
	// +optional
	SkippedBy []string `json:"skippedBy,omitempty"`
	// ConfirmationToken is the value of the annotation poolwright.dev/confirm that lets this
	// change pass, and with it what else the same tokens stand for; absent where no
	// confirmation does.
	// +optional
	ConfirmationToken string `json:"confirmationToken,omitempty"`
	// Source is file:line in the repository, where there is one.
	// +optional
	Source string `json:"source,omitempty"`
}

// SyncList is a list of Syncs.
// +kubebuilder:object:root=true
type SyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Sync `json:"items"`
}
