// Package losses counts what goes with the deletion of an object of Kubernetes, and with an
// update that does as much: nodes, what is in a namespace, the objects of a kind, data.
//
// It refuses to decide what may be lost, and to take what cannot be read for nothing. Start
// reading at Deletion.DeletionImpact.
package losses

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Counter counts what goes with updates, and with deletions as part of a Deletion.
type Counter struct {
	// API reaches the cluster.
	API *api.Client
	// Kinds are those that it serves.
	Kinds *kinds.RESTMapper
	// Namespace is that of the controller.
	Namespace string
}

// Deletion counts what goes with the deletion of objects.
type Deletion struct {
	Counter
	// DeletedAnyway reports whether an object is deleted in its own right, so that it is not
	// lost with another.
	DeletedAnyway func(state.Key, metav1.Object) bool
	// Created is a Cluster that is created before anything is deleted, if any.
	Created *unstructured.Unstructured
	// Plugins are what goes with the device plugins that are deleted too.
	Plugins PluginLosses
}

// Terminating reports whether the deletion of an object was accepted. One that is still to
// be deleted, or was to be and is held or refused, goes with what it is in.
func Terminating(_ state.Key, live metav1.Object) bool { return live.GetDeletionTimestamp() != nil }

// Counts reports whether it takes requests to find out what goes with an object.
func (c Counter) Counts(k state.Key, object map[string]any) bool {
	switch k.Kind {
	case "CustomResourceDefinition", "Namespace", "NodePool", "NodeClaim", "Node", "Cluster", karpenter.NodeClass,
		"PersistentVolumeClaim", "PersistentVolume", "StatefulSet", "Sync":
		return true
	}
	return isRBAC(k) || c.runsController(k) || kinds.IsDevicePlugin(k) || kinds.ServesGPUs(object)
}

// DeletionImpact is what goes with an object, or why its removal needs a second read; it is
// zero for ordinary objects. What cannot be counted is a loss.
func (c Deletion) DeletionImpact(ctx context.Context, k state.Key, live *unstructured.Unstructured) loss.DeletionImpact {
	out, err := c.special(ctx, k, live)
	if err != nil {
		out.Impact, out.Losses = "what would be deleted with it could not be counted: "+err.Error(), loss.Counts{loss.Uncounted: 1}
		out.Names = nil
	}
	if out.Impact == "" {
		after, marked := out.AfterNodes, out.Marked
		out = c.Plugins.removal(k, live.Object)
		out.AfterNodes, out.Marked = after, marked
	}
	out = endsEngine(out)
	// Without the DRA driver the kubelet cannot unprepare the claims of pods, which stay Terminating with their nodes.
	_, driver := kinds.DRAConfig(live.Object)
	out.AfterNodes = out.AfterNodes || driver
	return out
}

// endsEngine marks what comes after nodes as what the engine may stop with: in Kubernetes nothing
// else does, but for the DRA driver.
func endsEngine(r loss.DeletionImpact) loss.DeletionImpact {
	r.EndsEngine = r.AfterNodes
	return r
}

// special is what goes with an object that takes others along: by its kind, and as a part of
// Poolwright's installation. The label that makes it one is no reason to count less, since
// whoever writes to the repository can give it to anything.
func (c Deletion) special(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	var all []loss.DeletionImpact
	after := false
	for _, lost := range []func(context.Context, state.Key, *unstructured.Unstructured) (loss.DeletionImpact, error){c.lostInstallation, c.lostWithController, c.lostByKind} {
		out, err := lost(ctx, k, live)
		after = after || out.AfterNodes
		if err != nil {
			return loss.DeletionImpact{AfterNodes: after}, err
		}
		all = append(all, out)
	}
	return together(all), nil
}

// together is one removal for all that goes with one object.
func together(all []loss.DeletionImpact) loss.DeletionImpact {
	out := loss.Combine(all)
	all = slices.DeleteFunc(all, func(r loss.DeletionImpact) bool { return r.Impact == "" })
	var impacts []string
	for _, r := range all {
		impacts = append(impacts, r.Impact)
	}
	if out.Impact = strings.Join(impacts, ", and "); len(all) == 1 {
		out.Losses = all[0].Losses // What counts as itself alone has none.
	}
	return out
}

// lostByKind is what goes with an object of a kind that takes others along.
func (c Deletion) lostByKind(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	switch {
	case k.Kind == "CustomResourceDefinition":
		return c.lostObjects(ctx, k, live)
	case IsNamespace(k):
		return c.lostContents(ctx, k)
	case k.Kind == "NodePool" && k.Group == "karpenter.sh":
		return c.lostNodes(ctx, k.Name)
	case k.Kind == "NodeClaim" && k.Group == "karpenter.sh":
		return c.lostNodeClaim(ctx, live)
	case k.Kind == "Node" && k.Group == "":
		return c.lostNode(ctx, k.Name)
	case IsCluster(k):
		return c.lostCluster(ctx, k, live)
	case k.Kind == karpenter.NodeClass:
		return c.lostClass(ctx, k)
	}
	return c.lostData(ctx, k, live)
}

// IsCluster reports whether an object is a Cluster of Poolwright.
func IsCluster(k state.Key) bool {
	return k.Kind == "Cluster" && k.Group == v1alpha1.GroupVersion.Group
}

// IsNamespace reports whether an object is a Namespace.
func IsNamespace(k state.Key) bool { return k.Kind == "Namespace" && k.Group == "" }

// lostObjects counts the objects of a CustomResourceDefinition's kind.
func (c Deletion) lostObjects(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	defined := kinds.Defined(live.Object)
	if len(defined) == 0 {
		return loss.DeletionImpact{Impact: "its kind and all objects of it go with it"}, nil
	}
	kind, lost, marked := defined[0], loss.Names{}, map[string]loss.Mark{} // Every version serves the same objects.
	err := c.API.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(m *metav1.PartialObjectMetadata) {
		lost.Add(lostAs(kind), lostName(kind, m))
		addMark(marked, state.Key{Target: k.Target, Group: kind.Group, Kind: kind.Kind, Namespace: m.Namespace, Name: m.Name}, m)
	})
	objects := len(lost[lostAs(kind)])
	lost.Add("CustomResourceDefinition", live.GetName())
	out := lost.DeletionImpact(fmt.Sprintf("the kind %s and %s go with it", kind.Kind, plural.Count(objects, "object")))
	out.Marked = marked
	return out, err
}

// lostNodes counts the nodes of a pool, those on their way included, and the pods on
// them.
func (c Counter) lostNodes(ctx context.Context, pool string) (loss.DeletionImpact, error) {
	of := karpenter.PoolLabel + "=" + pool
	names, coming, err := karpenter.Nodes(ctx, c.API, of, of)
	all := len(names) + len(coming)
	if err != nil || all == 0 {
		return loss.DeletionImpact{}, err
	}
	lost := loss.Names{}
	karpenter.Lost(lost, names, coming)
	if err := c.lostPods(ctx, lost, names); err != nil {
		return loss.DeletionImpact{}, err
	}
	return lost.DeletionImpact(fmt.Sprintf("%s, %s go with it", plural.Count(all, "node"), plural.Count(len(lost["Pod"]), "pod"))), nil
}

// lostNodeClaim counts the node of a NodeClaim and the pods on it.
func (c Counter) lostNodeClaim(ctx context.Context, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	on, lost := map[string]bool{}, loss.Names{}
	if node, _, _ := unstructured.NestedString(live.Object, "status", "nodeName"); node != "" {
		on[node] = true
		lost.Add("Node", node)
	} else {
		lost.Add("Node", karpenter.PendingNodeName(live.GetName()))
	}
	err := c.lostPods(ctx, lost, on)
	return lost.DeletionImpact("its instance and " + plural.Count(len(lost["Pod"]), "pod") + " go with it"), err
}

// lostNode counts a Node and the pods on it, which are deleted with it. Karpenter terminates
// the instance as well.
func (c Counter) lostNode(ctx context.Context, name string) (loss.DeletionImpact, error) {
	lost := loss.Names{}
	lost.Add("Node", name)
	err := c.lostPods(ctx, lost, map[string]bool{name: true})
	return lost.DeletionImpact("the node and " + plural.Count(len(lost["Pod"]), "pod") + " go with it"), err
}

// lostPods adds the pods on nodes to what is lost, but for those of DaemonSets.
func (c Counter) lostPods(ctx context.Context, to loss.Names, on map[string]bool) error {
	for _, node := range slices.Sorted(maps.Keys(on)) {
		err := c.API.Names(ctx, api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
			"", "spec.nodeName="+node, func(m *metav1.PartialObjectMetadata) {
				if !slices.ContainsFunc(m.OwnerReferences, isDaemonSet) {
					to.Add("Pod", nameOf(m))
				}
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// isDaemonSet reports whether an owner is a DaemonSet of Kubernetes.
func isDaemonSet(owner metav1.OwnerReference) bool {
	group, _, versioned := strings.Cut(owner.APIVersion, "/")
	return owner.Kind == "DaemonSet" && versioned && group == "apps"
}

// lostCluster counts the nodes whose engine stops with a Cluster, or follows the next one. One
// that is not the oldest decides nothing, as long as an older one stays; with one that has no engine
// run in the controller none stops.
func (c Deletion) lostCluster(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	next, decides, err := karpenter.NextCluster(ctx, c.API, live, c.Created, func(other metav1.Object) bool {
		k.Name = other.GetName()
		return c.DeletedAnyway(k, other)
	})
	runs := karpenter.Embedded(live.Object)
	if err != nil || !decides || next == "" && !runs {
		return loss.DeletionImpact{AfterNodes: err != nil && runs}, err
	}
	return karpenter.LostEngine(ctx, c.API, next)
}

// lostClass reports who uses an EC2NodeClass, beside pools that are deleted too.
func (c Deletion) lostClass(ctx context.Context, k state.Key) (loss.DeletionImpact, error) {
	lost, err := karpenter.NodeClassUsers(ctx, c.API, k.Name, func(pool *unstructured.Unstructured) bool {
		return c.DeletedAnyway(state.Key{Target: k.Target, Group: "karpenter.sh", Kind: "NodePool", Name: pool.GetName()}, pool)
	})
	if err != nil {
		return loss.DeletionImpact{}, err
	}
	var users []string
	for _, kind := range []string{"NodeClaim", "NodePool"} {
		if n := len(lost[kind]); n > 0 {
			users = append(users, plural.Count(n, kind))
		}
	}
	if len(users) == 0 {
		return loss.DeletionImpact{}, nil
	}
	return lost.DeletionImpact(strings.Join(users, " and ") + " still use it"), nil
}
