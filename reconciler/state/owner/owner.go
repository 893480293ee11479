// Package owner names who else manages a thing that Poolwright finds: another Sync, or
// another GitOps tool.
//
// It refuses to find out: targets do. Start reading at Reference; Fields is of the fields of
// an object.
package owner

// Kind is what an owner is.
type Kind string

// The kinds: our own, and those of Flux and Argo CD. Where these left no mark but a field
// manager, that is the name, and the tool is the kind.
const (
	Sync              Kind = "Sync"
	Flux              Kind = "Flux"
	FluxKustomization Kind = "Flux Kustomization"
	FluxHelmRelease   Kind = "Flux HelmRelease"
	ArgoCD            Kind = "Argo CD"
	ArgoCDApplication Kind = "Argo CD application"
)

// Reference is an owner; the zero value is nobody.
type Reference struct {
	Kind Kind
	// Name is as the owner's tool writes it: with the namespace, where one is known.
	Name string
}

// String is the owner in a sentence, empty for nobody.
func (r Reference) String() string {
	if r == (Reference{}) {
		return ""
	}
	return string(r.Kind) + " " + r.Name
}

// Manager is an entry of an object's metadata.managedFields.
type Manager struct {
	// Name is the field manager, such as kubectl-edit.
	Name string `json:"name"`
	// Operation is Apply or Update.
	Operation string `json:"operation,omitempty"`
	// Time is when it last changed a field, RFC 3339; empty where that is not known.
	Time string `json:"time,omitempty"`
}
