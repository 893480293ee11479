package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// This file counts what goes with an object: when deletions are planned, and again
// right before each is sent.

// countLosses completes the things to delete with what would die with them. Namespaces and node
// classes come last: what is in one, or uses the other, and goes by itself is not lost
// with it, unless its own deletion waits for a person.
func (o *observation) countLosses(ctx context.Context) {
	coverage := o.pluginCoverage()
	o.target.mu.Lock()
	o.target.coverage = coverage
	o.target.mu.Unlock()
	dying := map[state.Key]bool{}
	var last, others []liveItem
	for _, s := range o.orphans {
		dying[s.item.Key] = true
		if isNamespace(s.item.Key) || s.item.Key.Kind == nodeClass {
			last = append(last, s)
		} else {
			others = append(others, s)
		}
	}
	count := counting{Target: o.target, lost: o.target.lostGPUs(ctx, coverage, ""), deletedAnyway: func(k state.Key, live metav1.Object) bool {
		return dying[k] && live.GetLabels()[v1alpha1.SyncLabel] == o.target.label
	}}
	for _, item := range o.wanted.Items() {
		if isCluster(item.Key) && count.created == nil {
			count.created = &unstructured.Unstructured{Object: item.Object}
		}
	}
	left := maps.Clone(dying)
	parallel.Each(requests, others, func(s liveItem) {
		if o.stillMounted(ctx, s.live, dying) {
			return
		}
		if item, ok := o.addDeletion(ctx, s, count); ok && item.Impact != "" {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(left, item.Key)
		}
	})
	count.deletedAnyway = func(k state.Key, live metav1.Object) bool {
		return left[k] && live.GetLabels()[v1alpha1.SyncLabel] == o.target.label
	}
	parallel.Each(requests, last, func(s liveItem) { o.addDeletion(ctx, s, count) })
}

// addDeletion adds an object that is not wanted any more to what was observed.
func (o *observation) addDeletion(ctx context.Context, s liveItem, count counting) (state.Item, bool) {
	item := observed(s.item, s.live, strip(s.live.Object), s.item.Applied)
	if isSecret(item.Key) {
		if err := o.target.mask.load(ctx); err != nil {
			o.fail(err)
			return item, false
		}
		item.Object = o.target.mask.secret(item.Object)
	}
	item.Removal = count.removal(ctx, item.Key, s.live)
	rec, _ := o.target.store.Get(item.Key)
	if rec.Print.UID == item.Live.UID {
		item.Allowed = rec.Allowed
	}
	if rec.Rebuilt && item.Impact == "" {
		item.Impact = "it is known only by its label, because no inventory names it: that was deleted, or the Sync is new"
	}
	o.add(item)
	return item, true
}

// Removals completes observed things with what goes with their deletion, for who deletes
// what is wanted otherwise, such as a whole installation. Observe does so for what is not
// wanted. An error means that a thing could not be read.
func (w *Target) Removals(ctx context.Context, observed state.Set) (state.Set, error) {
	items := observed.Items()
	for i, item := range items {
		if !counts(item.Key, item.Object) {
			continue
		}
		ref, _, served, err := w.ref(ctx, item.Key, item.Version)
		if err != nil {
			return state.Set{}, err
		}
		if !served {
			continue
		}
		live, err := w.api.Get(ctx, ref)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return state.Set{}, api.Refused("reading "+item.Key.String(), err, false)
		default:
			items[i].Removal = counting{Target: w, deletedAnyway: leaves}.removal(ctx, item.Key, live)
		}
	}
	return state.NewSet(items...), nil
}

// counting counts what goes with objects.
type counting struct {
	*Target
	// deletedAnyway reports whether an object is deleted in its own right, so that it is not
	// lost with another.
	deletedAnyway func(state.Key, metav1.Object) bool
	// lost is what is lost with the plugins that go.
	lost losses
	// created is a Cluster that is created before anything is deleted, if any.
	created *unstructured.Unstructured
}

// counts reports whether it takes requests to find out what goes with an object.
func counts(k state.Key, object map[string]any) bool {
	switch k.Kind {
	case "CustomResourceDefinition", "Namespace", "NodePool", "NodeClaim", "Node", "Cluster", nodeClass,
		"PersistentVolumeClaim", "PersistentVolume", "StatefulSet", "Sync":
		return true
	}
	return isDevicePlugin(k) || profileOf(object) != ""
}

// removal is what goes with an object, or why its removal needs a second read; it is
// zero for ordinary objects. What cannot be counted is a loss.
func (c counting) removal(ctx context.Context, k state.Key, live *unstructured.Unstructured) loss.Removal {
	out, err := c.special(ctx, k, live)
	switch {
	case err != nil:
		return loss.Removal{Impact: "what dies with it could not be counted: " + err.Error(), Losses: loss.Counts{loss.Uncounted: 1}}
	case out.Impact == "":
		return c.lost.removal(k, live.Object)
	}
	return out
}

// special is what goes with an object that takes others along: by its kind, and as a part of
// Poolwright's installation. The label that makes it one is no reason to count less, since
// whoever writes to the repository can give it to anything.
func (c counting) special(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	out, err := c.lostByKind(ctx, k, live)
	installed := live.GetLabels()["app.kubernetes.io/part-of"] == "poolwright" || k.Namespace == c.cfg.Namespace ||
		isNamespace(k) && k.Name == c.cfg.Namespace
	if err != nil || !installed {
		return out, err
	}
	part, err := c.lostInstallation(ctx, k, live)
	if err != nil || out.Impact == "" {
		return part, err
	}
	return loss.Removal{Impact: part.Impact + ", and " + out.Impact, Losses: part.Cost().Plus(out.Cost()), Names: out.Names}, nil
}

// lostByKind is what goes with an object of a kind that takes others along.
func (c counting) lostByKind(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	switch {
	case k.Kind == "CustomResourceDefinition":
		return c.lostObjects(ctx, live)
	case isNamespace(k):
		return c.lostContents(ctx, k.Name)
	case k.Kind == "NodePool" && k.Group == "karpenter.sh":
		return c.lostNodes(ctx, k.Name)
	case k.Kind == "NodeClaim" && k.Group == "karpenter.sh":
		return c.lostNodeClaim(ctx, live)
	case k.Kind == "Node" && k.Group == "":
		return c.lostNode(ctx, k.Name)
	case isCluster(k):
		return c.lostCluster(ctx, k, live)
	case k.Kind == nodeClass:
		return c.lostClass(ctx, k)
	}
	return c.lostData(ctx, k, live)
}

const nodeClass = "EC2NodeClass"

func isCluster(k state.Key) bool {
	return k.Kind == "Cluster" && k.Group == v1alpha1.GroupVersion.Group
}

func isNamespace(k state.Key) bool { return k.Kind == "Namespace" && k.Group == "" }

// lostObjects counts the objects of a CustomResourceDefinition's kind.
func (c counting) lostObjects(ctx context.Context, live *unstructured.Unstructured) (loss.Removal, error) {
	defined := kinds.Defined(live.Object)
	if len(defined) == 0 {
		return loss.Removal{Impact: "its kind and all objects of it go with it"}, nil
	}
	kind, lost := defined[0], loss.Names{} // Every version serves the same objects.
	err := c.api.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(m *metav1.PartialObjectMetadata) { lost.Add(lostAs(kind), lostName(kind, m)) })
	objects := len(lost[lostAs(kind)])
	lost.Add("CustomResourceDefinition", live.GetName())
	return lost.Removal(fmt.Sprintf("the kind %s and %s go with it", kind.Kind, count(objects, "object"))), err
}

// lostNodes counts the nodes of a pool, those on their way included, and the pods on
// them.
func (w *Target) lostNodes(ctx context.Context, pool string) (loss.Removal, error) {
	of := karpenter.PoolLabel + "=" + pool
	names, coming, err := karpenter.Nodes(ctx, w.api, of, of)
	all := len(names) + len(coming)
	if err != nil || all == 0 {
		return loss.Removal{}, err
	}
	lost := loss.Names{}
	karpenter.Lost(lost, names, coming)
	if err := w.lostPods(ctx, lost, names); err != nil {
		return loss.Removal{}, err
	}
	return lost.Removal(fmt.Sprintf("%s, %s go with it", count(all, "node"), count(len(lost["Pod"]), "pod"))), nil
}

// lostNodeClaim counts the node of a NodeClaim and the pods on it.
func (w *Target) lostNodeClaim(ctx context.Context, live *unstructured.Unstructured) (loss.Removal, error) {
	on, lost := map[string]bool{}, loss.Names{}
	if node, _, _ := unstructured.NestedString(live.Object, "status", "nodeName"); node != "" {
		on[node] = true
		lost.Add("Node", node)
	} else {
		lost.Add("Node", karpenter.Coming(live.GetName()))
	}
	err := w.lostPods(ctx, lost, on)
	return lost.Removal("its instance and " + count(len(lost["Pod"]), "pod") + " go with it"), err
}

// lostNode counts a Node and the pods on it, which are deleted with it. Karpenter terminates
// the instance as well.
func (w *Target) lostNode(ctx context.Context, name string) (loss.Removal, error) {
	lost := loss.Names{}
	lost.Add("Node", name)
	err := w.lostPods(ctx, lost, map[string]bool{name: true})
	return lost.Removal("the node and " + count(len(lost["Pod"]), "pod") + " go with it"), err
}

// lostPods adds the pods on nodes to what is lost, but for those of DaemonSets.
func (w *Target) lostPods(ctx context.Context, to loss.Names, on map[string]bool) error {
	for _, node := range slices.Sorted(maps.Keys(on)) {
		err := w.api.Names(ctx, api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
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
// that is not the oldest decides nothing, as long as an older one stays.
func (c counting) lostCluster(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	next, decides, err := c.nextCluster(ctx, k, live)
	if err != nil || !decides {
		return loss.Removal{}, err
	}
	return karpenter.LostEngine(ctx, c.api, next)
}

// nextCluster is karpenter.NextCluster by what is deleted beside, and created before.
func (c counting) nextCluster(ctx context.Context, k state.Key, live *unstructured.Unstructured) (string, bool, error) {
	return karpenter.NextCluster(ctx, c.api, live, c.created, func(other metav1.Object) bool {
		k.Name = other.GetName()
		return c.deletedAnyway(k, other)
	})
}

// lostClass reports who uses an EC2NodeClass, beside pools that are deleted too.
func (c counting) lostClass(ctx context.Context, k state.Key) (loss.Removal, error) {
	var users []string
	lost := loss.Names{}
	for _, by := range []struct{ kind, path string }{{"NodeClaim", "spec"}, {"NodePool", "spec.template.spec"}} {
		kind, ok, err := c.find(ctx, schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: by.kind})
		if err != nil || !ok {
			return loss.Removal{}, err
		}
		_, err = c.api.List(ctx, api.Ref{Resource: kind.GVR()}, "", func(u *unstructured.Unstructured) {
			path := append(strings.Split(by.path, "."), "nodeClassRef")
			ref, _, _ := unstructured.NestedStringMap(u.Object, path...)
			uses := ref["name"] == k.Name && (ref["kind"] == "" || ref["kind"] == k.Kind)
			if uses && !(by.kind == "NodePool" && c.deletedAnyway(keyOf(kind, u), u)) {
				lost.Add(by.kind, u.GetName())
			}
		})
		if err != nil {
			return loss.Removal{}, err
		}
		if n := len(lost[by.kind]); n > 0 {
			users = append(users, count(n, by.kind))
		}
	}
	if len(users) == 0 {
		return loss.Removal{}, nil
	}
	return lost.Removal(strings.Join(users, " and ") + " still use it"), nil
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
