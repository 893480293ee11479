package cluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/target/internal/api"
	"github.com/poolwright/poolwright/reconciler/target/internal/inventory"
)

// lostData says whether data goes with a claim or volume, or with a StatefulSet that
// has the claims of its pods deleted.
func (c counting) lostData(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	switch {
	case k.Group == "" && k.Kind == "PersistentVolumeClaim":
		return loss.Removal{Grave: "the data of its volume may go with it", Losses: loss.Counts{k.Kind: 1}}, nil
	case k.Group == "" && k.Kind == "PersistentVolume":
		if policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeReclaimPolicy"); policy == "Delete" {
			return loss.Removal{Grave: "its data goes with it: its reclaim policy is Delete", Losses: loss.Counts{k.Kind: 1}}, nil
		}
	case k.Group == "apps" && k.Kind == "StatefulSet":
		policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
		if policy == "Delete" {
			return c.lostClaims(ctx, k, live)
		}
	}
	return loss.Removal{}, nil
}

// lostClaims counts the claims of a StatefulSet's pods, by the names that Kubernetes
// gives them: template, StatefulSet, ordinal.
func (c counting) lostClaims(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	templates, _, _ := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	var names []string
	for _, t := range templates {
		template, _ := t.(map[string]any)
		name, _, _ := unstructured.NestedString(template, "metadata", "name")
		names = append(names, regexp.QuoteMeta(name))
	}
	of, err := regexp.Compile("^(" + strings.Join(names, "|") + ")-" + regexp.QuoteMeta(k.Name) + "-[0-9]+$")
	if err != nil {
		return loss.Removal{}, fmt.Errorf("reading its volumeClaimTemplates: %w", err)
	}
	claims := map[string]bool{}
	ref := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, Namespace: k.Namespace}
	err = c.api.Names(ctx, ref, "", "", func(m *metav1.PartialObjectMetadata) {
		if of.MatchString(m.Name) {
			claims[m.Name] = true
		}
	})
	if err != nil || len(claims) == 0 {
		return loss.Removal{}, err
	}
	return loss.Removal{
		Grave:  "its persistentVolumeClaimRetentionPolicy deletes " + count(len(claims), "PersistentVolumeClaim"),
		Losses: loss.Counts{"PersistentVolumeClaim": len(claims)},
	}, nil
}

// lostInstance counts the node of a NodeClaim and the pods on it.
func (w *World) lostInstance(ctx context.Context, live *unstructured.Unstructured) (loss.Removal, error) {
	on := map[string]bool{}
	if node, _, _ := unstructured.NestedString(live.Object, "status", "nodeName"); node != "" {
		on[node] = true
	}
	pods, err := w.lostPods(ctx, on)
	return loss.Removal{
		Grave:  "its instance and " + count(pods, "pod") + " go with it",
		Losses: loss.Counts{"Node": 1, "Pod": pods},
	}, err
}

// lostInstallation is what goes with a part of Poolwright's own installation. A Sync
// may take along what it applied.
func (w *World) lostInstallation(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	out := loss.Removal{Grave: "it is part of Poolwright's own installation"}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "deletionPolicy")
	if k.Group != v1alpha1.GroupVersion.Group || k.Kind != "Sync" || policy != string(v1alpha1.DeletionPrune) {
		return out, nil
	}
	applied := 0
	prefix := inventory.Short(k.Name, 200) + "-inventory"
	for _, place := range []inventory.Place{
		{Target: Name, Prefix: prefix, Value: LabelValue(k.Name)},
		{Target: "aws", Prefix: prefix + "-aws", Value: inventory.Short(k.Name, 63)},
	} {
		place.Namespace, place.ReadOnly = w.cfg.Namespace, true
		store := inventory.NewStore(w.api, place)
		if _, err := store.Load(ctx); err != nil {
			return loss.Removal{}, err
		}
		applied += len(store.Records())
	}
	out.Grave += fmt.Sprintf(", and its deletionPolicy Prune deletes what it applied: %s", count(applied, "object"))
	out.Losses = loss.Counts{"Object": 1 + applied}
	return out, nil
}
