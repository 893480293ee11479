package aws_test

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

func describedTags(list []types.Tag) map[string]string {
	out := map[string]string{}
	for _, p := range list {
		out[*p.Key] = *p.Value
	}
	return out
}

// tagsOf are the tags of a subnet or security group as its own list shows them.
func (w *fixture) tagsOf(t *testing.T, id string) map[string]string {
	t.Helper()
	if id[:3] == "sg-" {
		out, err := w.ec2.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
		ok(t, err)
		return describedTags(out.SecurityGroups[0].Tags)
	}
	out, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{id}})
	ok(t, err)
	return describedTags(out.Subnets[0].Tags)
}

func TestTagsComeAndGo(t *testing.T) {
	for name, tt := range map[string]struct {
		remove []types.Tag
		code   string
		want   map[string]string // of what begins as a=1, b=2 and AWS's own, if it has one
	}{
		"by key":                       {remove: []types.Tag{{Key: sdk.String("a")}}, want: map[string]string{"b": "2"}},
		"by key and value":             {remove: tags("a", "1"), want: map[string]string{"b": "2"}},
		"not by key and another value": {remove: tags("a", "2"), want: map[string]string{"a": "1", "b": "2"}},
		"not by key and no value":      {remove: tags("a", ""), want: map[string]string{"a": "1", "b": "2"}},
		"one that is not there":        {remove: []types.Tag{{Key: sdk.String("c")}}, want: map[string]string{"a": "1", "b": "2"}},
		"all of them":                  {want: map[string]string{}},
		"one of AWS's own": {remove: []types.Tag{{Key: sdk.String("aws:eks:cluster-name")}}, code: "InvalidParameterValue",
			want: map[string]string{"a": "1", "b": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			for _, id := range []string{w.subnets(t)["us-east-1a"], "sg-0000000000000bbb2"} {
				_, err := w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}})
				ok(t, err)
				ok(t, drop(w.ec2.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags("a", "1", "b", "2")})))
				wantCode(t, drop(w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: tt.remove})), tt.code)
				got := w.tagsOf(t, id)
				if id[:3] == "sg-" {
					if got["aws:eks:cluster-name"] != "sandbox" {
						t.Error("AWS's own tag is gone")
					}
					delete(got, "aws:eks:cluster-name")
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("tags of %s (-want +got):\n%s", id, diff)
				}
			}
		})
	}
}

func TestDeletingTagsOfSomethingUnknownDeletesNone(t *testing.T) {
	w := newFixture(t, nil)
	id := w.subnets(t)["us-east-1a"]
	before := w.tagsOf(t, id)
	wantCode(t, drop(w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id, "subnet-1"}})), "InvalidSubnetID.NotFound")
	wantCode(t, drop(w.ec2.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, DryRun: sdk.Bool(true)})), "DryRunOperation")
	if diff := cmp.Diff(before, w.tagsOf(t, id)); diff != "" || len(before) == 0 {
		t.Errorf("tags (-before +after):\n%s", diff)
	}
	ok(t, w.cloud.SetFreeAddresses(id, 0))
	out, err := w.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{SubnetIds: []string{id}})
	ok(t, err)
	if n := *out.Subnets[0].AvailableIpAddressCount; n != 0 {
		t.Errorf("%d addresses are free", n)
	}
}
