package losses

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// lostInstallation is what goes with a part of Poolwright's own installation.
func (c Counter) lostInstallation(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	if !c.installed(k, live.Object) {
		return loss.DeletionImpact{}, nil
	}
	if k.Group == v1alpha1.GroupVersion.Group && k.Kind == "Sync" {
		return c.lostSync(ctx, k, live)
	}
	return loss.DeletionImpact{Impact: "it is part of Poolwright's own installation"}, nil
}

// installed reports whether an object is a part of Poolwright's own installation: by the label that
// config/ gives them, or as it is in the controller's namespace, or that.
func (c Counter) installed(k state.Key, object map[string]any) bool {
	part, _, _ := unstructured.NestedString(object, "metadata", "labels", "app.kubernetes.io/part-of")
	return part == "poolwright" || k.Namespace == c.Namespace || IsNamespace(k) && k.Name == c.Namespace
}

// runsController reports whether the controller, and the engine in it, run by an object: its
// Deployment, ServiceAccount and namespace, and the definition of Clusters. Its permissions
// are known by grants.
func (c Counter) runsController(k state.Key) bool {
	switch {
	case k.Group == "apiextensions.k8s.io" && k.Kind == "CustomResourceDefinition":
		return k.Name == v1alpha1.GroupVersion.WithResource("clusters").GroupResource().String()
	case IsNamespace(k):
		return k.Name == c.Namespace
	case k.Group == "apps" && k.Kind == "Deployment", k.Group == "" && k.Kind == "ServiceAccount":
		return k.Namespace == c.Namespace
	}
	return false
}

// lostWithController is what goes with an object by which the controller runs: the engine.
func (c Counter) lostWithController(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	granted := false
	if isRBAC(k) {
		var err error
		if granted, err = c.grants(ctx, k, live.Object); err != nil {
			return loss.DeletionImpact{AfterNodes: true}, err
		}
	}
	if !granted && !c.runsController(k) {
		return loss.DeletionImpact{}, nil
	}
	var itself loss.DeletionImpact
	if granted {
		itself.Impact = "the controller loses the permissions that it has by it"
	}
	runs, err := karpenter.EngineRuns(ctx, c.API)
	if err != nil || !runs {
		itself.AfterNodes = err != nil
		return itself, err
	}
	engine, err := karpenter.LostEngine(ctx, c.API, "")
	if err != nil {
		return engine, err
	}
	return together([]loss.DeletionImpact{itself, engine}), nil
}

// lostSync is what goes with a Sync: what it follows, and by its deletionPolicy what it
// applied, unless it is suspended.
func (c Counter) lostSync(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.DeletionImpact, error) {
	n, err := c.appliedBy(ctx, k)
	if err != nil {
		return loss.DeletionImpact{}, err
	}
	url, _, _ := unstructured.NestedString(live.Object, "spec", "source", "git", "url")
	url, _, _ = strings.Cut(url, "?") // A token may be in the query.
	follows := quoted(url)
	if path, _, _ := unstructured.NestedString(live.Object, "spec", "path"); path != "" && path != "." {
		follows = quoted(path) + " of " + follows
	}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "deletionPolicy")
	rule, does, losses := "deletionPolicy "+cmp.Or(policy, string(v1alpha1.DeletionPolicyOrphan)), "leaves what it applied (%s) as it is", loss.Counts(nil)
	if suspended, _, _ := unstructured.NestedBool(live.Object, "spec", "suspend"); suspended {
		rule = "the deletion of a suspended Sync"
	} else if policy == string(v1alpha1.DeletionPolicyDelete) {
		does, losses = "deletes what it applied (%s)", loss.Counts{"Object": 1 + n}
	}
	return loss.DeletionImpact{Impact: fmt.Sprintf("the cluster stops following %s, and %s "+does, follows, rule, plural.Count(n, "object")), Losses: losses}, nil
}

// quoted is a text of a commit in a sentence by which a person decides: it cannot be taken for
// a part of that, holds no secret, and is cut after 200 bytes.
func quoted(text string) string {
	text = sanitize.Redact(text)
	return sanitize.Name(text[:min(len(text), 200)])
}

// appliedBy counts what a Sync has applied, in the cluster and in AWS.
func (c Counter) appliedBy(ctx context.Context, sync state.Key) (int, error) {
	n := 0
	prefix := inventory.TruncateName(sync.Name, 200) + "-inventory"
	for _, place := range []inventory.Location{
		{Target: sync.Target, Prefix: prefix, Value: inventory.TruncateName(sync.Name, 63)},
		{Target: state.TargetAWS, Prefix: prefix + "-aws", Value: inventory.TruncateName(sync.Name, 63)},
	} {
		place.Namespace, place.ReadOnly = c.Namespace, true
		store := inventory.NewStore(c.API, place)
		if _, err := store.Load(ctx); err != nil {
			return 0, err
		}
		n += len(store.Records())
	}
	return n, nil
}

// lostController is what goes with a Deployment of the controller's namespace that runs no pod
// any more: nothing is followed, and the engine stops.
func lostController(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	if u.Key.Namespace != c.Namespace {
		return loss.DeletionImpact{}, nil
	}
	engine, err := c.lostWithController(ctx, u.Key, u.Live)
	if err != nil {
		return engine, err
	}
	return together([]loss.DeletionImpact{{Impact: "it is part of Poolwright's own installation, and would run no pod"}, engine}), nil
}

// lostVersions counts the objects that a CustomResourceDefinition stores in versions that it
// serves no more, by its status.storedVersions.
func lostVersions(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	stored, _, _ := unstructured.NestedStringSlice(u.Live.Object, "status", "storedVersions")
	var dropped []string
	for _, kind := range kinds.Defined(u.Live.Object) {
		stays := slices.ContainsFunc(kinds.Defined(u.After), func(k kinds.Kind) bool { return k.Version == kind.Version })
		if !stays && slices.Contains(stored, kind.Version) {
			dropped = append(dropped, kind.Version)
		}
	}
	if len(dropped) == 0 {
		return loss.DeletionImpact{}, nil
	}
	kind, lost := kinds.Defined(u.Live.Object)[0], loss.Names{} // Every version serves the same objects.
	err := c.API.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(m *metav1.PartialObjectMetadata) { lost.Add(lostAs(kind), lostName(kind, m)) })
	n := len(lost[lostAs(kind)])
	if err != nil || n == 0 {
		return loss.DeletionImpact{}, err
	}
	return lost.DeletionImpact(fmt.Sprintf("%s may be stored as %s, which is not served any more", plural.Count(n, "object"), strings.Join(dropped, " or "))), nil
}
