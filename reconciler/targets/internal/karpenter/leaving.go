package karpenter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// AwaitEngine is an error as long as something cannot be deleted to its end without Karpenter:
// NodeClaims that are being deleted, or are about to be since the NodePool that owns them is being
// deleted or gone, EC2NodeClasses that are being deleted, and what of these kinds is among
// deleting. The error is of the class Wait with the reason EngineNeeded.
func AwaitEngine(ctx context.Context, client *api.Client, deleting []state.Key) error {
	first := ""
	if i := slices.IndexFunc(deleting, finalized); i >= 0 {
		first = deleting[i].Kind + " " + deleting[i].Name
	}
	err := eachTerminating(ctx, client, func(kind, name string, _ bool) {
		if first == "" || kind == "NodeClaim" {
			first = kind + " " + name
		}
	})
	if err != nil || first != "" {
		return await(first, err)
	}
	for _, each := range []struct {
		kind    string
		of      schema.GroupVersionResource
		awaited func(*metav1.PartialObjectMetadata) bool
	}{
		{"Node", schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, func(m *metav1.PartialObjectMetadata) bool {
			return slices.Contains(m.Finalizers, karpv1.TerminationFinalizer)
		}},
		{"CustomResourceDefinition", definitions, func(m *metav1.PartialObjectMetadata) bool { return defines(m.Name) }},
	} {
		err := client.Names(ctx, api.Ref{Resource: each.of}, "", "", func(m *metav1.PartialObjectMetadata) {
			if m.DeletionTimestamp != nil && each.awaited(m) {
				first = each.kind + " " + m.Name
			}
		})
		if err != nil {
			return api.Refused("listing "+each.of.Resource, err, false)
		}
	}
	return await(first, nil)
}

// AwaitNodes is an error as long as there are NodeClaims whose NodePool is being deleted or gone:
// their nodes need what they use, in AWS and of the DRA driver, until they are drained. Those that Karpenter replaces or
// removes while their pool stays do not count, as in a busy cluster there is always one. The error
// is as that of AwaitEngine.
func AwaitNodes(ctx context.Context, client *api.Client) error {
	first := ""
	err := eachTerminating(ctx, client, func(kind, name string, orphaned bool) {
		if orphaned {
			first = kind + " " + name
		}
	})
	return await(first, err)
}

func await(first string, err error) error {
	if err != nil || first == "" {
		return err
	}
	return state.WaitFor(10*time.Second, "EngineNeeded",
		fmt.Errorf("not sent yet: the engine, and what nodes use, have to stay until what is being deleted is gone, such as %s", first))
}

// finalized reports kinds that Karpenter has finalizers on, and those that take such along.
func finalized(k state.Key) bool {
	switch k.Kind {
	case "NodePool", "NodeClaim":
		return k.Group == "karpenter.sh"
	case "CustomResourceDefinition":
		return defines(k.Name)
	}
	return k.Kind == "EC2NodeClass" || k.Kind == "Node" && k.Group == ""
}

// defines reports whether a CustomResourceDefinition of that name defines a kind of Karpenter's.
func defines(name string) bool {
	return strings.HasSuffix(name, ".karpenter.sh") || strings.HasSuffix(name, ".karpenter.k8s.aws")
}

// eachTerminating gives the NodeClaims and EC2NodeClasses that are being deleted, or are about to be, to
// visit, with whether that is since the NodePool that owns them is being deleted or gone.
func eachTerminating(ctx context.Context, client *api.Client, visit func(kind, name string, orphaned bool)) error {
	staying := map[types.UID]bool{}
	orphaned := func(o metav1.OwnerReference) bool { return o.Kind == "NodePool" && !staying[o.UID] }
	for _, each := range []struct {
		of    schema.GroupVersionResource
		visit func(*metav1.PartialObjectMetadata)
	}{
		{resource("nodepools"), func(m *metav1.PartialObjectMetadata) { staying[m.UID] = m.DeletionTimestamp == nil }},
		{resource("nodeclaims"), func(m *metav1.PartialObjectMetadata) {
			if lost := slices.ContainsFunc(m.OwnerReferences, orphaned); lost || m.DeletionTimestamp != nil {
				visit("NodeClaim", m.Name, lost)
			}
		}},
		{schema.GroupVersionResource{Group: "karpenter.k8s.aws", Version: "v1", Resource: "ec2nodeclasses"}, func(m *metav1.PartialObjectMetadata) {
			if m.DeletionTimestamp != nil {
				visit("EC2NodeClass", m.Name, false)
			}
		}},
	} {
		err := client.Names(ctx, api.Ref{Resource: each.of}, "", "", each.visit)
		if err := unlessUndefined(ctx, client, each.of, err); err != nil {
			return err
		}
	}
	return nil
}
