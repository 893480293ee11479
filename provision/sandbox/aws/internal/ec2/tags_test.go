package ec2

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/ec2test"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/placement"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/reservations"
)

// taggable is one resource of every kind that has tags, by its kind.
func (c *cloud) taggable() map[string]string {
	c.t.Helper()
	instance := c.launch("spot", 1)[0]
	_, group := c.VPC.ClusterGroups()
	out := map[string]string{"an instance": instance, "a subnet": c.subnet, "a security group": group, "an image": c.image}
	var err error
	if out["a reservation"], err = c.Reservations.Add(reservations.Reservation{Type: "g5.xlarge", Zone: "us-east-1a", Total: 1}); err != nil {
		c.t.Fatal(err)
	}
	if out["a placement group"], err = c.Placement.Add(placement.Group{Name: "tight", Strategy: "cluster"}); err != nil {
		c.t.Fatal(err)
	}
	got, err := c.client.DescribeInstances(c.t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	if err != nil {
		c.t.Fatal(err)
	}
	i := got.Reservations[0].Instances[0]
	out["a volume"], out["an interface"], out["a spot request"] = *i.BlockDeviceMappings[0].Ebs.VolumeId, *i.NetworkInterfaces[0].NetworkInterfaceId, *i.SpotInstanceRequestId
	list, err := c.client.DescribeLaunchTemplates(c.t.Context(), &ec2.DescribeLaunchTemplatesInput{})
	if err != nil {
		c.t.Fatal(err)
	}
	out["a launch template"] = *list.LaunchTemplates[0].LaunchTemplateId
	return out
}

func (c *cloud) tag(dry bool, tags []types.Tag, ids ...string) string {
	return ec2test.Code(c.client.CreateTags(c.t.Context(), &ec2.CreateTagsInput{Resources: ids, Tags: tags, DryRun: &dry}))
}

// many are so many tags with a prefix.
func many(prefix string, n int) (out []types.Tag) {
	for i := range n {
		out = append(out, ec2test.Tags(fmt.Sprintf("%s%d", prefix, i), "v")...)
	}
	return out
}

func TestEveryKindOfResourceIsTaggedAndUntagged(t *testing.T) {
	c := newCloud(t)
	for kind, id := range c.taggable() {
		before := len(c.tagsOf(id))
		if got := c.tag(false, ec2test.Tags("a", "1", "b", "2"), id); got != "" {
			t.Errorf("%s: %q", kind, got)
		}
		if got := c.tag(false, ec2test.Tags("a", "3"), id); got != "" || c.tagsOf(id)["a"] != "3" || c.tagsOf(id)["b"] != "2" || len(c.tagsOf(id)) != before+2 {
			t.Errorf("%s has the tags %v, %q", kind, c.tagsOf(id), got)
		}
		remove := ec2test.Code(c.client.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: sdk.String("a")}, {Key: sdk.String("b"), Value: sdk.String("other")}}}))
		if _, left := c.tagsOf(id)["a"]; remove != "" || left || c.tagsOf(id)["b"] != "2" {
			t.Errorf("%s has the tags %v, %q", kind, c.tagsOf(id), remove)
		}
	}
}

// EC2's reference: 50 tags a resource, of which AWS's own do not count; keys of up to
// 128 and values of up to 256 characters, not bytes; aws: is reserved.
func TestTagsAreWithinEC2sLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		tags []types.Tag
		want string
	}{
		"as many as fit":                       {many("k", 49), ""},
		"one more than fits":                   {many("k", 50), "TagLimitExceeded"},
		"as many as fit, over one that is":     {append(many("k", 49), ec2test.Tags("there", "again")...), ""},
		"more than fit in one request":         {many("k", 51), "TagLimitExceeded"},
		"a key of 128 letters":                 {ec2test.Tags(strings.Repeat("k", 128), "v"), ""},
		"a key of 128 letters beyond ASCII":    {ec2test.Tags(strings.Repeat("ü", 128), "v"), ""},
		"a key of 129 letters":                 {ec2test.Tags(strings.Repeat("k", 129), "v"), "InvalidParameterValue"},
		"a value of 256 letters beyond ASCII":  {ec2test.Tags("k", strings.Repeat("ü", 256)), ""},
		"a value of 257 letters":               {ec2test.Tags("k", strings.Repeat("v", 257)), "InvalidParameterValue"},
		"an empty value":                       {ec2test.Tags("k", ""), ""},
		"an empty key":                         {ec2test.Tags("", "v"), "InvalidParameterValue"},
		"one of AWS's own":                     {ec2test.Tags("aws:k", "v"), "InvalidParameterValue"},
		"one of AWS's own in another case":     {ec2test.Tags("AWS:k", "v"), "InvalidParameterValue"},
		"one that has AWS's prefix inside":     {ec2test.Tags("my-aws:k", "v"), ""},
		"one that begins as AWS's prefix does": {ec2test.Tags("awsome", "v"), ""},
		"the same key twice":                   {ec2test.Tags("k", "1", "k", "2"), "InvalidParameterValue"},
		"two keys that differ in case":         {ec2test.Tags("k", "1", "K", "2"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			// The cluster's group has a tag of AWS's own, which does not count.
			id, _ := c.VPC.ClusterGroups()
			if _, err := c.client.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}}); err != nil {
				t.Fatal(err)
			}
			if got := c.tag(false, ec2test.Tags("there", "first"), id); got != "" {
				t.Fatal(got)
			}
			if own := c.tagsOf(id)["aws:eks:cluster-name"]; own != "sandbox" {
				t.Fatalf("AWS's own tag is %q", own)
			}
			if got := c.tag(false, tt.tags, id); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			want := map[string]string{"aws:eks:cluster-name": "sandbox", "there": "first"}
			if tt.want == "" {
				for _, tag := range tt.tags {
					want[*tag.Key] = *tag.Value
				}
			}
			if diff := cmp.Diff(want, c.tagsOf(id)); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllResourcesAreTaggedOrNone(t *testing.T) {
	for name, tt := range map[string]struct {
		id   string // beside a subnet
		dry  bool
		want string
	}{
		"an instance that is not there":        {"i-0123456789abcdef0", false, "InvalidInstanceID.NotFound"},
		"an instance's id of no form":          {"i-xyz", false, "InvalidInstanceID.Malformed"},
		"a launch template that is not there":  {"lt-0123456789abcdef0", false, "InvalidLaunchTemplateId.NotFound"},
		"a subnet that is not there":           {"subnet-0123456789abcdef0", false, "InvalidSubnetID.NotFound"},
		"a security group that is not there":   {"sg-0123456789abcdef0", false, "InvalidGroup.NotFound"},
		"an image that is not there":           {"ami-0123456789abcdef0", false, "InvalidAMIID.NotFound"},
		"a volume that is not there":           {"vol-0123456789abcdef0", false, "InvalidVolume.NotFound"},
		"an interface that is not there":       {"eni-0123456789abcdef0", false, "InvalidNetworkInterfaceID.NotFound"},
		"a reservation that is not there":      {"cr-0123456789abcdef0", false, "InvalidCapacityReservationId.NotFound"},
		"a placement group that is not there":  {"pg-0123456789abcdef0", false, "InvalidPlacementGroup.Unknown"},
		"a spot request that is not there":     {"sir-01234567", false, "InvalidSpotInstanceRequestID.NotFound"},
		"something that EC2 does not have":     {"bucket-1", false, "InvalidID"},
		"nothing":                              {"", false, "InvalidID"},
		"a dry run":                            {"", true, "DryRunOperation"},
		"a dry run of one that is not there":   {"i-0123456789abcdef0", true, "InvalidInstanceID.NotFound"},
		"the name of a placement group, no id": {"tight", false, "InvalidID"},
	} {
		c := newCloud(t)
		before := len(c.tagsOf(c.subnet))
		ids := []string{c.subnet, tt.id}
		if tt.dry && tt.id == "" {
			ids = ids[:1]
		}
		got := c.tag(tt.dry, ec2test.Tags("a", "1"), ids...)
		removed := ec2test.Code(c.client.DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: ids, DryRun: &tt.dry}))
		if got != tt.want || removed != tt.want || len(c.tagsOf(c.subnet)) != before {
			t.Errorf("%s: tagged with %q, untagged with %q, want %q; the subnet has %v", name, got, removed, tt.want, c.tagsOf(c.subnet))
		}
	}
}
