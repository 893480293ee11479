package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/eks"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/iam"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

func TestEveryKindOfThesePartsIsInTheTable(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	s := kindtest.Defaulted(c, v1alpha1.ClusterSpec{
		Discovery:         &v1alpha1.Discovery{Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}},
		InterruptionQueue: &v1alpha1.InterruptionQueue{},
		Logging:           &v1alpha1.Logging{Types: []v1alpha1.LogType{"api"}, RetentionDays: 30},
		ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{{Name: "system", InstanceTypes: []string{"t3.small"}}},
		Version:           "1.33",
		Addons:            []v1alpha1.Addon{{Name: "vpc-cni"}},
	})
	observed := map[string]int{}
	for of, k := range kinds() {
		for _, item := range k.Desired(s) {
			if item.Key.Group != of.service || item.Key.Kind != of.kind || item.Key.Target != Name || item.Key.Namespace != s.Region {
				t.Errorf("%v wants %+v", of, item.Key)
			}
			observed[item.Key.Kind]++
		}
	}
	want := map[string]int{
		"Queue": 1, "Rule": 5, "LogGroup": 1, "Logging": 1, "Version": 1, "Addon": 1, "NodeGroup": 1, "NodeGroupHardware": 1, "SubnetTag": 1, "SecurityGroupTag": 1,
	}
	maps.DeleteFunc(observed, func(k string, _ int) bool { _, mine := want[k]; return !mine })
	if diff := cmp.Diff(want, observed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for of, k := range kinds() {
		if got := k.Desired(kindtest.Defaulted(c, v1alpha1.ClusterSpec{})); len(got) > 0 {
			t.Errorf("without any part %v wants %v", of, kindtest.Names(got))
		}
	}
}

func TestHeldItemsNameTheCommandThatChangesThem(t *testing.T) {
	c, _ := kindtest.NewCloud(t, nil)
	s := kindtest.Defaulted(c, v1alpha1.ClusterSpec{
		Version: "1.34",
		Addons:  []v1alpha1.Addon{{Name: "vpc-cni"}, {Name: "x; rm -rf 'y'", Version: "v1"}},
		ManagedNodeGroups: []v1alpha1.ManagedNodeGroup{
			{Name: "system", InstanceTypes: []string{"t3.small", "m5.large"}, DiskSize: sdk.Int32(50), CapacityType: "SPOT"},
		},
	})
	for _, tt := range []struct {
		kind resource.Kind
		want []string
	}{
		{eks.Version{}, []string{"aws eks update-cluster-version --name sandbox --kubernetes-version 1.34 --region us-east-1"}},
		{eks.Addons{}, []string{
			"aws eks update-addon --cluster-name sandbox --addon-name vpc-cni --region us-east-1",
			`aws eks update-addon --cluster-name sandbox --addon-name 'x; rm -rf '\''y'\''' --addon-version v1 --region us-east-1`,
		}},
		{eks.NodeGroupHardware{}, []string{
			"aws eks create-nodegroup --cluster-name sandbox --nodegroup-name NEW-NAME --node-role ROLE-ARN --subnets SUBNET-IDS --instance-types t3.small m5.large --disk-size 50 --capacity-type SPOT --region us-east-1",
			"aws eks delete-nodegroup --cluster-name sandbox --nodegroup-name system --region us-east-1",
		}},
	} {
		var all []string
		for _, item := range tt.kind.Desired(s) {
			if item.ReadOnly == "" {
				t.Errorf("%s is not held", item.Key)
			}
			all = append(all, item.ReadOnly)
			if err := tt.kind.Write(t.Context(), c, item, resource.Live{}); err == nil {
				t.Errorf("%s was written", item.Key)
			}
			if err := tt.kind.Remove(t.Context(), c, item.Key, resource.Live{}); err == nil {
				t.Errorf("%s was removed", item.Key)
			}
		}
		for _, w := range tt.want {
			if !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, w) }) {
				t.Errorf("no hold of %s says %q: %s", fmt.Sprintf("%T", tt.kind), w, strings.Join(all, "\n"))
			}
		}
	}
}

func TestTheControllersIdentityIsWrittenOnlyByBootstrap(t *testing.T) {
	for _, by := range []v1alpha1.IdentityKind{v1alpha1.IdentityPod, v1alpha1.IdentityIRSA} {
		c, _ := kindtest.NewCloud(t, nil)
		s := kindtest.Defaulted(c, kindtest.Controlled(by))
		for _, boot := range []bool{true, false} {
			s.Bootstrap = boot
			held := map[string]bool{}
			for _, k := range kinds() {
				for _, item := range k.Desired(s) {
					held[item.Key.String()] = item.ReadOnly == iam.OnlyBootstrap
					if item.ReadOnly != "" && item.ReadOnly != iam.OnlyBootstrap {
						t.Errorf("%s is held: %s", item.Key, item.ReadOnly)
					}
				}
			}
			want := map[string]bool{
				"Policy.iam/poolwright-boundary-sandbox-us-east-1": !boot, "Policy.iam/poolwright-engine-sandbox-us-east-1": !boot, "Policy.iam/poolwright-resources-sandbox-us-east-1": !boot, "Policy.iam/poolwright-deny-sandbox-us-east-1": !boot,
				"Role.iam/poolwright-sandbox-us-east-1": !boot, "Role.iam/nodes": false, "InstanceProfile.iam/nodes": false,
				"AccessEntry.eks/us-east-1/sandbox/nodes": false,
			}
			if by == v1alpha1.IdentityPod {
				want["PodIdentityAssociation.eks/us-east-1/sandbox/poolwright-system/poolwright"] = !boot
			}
			if diff := cmp.Diff(want, held); diff != "" {
				t.Errorf("bootstrap %v, %s (-want +got):\n%s", boot, by, diff)
			}
		}
	}
}
