package losses

import (
	"context"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
)

// losingField is a field of a kind whose update may do what the deletion of the object,
// or of another, does.
type losingField struct {
	group, kind string
	// path has the field's names, with dots between.
	path string
	// absent is what the API makes of an object without the field; nil for nothing.
	absent any
	// loses reports whether the second value loses what the first does not.
	loses func(before, after any) bool
	// lost is what goes with it.
	lost func(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error)
}

// Update is a desired object that differs from the live one.
type Update struct {
	Key state.Key
	// Before is the live object as far as it differs from After, the desired one.
	Before, After map[string]any
	// Live is all of it. Update.Loses does without.
	Live *unstructured.Unstructured
}

// Loses reports whether the update may lose something.
func (u Update) Loses() bool { return len(u.losing()) > 0 }

// losing are the fields whose update may lose something.
func (u Update) losing() []losingField {
	return slices.DeleteFunc(losingFields(), func(f losingField) bool {
		return f.group != u.Key.Group || f.kind != u.Key.Kind || !f.loses(f.of(u.Before), f.of(u.After))
	})
}

// losingFields are all there are. What makes nodes drift and be replaced is not among
// them: guard.maxNodesReplaced is for that.
func losingFields() []losingField {
	return []losingField{
		{"poolwright.dev", "Cluster", "spec.engine.mode", "Embedded", not("Embedded"), lostEngine},
		{"poolwright.dev", "Cluster", "spec.name", nil, changed, lostEngine},
		{"poolwright.dev", "Cluster", "spec.region", nil, changed, lostEngine},
		{"poolwright.dev", "Cluster", "spec.account", nil, changed, lostEngine},
		{"poolwright.dev", "Cluster", "spec.interruptionQueue", nil, changed, lostQueue},
		{"poolwright.dev", "Cluster", "spec.engine.interruptionQueue", "", changed, lostQueue},
		{"karpenter.sh", "NodePool", "spec.replicas", nil, lower, lostReplicas},
		{"apps", "StatefulSet", "spec.replicas", int64(1), lower, lostOrdinals},
		{"apps", "StatefulSet", "spec.ordinals.start", int64(0), changed, lostOrdinals},
		{"apps", "Deployment", "spec.replicas", int64(1), toZero, lostController},
		{rbacv1.GroupName, "ClusterRoleBinding", "subjects", nil, changed, lostSubjects},
		{rbacv1.GroupName, "RoleBinding", "subjects", nil, changed, lostSubjects},
		{rbacv1.GroupName, "ClusterRole", "rules", nil, changed, lostRules},
		{rbacv1.GroupName, "Role", "rules", nil, changed, lostRules},
		{"apiextensions.k8s.io", "CustomResourceDefinition", "spec.versions", nil, changed, lostVersions},
		{"", "PersistentVolume", "spec.persistentVolumeReclaimPolicy", "Retain", changed, lostVolume},
	}
}

// not loses what a value does, when it becomes another.
func not(strict any) func(before, after any) bool {
	return func(before, after any) bool { return state.Equal(before, strict) && !state.Equal(after, strict) }
}

func changed(before, after any) bool { return before != nil && !state.Equal(before, after) }

// toZero reports whether a number becomes zero.
func toZero(before, after any) bool {
	n, known := fields.Int64(after)
	return known && n == 0 && !state.Equal(before, after)
}

// lower reports whether a number becomes less. What is no whole number is compared with
// none, and may be less.
func lower(before, after any) bool {
	b, ok := fields.Int64(before)
	a, known := fields.Int64(after)
	return !state.Equal(before, after) && (!ok || !known || a < b)
}

// of is the field's value in an object, or what stands for one that is absent.
func (f losingField) of(object map[string]any) any {
	value, found, err := unstructured.NestedFieldNoCopy(object, strings.Split(f.path, ".")...)
	if !found || err != nil || value == nil {
		return f.absent
	}
	return value
}

// Update is what goes with an update by all of its fields; zero for one that loses nothing.
// What cannot be counted is a loss.
func (c Counter) Update(ctx context.Context, u Update) loss.DeletionImpact {
	var all []loss.DeletionImpact
	for _, f := range u.losing() {
		out, err := f.lost(ctx, c, u)
		if err != nil {
			out.Impact, out.Losses = "what is lost could not be counted: "+err.Error(), loss.Counts{loss.Uncounted: 1}
		}
		if out.Impact != "" {
			out.Impact = f.path + ": " + out.Impact
		}
		all = append(all, out)
	}
	return endsEngine(loss.Combine(all))
}

// lostEngine is what goes with a Cluster that has the engine run and is not to any more, or becomes
// another's, for which the engine's gates close. No other one takes over from the oldest.
func lostEngine(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	if !karpenter.Embedded(u.Live.Object) {
		return loss.DeletionImpact{}, nil
	}
	_, decides, err := karpenter.NextCluster(ctx, c.API, u.Live, nil, func(metav1.Object) bool { return false })
	if err != nil || !decides {
		return loss.DeletionImpact{AfterNodes: err != nil}, err
	}
	return karpenter.LostEngine(ctx, c.API, "")
}

// lostQueue counts the nodes that the engine does not drain any more before AWS takes
// them away: without a queue it is not notified, whether or not the queue stays.
func lostQueue(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	part, _, _ := unstructured.NestedFieldNoCopy(u.After, "spec", "interruptionQueue")
	name, _, _ := unstructured.NestedString(u.After, "spec", "engine", "interruptionQueue")
	mode, _, _ := unstructured.NestedString(u.Live.Object, "spec", "engine", "mode")
	if part != nil || name != "" || mode != "Embedded" {
		return loss.DeletionImpact{}, nil
	}
	return karpenter.LostDrain(ctx, c.API)
}

// lostReplicas counts the nodes by which a static pool becomes smaller.
func lostReplicas(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	of := karpenter.PoolLabel + "=" + u.Key.Name
	names, coming, err := karpenter.Nodes(ctx, c.API, of, of)
	after, _ := fields.Int64(losingField{path: "spec.replicas"}.of(u.After))
	n := len(names) + len(coming) - int(after)
	if err != nil || n <= 0 {
		return loss.DeletionImpact{}, err
	}
	return loss.DeletionImpact{Impact: plural.Count(n, "node") + " of the pool would go", Losses: loss.Counts{"Node": n}}, nil
}

// lostOrdinals counts the claims of the pods that a StatefulSet has no more, where it has
// them deleted: those below and above the spec.replicas ordinals from spec.ordinals.start on.
func lostOrdinals(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	path := []string{"spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"}
	policy, declared, _ := unstructured.NestedString(u.After, path...)
	if !declared {
		policy, _, _ = unstructured.NestedString(u.Live.Object, path...)
	}
	if policy != "Delete" {
		return loss.DeletionImpact{}, nil
	}
	first, located := fields.Int64(losingField{path: "spec.ordinals.start", absent: int64(0)}.of(u.After))
	stay, sized := fields.Int64(losingField{path: "spec.replicas", absent: int64(1)}.of(u.After))
	claims, err := c.claimsOf(ctx, u.Key, u.Live)
	lost := loss.Names{}
	for name := range claims[claimKind] {
		ordinal, err := strconv.ParseInt(name[strings.LastIndex(name, "-")+1:], 10, 64)
		if err != nil || !located || !sized || ordinal < first || ordinal >= first+stay {
			lost.Add(claimKind, name)
		}
	}
	if err != nil || len(lost) == 0 {
		return loss.DeletionImpact{}, err
	}
	return lost.DeletionImpact("its persistentVolumeClaimRetentionPolicy deletes " + plural.Count(len(lost[claimKind]), claimKind)), nil
}

// lostVolume is the data of a volume that is deleted, or emptied for the next claim, as
// soon as it has no claim.
func lostVolume(_ context.Context, _ Counter, u Update) (loss.DeletionImpact, error) {
	if policy := (losingField{path: "spec.persistentVolumeReclaimPolicy", absent: "Retain"}).of(u.After); policy == "Retain" {
		return loss.DeletionImpact{}, nil
	}
	lost := loss.Names{}
	lost.Add(u.Key.Kind, u.Key.Name)
	return lost.DeletionImpact("its data goes as soon as it has no claim"), nil
}
