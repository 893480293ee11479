// Package v1alpha1 contains Poolwright's own kinds, group poolwright.dev: Sync
// (the folder to apply), Cluster (the EKS cluster, its engine and AWS resources)
// and DevicePlugin (how its GPUs are shared).
//
// It refuses behaviour: types, defaults, validation and access to conditions only,
// importing nothing but apimachinery. The CRDs in config/crd are generated from here. Start
// reading at Sync.
// +kubebuilder:object:generate=true
// +groupName=poolwright.dev
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is poolwright.dev/v1alpha1.
var GroupVersion = schema.GroupVersion{Group: "poolwright.dev", Version: "v1alpha1"}

// Annotations and labels that users and tools set or read. An immediate run is requested
// with Flux's, ReconcileRequestAnnotation of github.com/fluxcd/pkg/apis/meta, so that
// existing tools and webhooks work.
const (
	// ConfirmAnnotation on a Sync confirms what waits for the confirmation tokens that it
	// quotes, separated by commas.
	ConfirmAnnotation = "poolwright.dev/confirm"
	// WebhookAnnotation on a Sync is when a verified webhook last reported that its pull
	// requests changed, as RFC 3339 with nanoseconds: whichever replica received it, the
	// leader reads them.
	WebhookAnnotation = "poolwright.dev/webhook-received-at"
	// UpdateParametersAnnotation on a Sync updates the SSM parameters of
	// spec.substituteFrom to their newest values; any new value counts.
	UpdateParametersAnnotation = "poolwright.dev/update-parameters"
	// SuspendReasonAnnotation on a Sync is why a person suspended it, for other people to read.
	SuspendReasonAnnotation = "poolwright.dev/suspend-reason"
	// SuspendUntilAnnotation on a suspended Sync is when the controller resumes it, as RFC 3339. One that is no
	// time does not end the suspension.
	SuspendUntilAnnotation = "poolwright.dev/suspend-until"
	// RollbackAnnotation on a Sync is the commit, 40 digits, that it stays at instead of following its
	// branch or tag, until the annotation is removed.
	RollbackAnnotation = "poolwright.dev/rollback-to"
	// RollbackReasonAnnotation on a Sync is why a person rolled it back, for other people to read.
	RollbackReasonAnnotation = "poolwright.dev/rollback-reason"
	// ConfirmGarbageCollectionAnnotation on a Cluster lets the engine start although some
	// of the cluster's EC2 instances have no NodeClaim; they will be terminated.
	// Its value is the number and digest that the refusal quotes: "3-1a2b3c4d".
	ConfirmGarbageCollectionAnnotation = "poolwright.dev/confirm-garbage-collection"
	// PruneAnnotation with the value "disabled" on an object keeps it when it
	// leaves the repository.
	PruneAnnotation = "poolwright.dev/prune"
	// HoldUntilAnnotation on an object, in the cluster or in the repository, has Poolwright leave the object as it is
	// until then: RFC 3339, at most seven days ahead.
	HoldUntilAnnotation = "poolwright.dev/hold-until"
	// HoldReasonAnnotation on such an object is why, for other people to read.
	HoldReasonAnnotation = "poolwright.dev/hold-reason"
	// SyncLabel on an applied object names the Sync that manages it.
	SyncLabel = "poolwright.dev/sync"
	// GPULimitAnnotation on a NodePool in the repository is its limit in physical
	// GPUs. It is written into spec.limits as the number of shares that they are
	// under the pool's configuration.
	GPULimitAnnotation = "poolwright.dev/gpu-limit"
)

// Finalizer is on every Sync, so that its deletion policy can be honoured.
const Finalizer = "poolwright.dev/finalizer"

// FieldManager is the name under which Poolwright owns fields.
const FieldManager = "poolwright"

// AddToScheme registers the kinds.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Sync{}, &SyncList{}, &Cluster{}, &ClusterList{}, &DevicePlugin{}, &DevicePluginList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
