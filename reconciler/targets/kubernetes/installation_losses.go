package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// lostInstallation is what goes with a part of Poolwright's own installation.
func (w *Target) lostInstallation(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	if k.Group == v1alpha1.GroupVersion.Group && k.Kind == "Sync" {
		return w.lostSync(ctx, k, live)
	}
	return loss.Removal{Impact: "it is part of Poolwright's own installation"}, nil
}

// lostSync is what goes with a Sync: what it follows, and by its deletionPolicy what it
// applied, unless it is suspended.
func (w *Target) lostSync(ctx context.Context, k state.Key, live *unstructured.Unstructured) (loss.Removal, error) {
	n, err := w.appliedBy(ctx, k.Name)
	if err != nil {
		return loss.Removal{}, err
	}
	url, _, _ := unstructured.NestedString(live.Object, "spec", "source", "git", "url")
	url, _, _ = strings.Cut(url, "?") // A token may be in the query.
	follows := quoted(url)
	if path, _, _ := unstructured.NestedString(live.Object, "spec", "path"); path != "" && path != "." {
		follows = quoted(path) + " of " + follows
	}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "deletionPolicy")
	rule, does, losses := "deletionPolicy "+cmp.Or(policy, string(v1alpha1.DeletionOrphan)), "leaves what it applied (%s) as it is", loss.Counts(nil)
	if suspended, _, _ := unstructured.NestedBool(live.Object, "spec", "suspend"); suspended {
		rule = "the deletion of a suspended Sync"
	} else if policy == string(v1alpha1.DeletionPrune) {
		does, losses = "deletes what it applied (%s)", loss.Counts{"Object": 1 + n}
	}
	return loss.Removal{Impact: fmt.Sprintf("the cluster stops following %s, and %s "+does, follows, rule, count(n, "object")), Losses: losses}, nil
}

// quoted is a text of a commit in a sentence by which a person decides: it cannot be taken for
// a part of that, holds no secret, and is cut after 200 bytes.
func quoted(text string) string {
	text = sanitize.Redact(text)
	return sanitize.Name(text[:min(len(text), 200)])
}

// appliedBy counts what a Sync has applied, in the cluster and in AWS.
func (w *Target) appliedBy(ctx context.Context, sync string) (int, error) {
	n := 0
	prefix := inventory.Short(sync, 200) + "-inventory"
	for _, place := range []inventory.Place{
		{Target: Name, Prefix: prefix, Value: LabelValue(sync)},
		{Target: "aws", Prefix: prefix + "-aws", Value: inventory.Short(sync, 63)},
	} {
		place.Namespace, place.ReadOnly = w.cfg.Namespace, true
		store := inventory.NewStore(w.api, place)
		if _, err := store.Load(ctx); err != nil {
			return 0, err
		}
		n += len(store.Records())
	}
	return n, nil
}

// lostController is what goes with a Deployment of the controller's namespace that runs no pod
// any more: nothing is followed, and the engine stops.
func lostController(_ context.Context, w *Target, u update) (loss.Removal, error) {
	if u.key.Namespace != w.cfg.Namespace {
		return loss.Removal{}, nil
	}
	return loss.Removal{Impact: "it is part of Poolwright's own installation, and would run no pod"}, nil
}

// lostVersions counts the objects that a CustomResourceDefinition stores in versions that it
// serves no more, by its status.storedVersions.
func lostVersions(ctx context.Context, w *Target, u update) (loss.Removal, error) {
	stored, _, _ := unstructured.NestedStringSlice(u.live.Object, "status", "storedVersions")
	var dropped []string
	for _, kind := range kinds.Defined(u.live.Object) {
		stays := slices.ContainsFunc(kinds.Defined(u.after), func(k kinds.Kind) bool { return k.Version == kind.Version })
		if !stays && slices.Contains(stored, kind.Version) {
			dropped = append(dropped, kind.Version)
		}
	}
	if len(dropped) == 0 {
		return loss.Removal{}, nil
	}
	kind, lost := kinds.Defined(u.live.Object)[0], loss.Names{} // Every version serves the same objects.
	err := w.api.Names(ctx, api.Ref{Resource: kind.GVR()}, "", "", func(m *metav1.PartialObjectMetadata) { lost.Add(lostAs(kind), lostName(kind, m)) })
	n := len(lost[lostAs(kind)])
	if err != nil || n == 0 {
		return loss.Removal{}, err
	}
	return lost.Removal(fmt.Sprintf("%s may be stored as %s, which is not served any more", count(n, "object"), strings.Join(dropped, " or "))), nil
}
