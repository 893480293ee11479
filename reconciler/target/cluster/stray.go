package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/cluster/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/target/internal/api"
	"github.com/poolwright/poolwright/reconciler/target/internal/fields"
	"github.com/poolwright/poolwright/reconciler/target/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/target/internal/parallel"
)

// stray judges a live object that is not wanted: is it ours to delete? A label
// alone proves nothing, since controllers and people copy labels; the record
// of that incarnation does, or our own claim to the label.
func (o *observation) stray(k state.Key, kind kinds.Kind, live *unstructured.Unstructured) {
	rec, known := o.world.store.Get(k)
	recorded := known && rec.Print.UID == string(live.GetUID())
	label := live.GetLabels()[v1alpha1.SyncLabel]
	claimed := label == o.world.label && fields.Claims(fields.Applied(live.Object, v1alpha1.FieldManager),
		"metadata", "labels", v1alpha1.SyncLabel)
	owner := OwnerOf(live, nil)
	switch {
	case !recorded && !claimed, label != "" && label != o.world.label:
		o.world.store.Forget(k)
		return
	case live.GetAnnotations()[v1alpha1.PruneAnnotation] == "disabled":
		o.world.store.Forget(k)
		return
	case owner != "":
		o.world.cfg.Log.Info("left to its other owner", "object", k.String(), "owner", owner)
		o.world.store.Forget(k)
		return
	case live.GetDeletionTimestamp() != nil:
		return // Its deletion was accepted; it is recorded until it is gone.
	}
	if !known {
		rec = inventory.Record{Key: k, Version: kind.Version, Rebuilt: true}
		rec.Print.UID = string(live.GetUID())
		o.world.store.Put(rec)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.strays = append(o.strays, doubt{item: state.Item{
		Key: k, Version: kind.Version, Applied: rec.Desired, Wave: wave(k, live.Object), Owner: owner,
	}, live: live})
}

// defined reports whether a CustomResourceDefinition for the kind exists
// although the kind is not served: just after a start of the API server, or
// while it is being established. Only where there is none are its objects gone.
func (o *observation) defined(ctx context.Context, gvk schema.GroupVersionKind) bool {
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	var ofGroup []string
	err := o.world.api.Names(ctx, api.Ref{Resource: definitions}, "", "", func(m *metav1.PartialObjectMetadata) {
		if strings.HasSuffix(m.Name, "."+gvk.Group) {
			ofGroup = append(ofGroup, m.Name)
		}
	})
	for _, name := range ofGroup {
		live, getErr := o.world.api.Get(ctx, api.Ref{Resource: definitions, Name: name})
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

// bury completes the things to delete with what would die with them.
func (o *observation) bury(ctx context.Context) {
	dying := map[state.Key]bool{}
	for _, s := range o.strays {
		dying[s.item.Key] = true
	}
	lost := o.lostGPUs(ctx)
	parallel.Each(requests, o.strays, func(s doubt) {
		if o.stillMounted(ctx, s.live, dying) {
			return
		}
		item := observed(s.item, s.live, strip(s.live.Object), s.item.Applied)
		if isSecret(item.Key) {
			if err := o.world.mask.load(ctx); err != nil {
				o.fail(err)
				return
			}
			item.Object = o.world.mask.secret(item.Object)
		}
		item.Grave = o.world.grave(ctx, s.live, item.Key, dying)
		if item.Grave == "" {
			item.Grave = lost.grave(item.Key, s.live.Object)
		}
		rec, _ := o.world.store.Get(item.Key)
		item.Leaving = rec.Leaving && rec.Print.UID == item.Live.UID
		if rec.Rebuilt && item.Grave == "" {
			item.Grave = "it is known only by its label, because the inventory that vouched for it was deleted"
		}
		o.add(item)
	})
}

// grave says what dies with an object, or why its removal needs a second look;
// empty for ordinary objects. What cannot be counted is grave.
func (w *World) grave(ctx context.Context, live *unstructured.Unstructured, k state.Key, dying map[state.Key]bool) string {
	if live.GetLabels()["app.kubernetes.io/part-of"] == "poolwright" || k.Namespace == w.cfg.Namespace ||
		k.Kind == "Namespace" && k.Group == "" && k.Name == w.cfg.Namespace {
		return "it is part of Poolwright's own installation"
	}
	var text string
	var err error
	switch {
	case k.Kind == "CustomResourceDefinition":
		text, err = w.lostObjects(ctx, live)
	case k.Kind == "Namespace" && k.Group == "":
		text, err = w.lostContents(ctx, k.Name, dying)
	case k.Kind == "NodePool" && k.Group == "karpenter.sh":
		text, err = w.lostNodes(ctx, k.Name)
	case k.Kind == "Cluster" && k.Group == "poolwright.dev":
		text, err = w.lostEngine(ctx)
	case k.Kind == "EC2NodeClass":
		text, err = w.lostClass(ctx, k, dying)
	}
	if err != nil {
		return "what dies with it could not be counted: " + err.Error()
	}
	return text
}

// lostObjects counts the objects of a CustomResourceDefinition's kind.
func (w *World) lostObjects(ctx context.Context, live *unstructured.Unstructured) (string, error) {
	for _, kind := range kinds.Defined(live.Object) {
		n := 0
		err := w.api.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(*metav1.PartialObjectMetadata) { n++ })
		return fmt.Sprintf("the kind %s and %s go with it", kind.Kind, count(n, "object")), err
	}
	return "its kind and all objects of it go with it", nil
}

// contents are the kinds that are counted in a namespace: those whose loss
// hurts. What Kubernetes puts into every namespace does not count.
func contents() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "persistentvolumeclaims"},
		{Version: "v1", Resource: "secrets"},
		{Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "apps", Version: "v1", Resource: "daemonsets"},
		{Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "batch", Version: "v1", Resource: "cronjobs"},
	}
}

// lostContents counts what is in a namespace beside what is deleted anyway.
func (w *World) lostContents(ctx context.Context, namespace string, dying map[state.Key]bool) (string, error) {
	names := map[state.Key]bool{}
	for k := range dying {
		names[state.Key{Group: k.Group, Namespace: k.Namespace, Name: k.Name}] = true
	}
	var parts []string
	for _, r := range contents() {
		n := 0
		err := w.api.Names(ctx, api.Ref{Resource: r, Namespace: namespace}, "", "", func(m *metav1.PartialObjectMetadata) {
			ours := m.Labels[v1alpha1.SyncLabel] == w.label && names[state.Key{Group: r.Group, Namespace: namespace, Name: m.Name}]
			if !ours && m.Name != "kube-root-ca.crt" {
				n++
			}
		})
		if err != nil {
			return "", err
		}
		if n > 0 {
			parts = append(parts, count(n, strings.TrimSuffix(r.Resource, "s")))
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	return strings.Join(parts, ", ") + " in it go with it", nil
}

// lostNodes counts the nodes of a pool and the pods on them.
func (w *World) lostNodes(ctx context.Context, pool string) (string, error) {
	var nodes []string
	err := w.api.Names(ctx, api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}},
		"karpenter.sh/nodepool="+pool, "", func(m *metav1.PartialObjectMetadata) { nodes = append(nodes, m.Name) })
	if err != nil || len(nodes) == 0 {
		return "", err
	}
	pods := 0
	for _, node := range nodes {
		err := w.api.Names(ctx, api.Ref{Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
			"", "spec.nodeName="+node, func(m *metav1.PartialObjectMetadata) {
				daemon := slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "DaemonSet" })
				if !daemon {
					pods++
				}
			})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s, %s go with it", count(len(nodes), "node"), count(pods, "pod")), nil
}

// lostEngine counts the nodes that nobody would provision for, consolidate or
// replace any more: without a Cluster the engine stops.
func (w *World) lostEngine(ctx context.Context) (string, error) {
	kind, ok, err := w.find(ctx, schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"})
	if err != nil || !ok {
		return "", err
	}
	n := 0
	err = w.api.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(*metav1.PartialObjectMetadata) { n++ })
	switch {
	case err != nil || n == 0:
		return "", err
	case n == 1:
		return "the engine stops: 1 NodeClaim keeps running unmanaged", nil
	}
	return fmt.Sprintf("the engine stops: %d NodeClaims keep running unmanaged", n), nil
}

// lostClass tells who uses an EC2NodeClass, beside pools that are deleted too.
func (w *World) lostClass(ctx context.Context, k state.Key, dying map[state.Key]bool) (string, error) {
	var users []string
	for _, by := range []struct{ kind, path string }{{"NodeClaim", "spec"}, {"NodePool", "spec.template.spec"}} {
		kind, ok, err := w.find(ctx, schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: by.kind})
		if err != nil || !ok {
			return "", err
		}
		n := 0
		_, err = w.api.List(ctx, api.Ref{Resource: kind.GVR()}, "", func(u *unstructured.Unstructured) {
			path := append(strings.Split(by.path, "."), "nodeClassRef")
			ref, _, _ := unstructured.NestedStringMap(u.Object, path...)
			if ref["name"] == k.Name && (ref["kind"] == "" || ref["kind"] == k.Kind) && !dying[keyOf(kind, u)] {
				n++
			}
		})
		if err != nil {
			return "", err
		}
		if n > 0 {
			users = append(users, count(n, by.kind))
		}
	}
	if len(users) == 0 {
		return "", nil
	}
	return strings.Join(users, " and ") + " still use it", nil
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
