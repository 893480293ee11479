package aws

import (
	"slices"
	"testing"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// IAM is global: the clusters of one name in two regions see each other's roles.
func TestTheIdentitiesOfAClusterOfTheSameNameInAnotherRegionAreNotOurs(t *testing.T) {
	spec := controlled(v1alpha1.IdentityPod)
	spec.NodeRole.DeletionPolicy = v1alpha1.PartDelete
	for _, k := range []kind{policies{}, roles{}, profiles{}} {
		l := bootstrapped(t, k, nil, spec)
		l.settle()
		other := *l.c
		other.place.Region = "us-west-2"
		theirs := defaulted(&other, controlled(v1alpha1.IdentityPod))
		theirs.place, theirs.spec.Region = other.place, other.place.Region
		theirs.spec.ControllerRole.Name, theirs.spec.NodeRole.PermissionsBoundary = "", ""
		theirs.spec = withDefaults(theirs.spec)
		shared := 0
		for _, item := range k.want(theirs) {
			mine := slices.ContainsFunc(l.wanted(), func(i state.Item) bool { return i.Key == item.Key })
			seen := k.read(t.Context(), &other, keysOf(item))[item.Key]
			if item.Key.Name != "nodes" {
				if mine || seen.object != nil {
					t.Errorf("%s is wanted in both regions", item.Key)
				}
				continue
			}
			shared++
			if !mine || seen.object == nil || seen.ours || deletable(inventory.Record{Policy: string(v1alpha1.PartDelete)}, seen) {
				t.Errorf("%s: in both %v, seen %v, ours %v", item.Key, mine, seen.object != nil, seen.ours)
			}
		}
		if _, policy := k.(policies); !policy && shared != 1 {
			t.Errorf("%T: %d things have one name in both regions: the test shows nothing", k, shared)
		}
	}
}
