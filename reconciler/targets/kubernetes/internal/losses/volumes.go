package losses

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// lostData reports whether data goes with a claim or volume, or with a StatefulSet that
// has the claims of its pods deleted.
func (c Deletion) lostData(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	lost := loss.Names{}
	lost.Add(k.Kind, nameOf(live))
	switch {
	case k.Group == "" && k.Kind == "PersistentVolumeClaim":
		return lost.DeletionImpact("the data of its volume may go with it"), nil
	case k.Group == "" && k.Kind == "PersistentVolume":
		if policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeReclaimPolicy"); policy != "Retain" {
			return lost.DeletionImpact("its data goes with it: its reclaim policy is " + policy), nil
		}
	case k.Group == "apps" && k.Kind == "StatefulSet":
		policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
		if policy == "Delete" {
			return c.lostClaims(ctx, k, live)
		}
	}
	return loss.DeletionImpact{}, nil
}

const claimKind = "PersistentVolumeClaim"

// lostClaims counts the claims of a StatefulSet's pods.
func (c Deletion) lostClaims(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	claims, err := c.claimsOf(ctx, k, live)
	if err != nil || len(claims) == 0 {
		return loss.DeletionImpact{}, err
	}
	return claims.DeletionImpact("its persistentVolumeClaimRetentionPolicy deletes " + plural.Count(len(claims[claimKind]), claimKind)), nil
}

// claimsOf are the claims of a StatefulSet's pods, by the names that Kubernetes gives
// them: template, StatefulSet, ordinal.
func (c Counter) claimsOf(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Names, error) {
	templates, _, _ := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	var names []string
	for _, t := range templates {
		template, _ := t.(map[string]any)
		name, _, _ := unstructured.NestedString(template, "metadata", "name")
		names = append(names, regexp.QuoteMeta(name))
	}
	of, err := regexp.Compile("^(" + strings.Join(names, "|") + ")-" + regexp.QuoteMeta(k.Name) + "-[0-9]+$")
	if err != nil {
		return nil, fmt.Errorf("reading its volumeClaimTemplates: %w", err)
	}
	lost := loss.Names{}
	ref := api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}, Namespace: k.Namespace}
	err = c.API.Names(ctx, ref, "", "", func(m *metav1.PartialObjectMetadata) {
		if of.MatchString(m.Name) {
			lost.Add(claimKind, nameOf(m))
		}
	})
	return lost, err
}
