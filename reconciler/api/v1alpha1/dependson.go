package v1alpha1

// DependencyReference names a Sync that another depends on. Its fields are those of Flux's
// Kustomization.
type DependencyReference struct {
	// Name of the Sync that has to be Ready first.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of that Sync. Only that of the Sync itself is allowed, which is the default:
	// Syncs are reconciled in no other.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// ReadyExpr is an expression in CEL that is true once the Sync dep lets the Sync self be
	// applied, in place of the checks that dep is Ready and has applied the same revision.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	ReadyExpr string `json:"readyExpr,omitempty"`
}
