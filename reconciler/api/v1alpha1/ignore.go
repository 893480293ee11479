package v1alpha1

// IgnoreRule names fields of which the live value stays. Its fields are those of Flux's
// Kustomization.
type IgnoreRule struct {
	// Paths are JSON pointers (RFC 6901) to fields of an object, such as /spec/replicas. An element
	// of a list is named by its index in the repository, and found by its name in the cluster. Of
	// metadata, only a label or an annotation that is not of poolwright.dev can be ignored.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=512
	// +kubebuilder:validation:items:Pattern="^(/([^/~]|~[01])+)+$"
	// +kubebuilder:validation:XValidation:rule="self.all(p, p == '/metadata' || p.startsWith('/metadata/') ? p.matches('^/metadata/(labels|annotations)/[^/]+$') && !p.contains('poolwright.dev') : true)",message="of metadata, only a single label or annotation that is not of poolwright.dev can be ignored: /metadata/annotations/example.com~1name"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !p.matches('^/(apiVersion|kind|status)(/.*)?$'))",message="apiVersion, kind and status cannot be ignored: they are not corrected"
	// +listType=atomic
	Paths []string `json:"paths"`
	// Target selects the objects; without it the rule is for all objects of the Sync.
	// +optional
	Target *Selector `json:"target,omitempty"`
}

// Selector selects objects that meet all its conditions. Its fields are those of Flux's
// Kustomization; all but the last two are regular expressions (RE2) for the whole value.
type Selector struct {
	// Group of the objects.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Group string `json:"group,omitempty"`
	// Version of the objects' API, as the repository writes them.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Version string `json:"version,omitempty"`
	// Kind of the objects.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Kind string `json:"kind,omitempty"`
	// Namespace of the objects.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the objects.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Name string `json:"name,omitempty"`
	// AnnotationSelector matches the annotations that the repository declares, as a label selector.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	AnnotationSelector string `json:"annotationSelector,omitempty"`
	// LabelSelector matches the labels that the repository declares.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	LabelSelector string `json:"labelSelector,omitempty"`
}

// IgnoredFields are the fields of an object that differ from the repository and are not corrected.
type IgnoredFields struct {
	// Object is Kind.group/namespace/name.
	Object string `json:"object"`
	// Fields are the paths of these fields, at most twenty, without values.
	// +listType=atomic
	Fields []string `json:"fields"`
	// Source is file:line in the repository.
	// +optional
	Source string `json:"source,omitempty"`
}
