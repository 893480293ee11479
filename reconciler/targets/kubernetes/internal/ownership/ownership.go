// Package ownership finds who manages a live object: Flux, Argo CD, or another Sync.
//
// It refuses to trust a mark that Git declares too, or that was copied from another object.
// Start reading at Of.
package ownership

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// OwnerOf is the other GitOps tool that manages a live object, or nobody. Marks that desired, which Git declares, has too count for nothing: they may be a copy.
func OwnerOf(live *unstructured.Unstructured, desired map[string]any) owner.Reference {
	if other := byMarks(live.GroupVersionKind(), live, desired); other != (owner.Reference{}) {
		return other
	}
	for _, e := range fields.Entries(live.Object) {
		if other := byManager(e.Manager, live, desired); other != (owner.Reference{}) {
			return other
		}
	}
	return owner.Reference{}
}

// OwnerByMetadata is OwnerOf for the metadata of an object of a kind.
func OwnerByMetadata(kind schema.GroupVersionKind, live *metav1.PartialObjectMetadata, desired map[string]any) owner.Reference {
	if other := byMarks(kind, live, desired); other != (owner.Reference{}) {
		return other
	}
	for _, e := range live.ManagedFields {
		if other := byManager(e.Manager, live, desired); e.Subresource == "" && other != (owner.Reference{}) {
			return other
		}
	}
	return owner.Reference{}
}

// byMarks finds who manages an object by its labels and annotations.
func byMarks(kind schema.GroupVersionKind, live metav1.Object, desired map[string]any) owner.Reference {
	labels, declared := live.GetLabels(), &unstructured.Unstructured{Object: desired}
	for _, flux := range []struct {
		prefix string
		kind   owner.Kind
	}{
		{fluxKustomization, owner.FluxKustomization},
		{"helm.toolkit.fluxcd.io/", owner.FluxHelmRelease},
	} {
		name := labels[flux.prefix+"name"]
		if name != "" && declared.GetLabels()[flux.prefix+"name"] != name {
			return owner.Reference{Kind: flux.kind, Name: labels[flux.prefix+"namespace"] + "/" + name}
		}
	}
	tracking := live.GetAnnotations()[argoTracking]
	if app, self, ok := strings.Cut(tracking, ":"); ok && declared.GetAnnotations()[argoTracking] != tracking && tracks(self, kind, live) {
		return owner.Reference{Kind: owner.ArgoCDApplication, Name: app}
	}
	return owner.Reference{}
}

// byManager finds who manages an object by the name of one of its field managers. kustomize-controller labels whatever it applies,
// and its fields stay its own on an object that has left its inventory: without the label they show nothing. helm-controller labels no
// hooks, and Argo CD may track by a label of any name: it is named by the one that it tracks by unless it is configured otherwise.
func byManager(name string, live metav1.Object, desired map[string]any) owner.Reference {
	switch {
	case name == "kustomize-controller" && live.GetLabels()[fluxKustomization+"name"] == "":
		return owner.Reference{}
	case name == "kustomize-controller", name == "helm-controller":
		return owner.Reference{Kind: owner.Flux, Name: name}
	case strings.HasPrefix(name, "argocd-"):
		if app := labelledApplication(live, desired); app != "" {
			return owner.Reference{Kind: owner.ArgoCDApplication, Name: app}
		}
		return owner.Reference{Kind: owner.ArgoCD, Name: name}
	default:
		return owner.Reference{}
	}
}

// labelledApplication is the Argo CD application that an object is labelled with; empty where it is tracked by an annotation, since
// the label is then that of others, such as of a Helm release, and where Git declares the same label.
func labelledApplication(live metav1.Object, desired map[string]any) string {
	app := live.GetLabels()[argoInstance]
	if live.GetAnnotations()[argoTracking] != "" || (&unstructured.Unstructured{Object: desired}).GetLabels()[argoInstance] == app {
		return ""
	}
	return app
}

const (
	// fluxKustomization begins the labels of what kustomize-controller applies.
	fluxKustomization = "kustomize.toolkit.fluxcd.io/"
	argoTracking      = "argocd.argoproj.io/tracking-id"
	// argoInstance is Argo CD's label in its label-tracking mode.
	argoInstance = "app.kubernetes.io/instance"
)

// tracks reports whether Argo CD's tracking id names this very object; a
// copied annotation names another. For cluster-scoped objects it carries the
// application's namespace.
func tracks(self string, gvk schema.GroupVersionKind, live metav1.Object) bool {
	place, found := strings.CutPrefix(self, gvk.Group+"/"+gvk.Kind+":")
	namespace, name, _ := strings.Cut(place, "/")
	return found && name == live.GetName() && (live.GetNamespace() == "" || namespace == live.GetNamespace())
}

// Installation stands in the place of a Sync's name for what `poolwright bootstrap`
// installs. No Sync can have it: its definition reserves it.
const Installation = "poolwright-installation"

// Sync is the Sync for which ownership is decided.
type Sync struct {
	// API reaches the cluster.
	API *api.Client
	// Name is the Sync's name, Namespace that of its inventory.
	Name, Namespace string
	// Label is the value of [v1alpha1.SyncLabel] on what it applies.
	Label string
}

// Other is the label value of the Sync that owns a live object in place of this one,
// or is empty: nobody does, or this Sync may take the object over.
func (s Sync) Other(ctx context.Context, k state.Key, live *unstructured.Unstructured) (string, error) {
	label := live.GetLabels()[v1alpha1.SyncLabel]
	if label == "" || label == s.Label {
		return "", nil
	}
	if label == Installation && k == s.self() {
		if itself, err := s.installed(ctx, k, live); err != nil || itself {
			return "", err
		}
	}
	if lives, err := s.Lives(ctx, label); err != nil || !lives {
		return "", err
	}
	return label, nil
}

// self is the key of the Sync whose target this is.
func (s Sync) self() state.Key {
	return state.Key{Target: kinds.Target, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: s.Namespace, Name: s.Name}
}

// installed reports whether the installation has made this incarnation of an object, by
// its inventory: a label can be copied.
func (s Sync) installed(ctx context.Context, k state.Key, live *unstructured.Unstructured) (bool, error) {
	store := inventory.NewStore(s.API, inventory.Location{
		Target: kinds.Target, Namespace: s.Namespace, Prefix: Installation + "-inventory", Value: Installation, ReadOnly: true,
	})
	if _, err := store.Load(ctx); err != nil {
		return false, err
	}
	rec, known := store.Get(k)
	return known && rec.Fingerprint.UID == string(live.GetUID()), nil
}

// Lives reports whether another Sync, by its value of the label, still keeps an inventory
// here, and so owns what carries it.
func (s Sync) Lives(ctx context.Context, label string) (bool, error) {
	lives := false
	ref := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: s.Namespace}
	err := s.API.Names(ctx, ref, inventory.Label+"="+label, "", func(*metav1.PartialObjectMetadata) { lives = true })
	if err != nil {
		return false, api.Refused("reading the inventory of Sync "+label, err, false)
	}
	return lives, nil
}
