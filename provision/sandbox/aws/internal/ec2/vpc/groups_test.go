package vpc_test

import (
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
)

func (n network) groups(t *testing.T, in *ec2.DescribeSecurityGroupsInput) []types.SecurityGroup {
	t.Helper()
	out, err := n.client.DescribeSecurityGroups(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.SecurityGroups
}

// EC2's reference: up to 255 characters of a set, not beginning with sg-, unique within
// the VPC whatever the case.
func TestAGroupIsCreatedOrRefused(t *testing.T) {
	s := sdk.String
	for name, tt := range map[string]struct {
		in   ec2.CreateSecurityGroupInput
		want string
	}{
		"with a name and a description":             {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b")}, ""},
		"with all kinds of characters":              {ec2.CreateSecurityGroupInput{GroupName: s("aZ 09._-:/()#,@[]+=&;{}!$*"), Description: s("aZ 09._-:/()#,@[]+=&;{}!$*")}, ""},
		"with a name of 255 characters":             {ec2.CreateSecurityGroupInput{GroupName: s(strings.Repeat("n", 255)), Description: s("b")}, ""},
		"with a name of 256 characters":             {ec2.CreateSecurityGroupInput{GroupName: s(strings.Repeat("n", 256)), Description: s("b")}, "InvalidParameterValue"},
		"with a description of 255 characters":      {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s(strings.Repeat("n", 255))}, ""},
		"with a description of 256 characters":      {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s(strings.Repeat("n", 256))}, "InvalidParameterValue"},
		"with a name that begins as an id does":     {ec2.CreateSecurityGroupInput{GroupName: s("sg-mine"), Description: s("b")}, "InvalidParameterValue"},
		"with the beginning of an id alone":         {ec2.CreateSecurityGroupInput{GroupName: s("sg-"), Description: s("b")}, "InvalidParameterValue"},
		"with a name that has an id's inside":       {ec2.CreateSecurityGroupInput{GroupName: s("my-sg-1"), Description: s("b")}, ""},
		"with a letter outside of the set":          {ec2.CreateSecurityGroupInput{GroupName: s("größe"), Description: s("b")}, "InvalidParameterValue"},
		"with a description outside of the set":     {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("<b>")}, "InvalidParameterValue"},
		"in the VPC":                                {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b"), VpcId: s("vpc-0a11ce0000000c0de")}, ""},
		"in a VPC that is not there":                {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b"), VpcId: s("vpc-1")}, "InvalidVpcID.NotFound"},
		"with a name that is there":                 {ec2.CreateSecurityGroupInput{GroupName: s("default"), Description: s("b")}, "InvalidGroup.Duplicate"},
		"with a name that is there in another case": {ec2.CreateSecurityGroupInput{GroupName: s("Sandbox-NODE"), Description: s("b")}, "InvalidGroup.Duplicate"},
		"with tags":                                  {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b"), TagSpecifications: ec2test.Tagged("security-group", "k", "v")}, ""},
		"with tags for something else":               {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b"), TagSpecifications: ec2test.Tagged("instance", "k", "v")}, "InvalidParameterValue"},
		"with a tag that only AWS gives":             {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b"), TagSpecifications: ec2test.Tagged("security-group", "aws:k", "v")}, "InvalidParameterValue"},
		"in a dry run":                               {ec2.CreateSecurityGroupInput{GroupName: s("a"), Description: s("b"), DryRun: sdk.Bool(true)}, "DryRunOperation"},
		"in a dry run of what would be refused":      {ec2.CreateSecurityGroupInput{GroupName: s("default"), Description: s("b"), DryRun: sdk.Bool(true)}, "InvalidGroup.Duplicate"},
		"in a dry run of a name that is too long":    {ec2.CreateSecurityGroupInput{GroupName: s(strings.Repeat("n", 256)), Description: s("b"), DryRun: sdk.Bool(true)}, "InvalidParameterValue"},
		"with a name that is the start of another's": {ec2.CreateSecurityGroupInput{GroupName: s("defaul"), Description: s("b")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t)
			before := len(n.groups(t, &ec2.DescribeSecurityGroupsInput{}))
			made, err := n.client.CreateSecurityGroup(t.Context(), &tt.in)
			if got := ec2test.Code(made, err); got != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			after := n.groups(t, &ec2.DescribeSecurityGroupsInput{})
			if tt.want != "" {
				if len(after) != before {
					t.Errorf("what was refused left %d groups, before %d", len(after), before)
				}
				return
			}
			got := n.groups(t, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{*made.GroupId}})[0]
			if *got.GroupName != *tt.in.GroupName || *got.Description != *tt.in.Description || *got.VpcId != n.ID() || len(after) != before+1 {
				t.Errorf("it shows as %s, %s, %s", *got.GroupName, *got.Description, *got.VpcId)
			}
			if want := "arn:aws:ec2:us-east-1:123456789012:security-group/" + *made.GroupId; *made.SecurityGroupArn != want || len(got.Tags) != len(made.Tags) {
				t.Errorf("its ARN is %s, want %s; tags %v", *made.SecurityGroupArn, want, got.Tags)
			}
		})
	}
}

func TestAGroupIsDeletedOnlyWhereNothingUsesIt(t *testing.T) {
	n := newNetwork(t)
	made, err := n.client.CreateSecurityGroup(t.Context(), &ec2.CreateSecurityGroupInput{GroupName: sdk.String("extra"), Description: sdk.String("b")})
	if err != nil {
		t.Fatal(err)
	}
	extra := *made.GroupId
	cluster, nodes := n.ClusterGroups()
	standard := *n.groups(t, &ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("group-name", "default")})[0].GroupId
	try := func(when string, in *ec2.DeleteSecurityGroupInput, want string) {
		t.Helper()
		if got := ec2test.Code(n.client.DeleteSecurityGroup(t.Context(), in)); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	try("by name, which needs a default VPC", &ec2.DeleteSecurityGroupInput{GroupName: sdk.String("extra")}, "MissingParameter")
	try("by nothing", &ec2.DeleteSecurityGroupInput{}, "MissingParameter")
	try("an id of no form", &ec2.DeleteSecurityGroupInput{GroupId: sdk.String("sg-xyz")}, "InvalidGroupId.Malformed")
	try("one that is not there", &ec2.DeleteSecurityGroupInput{GroupId: sdk.String("sg-0123456789abcdef0")}, "InvalidGroup.NotFound")
	try("the default one", &ec2.DeleteSecurityGroupInput{GroupId: &standard}, "CannotDelete")
	try("the cluster's", &ec2.DeleteSecurityGroupInput{GroupId: &cluster}, "DependencyViolation")
	try("the nodes'", &ec2.DeleteSecurityGroupInput{GroupId: &nodes}, "DependencyViolation")
	n.launch(t, first, n.PrivateSubnets()[0], "NetworkInterface.1.DeviceIndex=0&NetworkInterface.2.DeviceIndex=1&NetworkInterface.2.SecurityGroupId.1="+extra)
	try("one of a second interface", &ec2.DeleteSecurityGroupInput{GroupId: &extra}, "DependencyViolation")
	n.Detach(first, n.PrivateSubnets()[0], 2)
	try("a dry run once it is free", &ec2.DeleteSecurityGroupInput{GroupId: &extra, DryRun: sdk.Bool(true)}, "DryRunOperation")
	if !n.HasGroup(extra) {
		t.Error("a dry run deleted the group")
	}
	before := n.Clone()
	try("once it is free", &ec2.DeleteSecurityGroupInput{GroupId: &extra}, "")
	try("twice", &ec2.DeleteSecurityGroupInput{GroupId: &extra}, "InvalidGroup.NotFound")
	if n.HasGroup(extra) || !before.HasGroup(extra) {
		t.Error("the group is there after its end, or gone from an older copy")
	}
}

func TestGroupsAreChosenByFiltersAndIDs(t *testing.T) {
	n := newNetwork(t)
	cluster, nodes := n.ClusterGroups()
	for name, tt := range map[string]struct {
		in   ec2.DescribeSecurityGroupsInput
		want []string
		code string
	}{
		"by name":                              {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("group-name", "sandbox-node")}, want: []string{nodes}},
		"by a part of a name":                  {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("group-name", "eks-cluster-sg-*")}, want: []string{cluster}},
		"by id and description":                {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("group-id", cluster+","+nodes, "description", "EKS node*")}, want: []string{nodes}},
		"by the tags of discovery":             {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("tag:karpenter.sh/discovery", "sandbox")}, want: []string{cluster, nodes}},
		"by owner and VPC":                     {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("owner-id", "123456789012", "vpc-id", n.ID(), "tag-key", "aws:eks:cluster-name")}, want: []string{cluster}},
		"by another owner":                     {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("owner-id", "000000000000")}},
		"by ids":                               {in: ec2.DescribeSecurityGroupsInput{GroupIds: []string{nodes, cluster}}, want: []string{cluster, nodes}},
		"by ids of which a filter leaves one":  {in: ec2.DescribeSecurityGroupsInput{GroupIds: []string{nodes, cluster}, Filters: ec2test.Filters("group-name", "sandbox-node")}, want: []string{nodes}},
		"by an id that is not there":           {in: ec2.DescribeSecurityGroupsInput{GroupIds: []string{nodes, "sg-0123456789abcdef0"}}, code: "InvalidGroup.NotFound"},
		"by an id of no form":                  {in: ec2.DescribeSecurityGroupsInput{GroupIds: []string{"default"}}, code: "InvalidGroupId.Malformed"},
		"by a name":                            {in: ec2.DescribeSecurityGroupsInput{GroupNames: []string{"sandbox-node"}}, want: []string{nodes}},
		"by a name that is not there":          {in: ec2.DescribeSecurityGroupsInput{GroupNames: []string{"none"}}, code: "InvalidGroup.NotFound"},
		"by a filter that is not there":        {in: ec2.DescribeSecurityGroupsInput{Filters: ec2test.Filters("egress.ip-permission.port", "22")}, code: "InvalidParameterValue"},
		"by more in a page than a page begins": {in: ec2.DescribeSecurityGroupsInput{MaxResults: sdk.Int32(4)}, code: "InvalidParameterValue"},
	} {
		out, err := n.client.DescribeSecurityGroups(t.Context(), &tt.in)
		if got := ec2test.Code(out, err); got != tt.code {
			t.Errorf("%s: %q, want %q", name, got, tt.code)
			continue
		}
		var got []string
		if out != nil {
			for _, g := range out.SecurityGroups {
				got = append(got, *g.GroupId)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
