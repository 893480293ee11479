package aws

import (
	"slices"
	"testing"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/iam"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// IAM is global: the clusters of one name in two regions see each other's roles.
func TestTheIdentitiesOfAClusterOfTheSameNameInAnotherRegionAreNotOurs(t *testing.T) {
	spec := kindtest.Controlled(v1alpha1.IdentityPod)
	spec.NodeRole.DeletionPolicy = v1alpha1.AWSDeletionPolicyDelete
	for _, k := range []resource.Kind{iam.Policies{}, iam.Roles{}, iam.InstanceProfiles{}} {
		l := kindtest.Bootstrapped(t, []resource.Kind{iam.Policies{}, iam.Roles{}, iam.InstanceProfiles{}}, k, nil, spec)
		l.Converge()
		other := *l.Clients
		other.Scope.Region = "us-west-2"
		theirs := kindtest.Defaulted(&other, kindtest.Controlled(v1alpha1.IdentityPod))
		theirs.Scope, theirs.Spec.Region = other.Scope, other.Scope.Region
		theirs.Spec.ControllerRole.Name, theirs.Spec.NodeRole.PermissionsBoundary = "", ""
		theirs.Spec = clusterspec.Default(theirs.Spec)
		shared := 0
		for _, item := range k.Desired(theirs) {
			mine := slices.ContainsFunc(l.Items(), func(i state.Item) bool { return i.Key == item.Key })
			observed := k.Read(t.Context(), &other, kindtest.Keys(item))[item.Key]
			if item.Key.Name != "nodes" {
				if mine || observed.Object != nil {
					t.Errorf("%s is desired in both regions", item.Key)
				}
				continue
			}
			shared++
			if !mine || observed.Object == nil || observed.Ours || deletable(inventory.Record{Policy: string(v1alpha1.AWSDeletionPolicyDelete)}, observed) {
				t.Errorf("%s: in both %v, seen %v, ours %v", item.Key, mine, observed.Object != nil, observed.Ours)
			}
		}
		if _, policy := k.(iam.Policies); !policy && shared != 1 {
			t.Errorf("%T: %d things have one name in both regions: the test shows nothing", k, shared)
		}
	}
}

func TestEveryPartitionIsKnownByItsRegions(t *testing.T) {
	for region, want := range map[string]string{
		"eu-west-1": "aws", "us-east-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "us-iso-east-1": "aws-iso",
		"us-isob-east-1": "aws-iso-b", "eu-isoe-west-1": "aws-iso-e", "us-isof-south-1": "aws-iso-f", "eusc-de-east-1": "aws-eusc",
	} {
		if got := iampolicy.PartitionOf(region); got != want {
			t.Errorf("%s is in %s", region, got)
		}
	}
}
