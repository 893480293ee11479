package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The kinds of SubstituteReference.
const (
	SubstituteConfigMap    = "ConfigMap"
	SubstituteSecret       = "Secret"
	SubstituteSSMParameter = "SSMParameter"
)

// SubstituteReference names what variables come from. A ConfigMap and a Secret, in
// the Sync's namespace, give one variable a key; an SSM parameter gives one.
// +kubebuilder:validation:XValidation:rule="(self.kind == 'SSMParameter') == has(self.variable)",message="set variable for kind SSMParameter and for no other"
// +kubebuilder:validation:XValidation:rule="self.kind != 'SSMParameter' || self.name.startsWith('/aws/service/')",message="an SSM parameter must be one of AWS's public ones: its name starts with /aws/service/"
type SubstituteReference struct {
	// Kind is ConfigMap, Secret or SSMParameter. Values of a Secret may be used in
	// the data and stringData of Secrets only.
	// +kubebuilder:validation:Enum=ConfigMap;Secret;SSMParameter
	Kind string `json:"kind"`
	// Name of the object, or of the public SSM parameter, such as
	// /aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1011
	Name string `json:"name"`
	// Variable is the one that gets the value of an SSM parameter. The value stays
	// as it was when this entry was first read, so that no node is replaced because
	// AWS published an image: status.parameters has it, and the newest one beside it,
	// to which the annotation poolwright.dev/update-parameters updates it.
	// +kubebuilder:validation:Pattern="^[A-Za-z_][A-Za-z0-9_]*$"
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Variable string `json:"variable,omitempty"`
	// Optional allows the ConfigMap or Secret to be absent. Default false: the Sync
	// waits for it.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// PinnedParameter is an SSM parameter's value in use.
type PinnedParameter struct {
	// Variable is the name that it is used under.
	Variable string `json:"variable"`
	// Name of the parameter.
	Name string `json:"name"`
	// Value in use, and the parameter's Version that had it.
	Value   string `json:"value"`
	Version int64  `json:"version,omitempty"`
	// PinnedAt is when Value was read.
	PinnedAt metav1.Time `json:"pinnedAt"`
	// Latest is the parameter's newest value where it differs from Value.
	// +optional
	Latest string `json:"latest,omitempty"`
}
