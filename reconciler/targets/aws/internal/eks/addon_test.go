package eks

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

func TestAddonsAreCompared(t *testing.T) {
	l := kindtest.NewFixture(t, Addons{}, func(c *sandboxaws.Config) {
		c.Cluster.Addons = map[string]string{"vpc-cni": "v1.19.0-eksbuild.1", "coredns": "v1.11.4-eksbuild.2", "kube-proxy": "v1.33.0-eksbuild.1"}
	}, v1alpha1.ClusterSpec{Addons: []v1alpha1.Addon{
		{Name: "vpc-cni"}, {Name: "coredns", Version: "v1.11.4-eksbuild.2"}, {Name: "kube-proxy", Version: "v1.33.1-eksbuild.1"}, {Name: "aws-ebs-csi-driver"},
	}})
	if diff := cmp.Diff([]string{"kube-proxy", "aws-ebs-csi-driver"}, l.Differences()); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	observed := l.ReadAll()[l.Items()[3].Key]
	if observed.Object != nil || observed.Err != nil || !strings.Contains(observed.Missing, ": aws eks create-addon --cluster-name sandbox --addon-name aws-ebs-csi-driver --region us-east-1, with") {
		t.Errorf("one that is missing is %+v", observed)
	}
	l.Requests(map[string]int{"DescribeAddon": 4})
	l.Deny("eks", "DescribeAddon")
}

func TestAnAddonThatIsNotWellIsNoted(t *testing.T) {
	got := observedAddon(&ekstypes.Addon{
		AddonVersion: sdk.String("v1"), Status: ekstypes.AddonStatusDegraded,
		Health: &ekstypes.AddonHealth{Issues: []ekstypes.AddonIssue{{Code: ekstypes.AddonIssueCodeInsufficientNumberOfReplicas}}},
	})
	if diff := cmp.Diff([]string{"the add-on is DEGRADED", "the add-on is not well: InsufficientNumberOfReplicas"}, kindtest.Texts(got.Notes)); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}
