package losses

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// contents are the kinds of Kubernetes that are counted in a namespace: those whose loss
// hurts.
func contents() []kinds.Kind {
	kind := func(group, kind, resource string) kinds.Kind {
		return kinds.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, Resource: resource}
	}
	return []kinds.Kind{
		kind("", "Pod", "pods"),
		kind("", "PersistentVolumeClaim", "persistentvolumeclaims"),
		kind("", "Secret", "secrets"),
		kind("", "ConfigMap", "configmaps"),
		kind("", "Service", "services"),
		kind("apps", "Deployment", "deployments"),
		kind("apps", "StatefulSet", "statefulsets"),
		kind("apps", "DaemonSet", "daemonsets"),
		kind("batch", "Job", "jobs"),
		kind("batch", "CronJob", "cronjobs"),
	}
}

// maxCustomKinds bounds the lists that counting the custom resources of one namespace
// takes. With more kinds they cannot be counted.
const maxCustomKinds = 500

// builtIn reports whether an API group is Kubernetes' own, by its API reference, or that
// of its metrics, which show what is elsewhere. Groups of the community end in k8s.io, too.
func builtIn(group string) bool {
	return !strings.Contains(group, ".") || slices.Contains([]string{
		"admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "authentication.k8s.io",
		"authorization.k8s.io", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
		"flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io",
		"rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "storagemigration.k8s.io",
		"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io",
	}, group)
}

// servedKinds are the kinds of namespaces that the cluster serves now and contents does not list: those that Kubernetes
// does not bring itself, which are counted since only their controllers can list what goes with their objects, and
// the other kinds of Kubernetes, whose objects are lost without consequences unless a person holds one.
func (c Counter) servedKinds(ctx context.Context) (custom, uncounted []kinds.Kind, err error) {
	if err := c.Kinds.Refresh(ctx); err != nil {
		return nil, nil, err
	}
	for group, err := range c.Kinds.Failed() {
		if !builtIn(group) {
			return nil, nil, fmt.Errorf("reading the cluster's kinds of %s: %w", group, err)
		}
	}
	for _, k := range c.Kinds.All() {
		switch {
		case !k.Namespaced:
		case !builtIn(k.Group):
			custom = append(custom, k)
		case !slices.Contains(maintained, k.Kind) && !slices.ContainsFunc(contents(), func(o kinds.Kind) bool { return o.Group == k.Group && o.Kind == k.Kind }):
			uncounted = append(uncounted, k)
		}
	}
	if len(custom) > maxCustomKinds {
		return nil, nil, fmt.Errorf("the cluster has %d kinds of custom resources, and no more than %d are counted", len(custom), maxCustomKinds)
	}
	return custom, uncounted, nil
}

// maintained are kinds of Kubernetes that controllers make and remove all the time, in numbers: nobody holds one.
var maintained = []string{"ControllerRevision", "Endpoints", "EndpointSlice", "Event", "Lease"}

// requests bounds the lists that are under way at a time.
const requests = 16

// lostContents counts what is in a namespace beside what is deleted anyway.
func (c Deletion) lostContents(ctx context.Context, of state.Key) (loss.DeletionImpact, error) {
	custom, uncounted, err := c.servedKinds(ctx)
	if err != nil {
		return loss.DeletionImpact{}, err
	}
	counted := append(contents(), custom...)
	all := append(slices.Clip(counted), uncounted...)
	found, marks, errs := make([]loss.Names, len(all)), make([]map[string]loss.Mark, len(all)), make([]error, len(all))
	each := make([]int, len(all))
	for i := range each {
		each[i] = i
	}
	parallel.Each(requests, each, func(i int) { found[i], marks[i], errs[i] = c.within(ctx, all[i], of) })
	var parts []string
	lost, marked := loss.Names{}, map[string]loss.Mark{}
	for i, kind := range all {
		if errs[i] != nil {
			return loss.DeletionImpact{}, errs[i]
		}
		maps.Copy(marked, marks[i])
		if i >= len(counted) {
			continue
		}
		as := lostAs(kind)
		if n := len(found[i][as]); n > 0 {
			parts = append(parts, plural.Count(n, thing(kind)))
		}
		for name := range found[i][as] {
			lost.Add(as, name)
		}
	}
	if len(parts) == 0 {
		return loss.DeletionImpact{Marked: marked}, nil
	}
	out := lost.DeletionImpact(strings.Join(parts, ", ") + " in it go with it")
	out.Marked = marked
	return out, nil
}

// within names the objects of a kind in a namespace, but for those that go by themselves, and which of all of them are marked.
func (c Deletion) within(ctx context.Context, kind kinds.Kind, of state.Key) (loss.Names, map[string]loss.Mark, error) {
	out, marked := loss.Names{}, map[string]loss.Mark{}
	err := c.API.Names(ctx, api.Ref{Resource: kind.GVR(), Namespace: of.Name}, "", "", func(m *metav1.PartialObjectMetadata) {
		k := state.Key{Target: of.Target, Group: kind.Group, Kind: kind.Kind, Namespace: of.Name, Name: m.Name}
		if k.Group == "" && k.Kind == "ConfigMap" && m.Name == "kube-root-ca.crt" {
			return // Kubernetes puts it into every namespace.
		}
		addMark(marked, k, m)
		if !c.DeletedAnyway(k, m) {
			out.Add(lostAs(kind), lostName(kind, m))
		}
	})
	return out, marked, err
}

// addMark adds what a person wrote on an object for it to stay as it is.
func addMark(to map[string]loss.Mark, k state.Key, live metav1.Object) {
	if m := manifest.Hold(live.GetAnnotations()); m.HoldUntil != "" {
		to[k.String()] = loss.Mark{Until: m.HoldUntil, Reason: m.HoldReason}
	}
}

// thing is the noun for an object of a kind.
func thing(kind kinds.Kind) string {
	if builtIn(kind.Group) {
		return strings.TrimSuffix(kind.Resource, "s")
	}
	return kind.Kind
}

// lostAs is the kind under which the objects of a kind are counted. Of namesakes of what
// controllers make and remove all the time a fifth more is not tolerated.
func lostAs(kind kinds.Kind) string {
	if !builtIn(kind.Group) && kind.Group != "karpenter.sh" && slices.Contains([]string{"Node", "NodeClaim", "Pod"}, kind.Kind) {
		return "Object"
	}
	return kind.Kind
}

// lostName is the name of an object among all that are counted under the same kind.
func lostName(kind kinds.Kind, m metav1.Object) string {
	if builtIn(kind.Group) || kind.Group == "karpenter.sh" {
		return nameOf(m)
	}
	return kind.Group + "/" + kind.Kind + "/" + nameOf(m)
}

// nameOf is the name of an object among those of its kind.
func nameOf(m metav1.Object) string {
	if m.GetNamespace() == "" {
		return m.GetName()
	}
	return m.GetNamespace() + "/" + m.GetName()
}
