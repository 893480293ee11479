package kubernetes

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/ownership"
)

// orphan judges a live object that is not desired: is it ours to delete? A label
// alone proves nothing, since controllers and people copy labels; the record
// of that incarnation does. So does our own claim to the label where the inventory
// names the object, which may have been made anew since, or has lost what it named:
// while it is complete, who else may write such objects has made the claim.
func (o *observation) orphan(k state.Key, kind kinds.Kind, live *unstructured.Unstructured) {
	rec, known := o.target.store.Get(k)
	recorded := known && rec.Fingerprint.UID == string(live.GetUID())
	label := live.GetLabels()[v1alpha1.SyncLabel]
	claimed := (known || o.rebuilds) && label == o.target.owner.Label && fields.Claims(fields.Applied(live.Object, v1alpha1.FieldManager),
		"metadata", "labels", v1alpha1.SyncLabel)
	other := ownership.OwnerOf(live, nil)
	switch {
	case !recorded && !claimed, label != "" && label != o.target.owner.Label:
		o.target.store.Remove(k)
		return
	case live.GetAnnotations()[v1alpha1.PruneAnnotation] == "disabled":
		o.target.store.Remove(k)
		return
	case other != (owner.Reference{}):
		o.target.cfg.Log.Info("left to its other owner", "object", k.String(), "owner", other.String())
		o.target.store.Remove(k)
		return
	case live.GetDeletionTimestamp() != nil:
		return // Its deletion was accepted; it is recorded until it is gone.
	}
	if !known {
		rec = inventory.Record{Key: k, Version: kind.Version, FromLabel: true}
		rec.Fingerprint.UID = string(live.GetUID())
		o.target.store.Put(rec)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.orphans = append(o.orphans, liveItem{state.Item{
		Key: k, Version: kind.Version, Applied: rec.Desired, Wave: kinds.ObjectWave(k, live.Object), Owner: other,
		CorrectionPolicy: manifest.Hold(live.GetAnnotations()),
	}, live})
}

// defined reports whether a CustomResourceDefinition for the kind exists
// although the kind is not served: just after a start of the API server, or
// while it is being established. Only where there is none are its objects gone.
func (o *observation) defined(ctx context.Context, gvk schema.GroupVersionKind) bool {
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	var ofGroup []string
	err := o.target.api.Names(ctx, api.Ref{Resource: definitions}, "", "", func(m *metav1.PartialObjectMetadata) {
		if strings.HasSuffix(m.Name, "."+gvk.Group) {
			ofGroup = append(ofGroup, m.Name)
		}
	})
	for _, name := range ofGroup {
		live, getErr := o.target.api.Get(ctx, api.Ref{Resource: definitions, Name: name})
		if getErr != nil {
			err = getErr
			continue
		}
		if kind, _, _ := unstructured.NestedString(live.Object, "spec", "names", "kind"); kind == gvk.Kind {
			return true
		}
	}
	return err != nil && !apierrors.IsNotFound(err)
}
