package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HealthCheckSpec is which objects have to be healthy for a Sync to be Ready. Its fields are
// those of Flux's Kustomization.
type HealthCheckSpec struct {
	// Wait has Ready wait until all objects that the Sync applied are healthy, as kstatus
	// computes it or HealthCheckExprs do; HealthChecks are not used then. Default false.
	// +optional
	Wait bool `json:"wait,omitempty"`
	// HealthChecks are objects, of this Sync or others', that have to be healthy for the Sync
	// to be Ready.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	HealthChecks []NamespacedObjectKindReference `json:"healthChecks,omitempty"`
	// HealthCheckExprs compute the health of custom resources by expressions in CEL, in place
	// of kstatus.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	HealthCheckExprs []CustomHealthCheck `json:"healthCheckExprs,omitempty"`
	// Timeout is how long the objects may take to become healthy, from when a revision is
	// applied or one of them was last healthy; then Ready has the reason HealthCheckFailed.
	// Default 5m, at least 1s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern="^([0-9]+(\\.[0-9]+)?(ms|s|m|h))+$"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="timeout must be at least 1s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// DefaultHealthCheckTimeout is the timeout of health checks where the Sync has none.
const DefaultHealthCheckTimeout = 5 * time.Minute

// ChecksHealth reports whether any object has to be healthy.
func (s HealthCheckSpec) ChecksHealth() bool { return s.Wait || len(s.HealthChecks) > 0 }

// HealthCheckTimeout is Timeout, or its default.
func (s HealthCheckSpec) HealthCheckTimeout() time.Duration {
	if s.Timeout == nil {
		return DefaultHealthCheckTimeout
	}
	return s.Timeout.Duration
}

// NamespacedObjectKindReference names an object.
type NamespacedObjectKindReference struct {
	// APIVersion of the object; empty for the core group in the version that the cluster serves.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the object, where its kind has one. Default: that of the Sync.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// CustomHealthCheck computes the health of all objects of a kind.
type CustomHealthCheck struct {
	// APIVersion of the objects, of which the group counts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	APIVersion string `json:"apiVersion"`
	// Kind of the objects; empty for all kinds of the group that no other entry names.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Kind string `json:"kind,omitempty"`

	HealthCheckExpressions `json:",inline"`
}

// HealthCheckExpressions are evaluated with the fields of an object as variables, InProgress
// first, then Failed, then Current. Where none is true, the object is in progress.
type HealthCheckExpressions struct {
	// Current is true for a healthy object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Current string `json:"current"`
	// InProgress is true for an object that is not healthy yet.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	InProgress string `json:"inProgress,omitempty"`
	// Failed is true for an object that has failed.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Failed string `json:"failed,omitempty"`
}
