package karpenter

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// Embedded reports whether a Cluster has the engine run in the controller, as it has by default.
func Embedded(cluster map[string]any) bool {
	mode, found, _ := unstructured.NestedString(cluster, "spec", "engine", "mode")
	return !found || mode == string(v1alpha1.EngineEmbedded)
}

// NextCluster is the Cluster by which the engine runs on when a live one is deleted, empty where
// it stops, and whether it runs by the live one now. Clusters that leave too do not count; one
// that is yet to be created, if any, is the youngest.
func NextCluster(ctx context.Context, client *api.Client, live, created *unstructured.Unstructured, leaves func(metav1.Object) bool) (name string, decides bool, err error) {
	next, decides := created, true
	_, err = client.List(ctx, api.Ref{Resource: v1alpha1.GroupVersion.WithResource("clusters")}, "", func(u *unstructured.Unstructured) {
		stays := u.GetUID() != live.GetUID() && u.GetDeletionTimestamp() == nil && !leaves(u)
		if stays && (next == created || v1alpha1.CompareClusters(u, next) < 0) {
			next = &unstructured.Unstructured{Object: u.Object} // List empties u.
			decides = v1alpha1.CompareClusters(next, live) > 0
		}
	})
	if next == nil || !takesOver(live.Object, next.Object) {
		return "", decides, err
	}
	return next.GetName(), decides, err
}

// EngineRuns reports whether the engine runs in the controller, as the oldest Cluster has it, also one
// that is being deleted. Without any it does not.
func EngineRuns(ctx context.Context, client *api.Client) (bool, error) {
	var oldest *unstructured.Unstructured
	of := v1alpha1.GroupVersion.WithResource("clusters")
	_, err := client.List(ctx, api.Ref{Resource: of}, "", func(u *unstructured.Unstructured) {
		if oldest == nil || v1alpha1.CompareClusters(u, oldest) < 0 {
			oldest = &unstructured.Unstructured{Object: u.Object} // List empties u.
		}
	})
	return err == nil && oldest != nil && Embedded(oldest.Object), unlessUndefined(ctx, client, of, err)
}

// takesOver reports whether the engine runs on by another Cluster: that has it run in the
// controller, for the same cluster of EKS. For any other the engine's gates close.
func takesOver(live, next map[string]any) bool {
	for _, field := range []string{"name", "region", "account"} {
		is, _, _ := unstructured.NestedString(live, "spec", field)
		will, _, _ := unstructured.NestedString(next, "spec", field)
		if is != will {
			return false
		}
	}
	return Embedded(next)
}

// LostEngine counts the nodes that nobody would provision for, consolidate or replace any more,
// and the engine with them; or those that would be as the next Cluster has it, where there is
// one. Where the engine stops, that is AfterNodes, also with an error, and what it deletes before
// does not count: NodeClaims that are being deleted, or whose NodePool is or is gone.
func LostEngine(ctx context.Context, client *api.Client, next string) (loss.DeletionImpact, error) {
	lost, err := Claims(ctx, client)
	if err == nil && next == "" && len(lost["NodeClaim"]) > 0 {
		err = eachTerminating(ctx, client, func(kind, name string, _ bool) { delete(lost[kind], name) })
	}
	n := len(lost["NodeClaim"])
	claims := fmt.Sprintf("%d NodeClaims", n)
	if n == 1 {
		claims = "1 NodeClaim"
	}
	switch {
	case err != nil || n == 0:
		return loss.DeletionImpact{AfterNodes: next == ""}, err
	case next != "":
		return lost.DeletionImpact(fmt.Sprintf("the engine and AWS follow Cluster %s from then on, with %s", next, claims)), nil
	}
	lost.Add("Engine", "Karpenter") // So that who allowed the other has not allowed this.
	keep := "keep"
	if n == 1 {
		keep = "keeps"
	}
	out := lost.DeletionImpact("the engine stops: " + claims + " " + keep + " running unmanaged")
	out.AfterNodes = true
	return out, nil
}

// LostDrain counts the nodes that the engine does not drain any more before AWS takes them away.
func LostDrain(ctx context.Context, client *api.Client) (loss.DeletionImpact, error) {
	lost, err := Claims(ctx, client)
	switch n := len(lost["NodeClaim"]); {
	case err != nil || n == 0:
		return loss.DeletionImpact{}, err
	case n == 1:
		return lost.DeletionImpact("1 NodeClaim is not drained any more before AWS takes the node away"), nil
	default:
		return lost.DeletionImpact(fmt.Sprintf("%d NodeClaims are not drained any more before AWS takes the node away", n)), nil
	}
}
