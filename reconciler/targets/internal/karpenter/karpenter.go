// Package karpenter counts what Karpenter runs, and has ordered, for NodePools.
//
// It refuses to take what cannot be read for what is not there. Start reading at Nodes.
package karpenter

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
)

// PoolLabel is Karpenter's label of a Node or NodeClaim with its NodePool's name.
const PoolLabel = "karpenter.sh/nodepool"

// Nodes returns the names of the Nodes that a label selector matches, and those of the
// NodeClaims that another one matches and that have no Node among these: Karpenter has ordered
// their instances for pods that wait. NodeClaims that are being deleted do not count.
func Nodes(ctx context.Context, client *api.Client, nodes, claims string) (names, coming map[string]bool, err error) {
	names = map[string]bool{}
	err = client.Names(ctx, api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}}, nodes, "",
		func(m *metav1.PartialObjectMetadata) { names[m.Name] = true })
	if err != nil {
		return nil, nil, api.Refused("counting the nodes", err, false)
	}
	// By name, as a list whose page token expires starts again.
	coming = map[string]bool{}
	of := resource("nodeclaims")
	_, err = client.List(ctx, api.Ref{Resource: of}, claims, func(claim *unstructured.Unstructured) {
		node, _, _ := unstructured.NestedString(claim.Object, "status", "nodeName")
		if !names[node] && claim.GetDeletionTimestamp() == nil {
			coming[claim.GetName()] = true
		}
	})
	return names, coming, unlessUndefined(ctx, client, of, err)
}

// Lost adds nodes to what is lost: those that there are, and those that are coming, which
// have the names of their NodeClaims.
func Lost(to loss.Names, names, coming map[string]bool) {
	for name := range names {
		to.Add("Node", name)
	}
	for claim := range coming {
		to.Add("Node", PendingNodeName(claim))
	}
}

// PendingNodeName is the name of a node that has none yet, by that of its NodeClaim.
func PendingNodeName(claim string) string { return "NodeClaim/" + claim }

// Pools returns the names of all NodePools that are not being deleted.
func Pools(ctx context.Context, client *api.Client) (map[string]bool, error) {
	out := map[string]bool{}
	of := resource("nodepools")
	err := client.Names(ctx, api.Ref{Resource: of}, "", "", func(m *metav1.PartialObjectMetadata) {
		if m.DeletionTimestamp == nil {
			out[m.Name] = true
		}
	})
	return out, unlessUndefined(ctx, client, of, err)
}

// Claims names all NodeClaims, as what is lost with what runs them.
func Claims(ctx context.Context, client *api.Client) (loss.Names, error) {
	out := loss.Names{}
	of := resource("nodeclaims")
	err := client.Names(ctx, api.Ref{Resource: of}, "", "", func(m *metav1.PartialObjectMetadata) { out.Add("NodeClaim", m.Name) })
	return out, unlessUndefined(ctx, client, of, err)
}

// ClaimedPools returns the names of the NodePools of the NodeClaims that a label selector matches. A NodeClaim that is
// being deleted counts, as its pods are there until its instance has terminated.
func ClaimedPools(ctx context.Context, client *api.Client, claims string) (map[string]bool, error) {
	out := map[string]bool{}
	of := resource("nodeclaims")
	err := client.Names(ctx, api.Ref{Resource: of}, claims, "", func(m *metav1.PartialObjectMetadata) {
		if pool := m.Labels[PoolLabel]; pool != "" {
			out[pool] = true
		}
	})
	return out, unlessUndefined(ctx, client, of, err)
}

// NodeClassUsers names what uses an EC2NodeClass: the NodeClaims, and the NodePools but for those that
// except reports.
func NodeClassUsers(ctx context.Context, client *api.Client, class string, except func(pool *unstructured.Unstructured) bool) (loss.Names, error) {
	out := loss.Names{}
	for _, by := range []struct {
		kind, resource string
		path           []string
	}{{"NodeClaim", "nodeclaims", []string{"spec"}}, {"NodePool", "nodepools", []string{"spec", "template", "spec"}}} {
		of := resource(by.resource)
		_, err := client.List(ctx, api.Ref{Resource: of}, "", func(u *unstructured.Unstructured) {
			ref, _, _ := unstructured.NestedStringMap(u.Object, append(by.path, "nodeClassRef")...)
			uses := ref["name"] == class && (ref["kind"] == "" || ref["kind"] == NodeClass)
			if uses && !(by.kind == "NodePool" && except(u)) {
				out.Add(by.kind, u.GetName())
			}
		})
		if err := unlessUndefined(ctx, client, of, err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// NodeClass is the kind of the node classes of AWS.
const NodeClass = "EC2NodeClass"

func resource(name string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: name}
}

// unlessUndefined forgives that a resource is not served, or may not be listed, where no
// CustomResourceDefinition defines it: permissions are checked first, and the role for the engine is
// left out where none runs. Where one does, the API server may have started a moment ago, and its
// objects are there.
func unlessUndefined(ctx context.Context, client *api.Client, of schema.GroupVersionResource, err error) error {
	doing := "counting the " + of.Resource
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return api.Refused(doing, err, false)
	}
	_, missing := client.Get(ctx, api.Ref{Resource: definitions, Name: of.GroupResource().String()})
	switch {
	case apierrors.IsNotFound(missing):
		return nil
	case apierrors.IsForbidden(err):
		return api.Refused(doing, err, false)
	case missing != nil:
		return api.Refused(doing, missing, false)
	}
	return fmt.Errorf("%s: they are defined and not served", doing)
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
