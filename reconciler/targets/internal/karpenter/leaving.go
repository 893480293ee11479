package karpenter

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// AwaitDeletions is an error as long as something cannot be deleted to its end without Karpenter
// and what it needs in AWS: NodeClaims that are being deleted, or are about to be since the
// NodePool that owns them is being deleted or gone, and EC2NodeClasses that are being deleted, or
// are among deleting. The error starts with doing, and is of the class Wait with the reason
// EngineNeeded.
func AwaitDeletions(ctx context.Context, client *api.Client, doing string, deleting []state.Key) error {
	needed := slices.ContainsFunc(deleting, func(k state.Key) bool { return k.Kind == "EC2NodeClass" })
	pools, classes := resource("nodepools"), schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}
	staying := map[types.UID]bool{}
	for _, of := range []schema.GroupVersionResource{pools, resource("nodeclaims"), classes} {
		err := client.Names(ctx, api.Ref{Resource: of}, "", "", func(m *metav1.PartialObjectMetadata) {
			orphaned := func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" && !staying[o.UID] }
			switch leaves := m.DeletionTimestamp != nil; {
			case of == pools: // Karpenter has no finalizer on a pool: its NodeClaims count.
				staying[m.UID] = !leaves
			case leaves, slices.ContainsFunc(m.OwnerReferences, orphaned):
				needed = true
			}
		})
		if err := unlessUndefined(ctx, client, of, err); err != nil {
			return err
		}
	}
	if !needed {
		return nil
	}
	return state.WaitFor(10*time.Second, "EngineNeeded",
		fmt.Errorf("%s: not sent yet: the engine, and what it needs in AWS, have to stay until the NodeClaims and EC2NodeClasses that are being deleted are gone", doing))
}
