package cluster

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/target/internal/api"
	"github.com/poolwright/poolwright/reconciler/target/internal/fields"
	"github.com/poolwright/poolwright/reconciler/target/internal/inventory"
)

// OwnerOf names the other GitOps tool that manages a live object, or is
// empty. Marks that Git itself declares say nothing: they may be a copy.
func OwnerOf(live *unstructured.Unstructured, wanted map[string]any) string {
	declared := &unstructured.Unstructured{Object: wanted}
	labels, ours := live.GetLabels(), declared.GetLabels()
	for _, flux := range []struct{ prefix, kind string }{
		{"kustomize.toolkit.fluxcd.io/", "Kustomization"},
		{"helm.toolkit.fluxcd.io/", "HelmRelease"},
	} {
		name := labels[flux.prefix+"name"]
		if name != "" && ours[flux.prefix+"name"] != name {
			return fmt.Sprintf("Flux %s %s/%s", flux.kind, labels[flux.prefix+"namespace"], name)
		}
	}
	tracking := live.GetAnnotations()[argoTracking]
	if app, self, ok := strings.Cut(tracking, ":"); ok && declared.GetAnnotations()[argoTracking] != tracking && tracks(self, live) {
		return "Argo CD application " + app
	}
	for _, e := range fields.Entries(live.Object) {
		switch {
		case e.Manager == "kustomize-controller", e.Manager == "helm-controller":
			return "Flux " + e.Manager
		case strings.HasPrefix(e.Manager, "argocd-"):
			return "Argo CD " + e.Manager
		}
	}
	return ""
}

const argoTracking = "argocd.argoproj.io/tracking-id"

// tracks reports whether Argo CD's tracking id names this very object; a
// copied annotation names another. For cluster-scoped objects it carries the
// application's namespace.
func tracks(self string, live *unstructured.Unstructured) bool {
	gvk := live.GroupVersionKind()
	place, found := strings.CutPrefix(self, gvk.Group+"/"+gvk.Kind+":")
	namespace, name, _ := strings.Cut(place, "/")
	return found && name == live.GetName() && (live.GetNamespace() == "" || namespace == live.GetNamespace())
}

// syncLives reports whether another Sync still keeps an inventory here, and so
// owns what carries its label.
func (w *World) syncLives(ctx context.Context, label string) (bool, error) {
	lives := false
	ref := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespace: w.cfg.Namespace}
	err := w.api.Names(ctx, ref, inventory.Label+"="+label, "", func(*metav1.PartialObjectMetadata) { lives = true })
	if err != nil {
		return false, api.Refused("looking for the inventory of Sync "+label, err, false)
	}
	return lives, nil
}
