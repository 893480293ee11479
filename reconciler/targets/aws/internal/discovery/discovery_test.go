package discovery

import (
	"fmt"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/projection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

const nodeGroup = "sg-0000000000000ccc3"

// newDiscoveryLife declares the tag for the first two subnets, or for a
// security group.
func newDiscoveryLife(t *testing.T, k resource.Kind, d v1alpha1.Discovery) *kindtest.Fixture {
	t.Helper()
	l := kindtest.NewFixture(t, k, nil, v1alpha1.ClusterSpec{})
	nets, err := l.Clients.EC2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nets.Subnets[:2] {
		d.Subnets = append(d.Subnets, *s.SubnetId)
	}
	d.SecurityGroups = []string{nodeGroup}
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Discovery = &d })
	return l
}

func setTag(l *kindtest.Fixture, id, key, value string) {
	l.Helper()
	l.Do(l.Clients.EC2.CreateTags(l.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: &key, Value: &value}}}))
}

func removeTags(l *kindtest.Fixture, id string, keys ...string) {
	l.Helper()
	in := &ec2.DeleteTagsInput{Resources: []string{id}}
	for _, k := range keys {
		in.Tags = append(in.Tags, ec2types.Tag{Key: sdk.String(k)})
	}
	l.Do(l.Clients.EC2.DeleteTags(l.Context(), in))
}

// tags are the tags that the thing really has, without its name and role.
func liveTags(l *kindtest.Fixture, id string) map[string]string {
	l.Helper()
	got, err := l.Clients.EC2.DescribeSubnets(l.Context(), &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: sdk.String("subnet-id"), Values: []string{id}}}})
	if err != nil || len(got.Subnets) != 1 {
		l.Fatalf("%v, %v", got, err)
	}
	tags := ec2Tags(got.Subnets[0].Tags)
	for k := range tags {
		if k == "Name" || strings.HasPrefix(k, "kubernetes.io/") {
			delete(tags, k)
		}
	}
	return tags
}

func TestDiscoveryTagsArePutOnAndPutRightWhereTheyAreBroken(t *testing.T) {
	for describe, k := range map[string]resource.Kind{"DescribeSubnets": Subnets{}, "DescribeSecurityGroups": SecurityGroups{}} {
		for _, key := range []string{discoveryKey, "example.com/nodes:gpu"} {
			l := newDiscoveryLife(t, k, v1alpha1.Discovery{Key: key})
			for _, item := range l.Items() {
				if observed := l.ReadOne(item); !observed.Ours || observed.Object != nil {
					t.Errorf("%s, which has no such tag: ours %v, object %v", item.Key, observed.Ours, observed.Object)
				}
			}
			l.Converge()
			l.Requests(map[string]int{describe: 1})
			l.Deny("ec2", describe)
			id, _ := ParseName(l.Items()[0].Key.Name)
			l.Break("a tag that is gone", func() { removeTags(l, id, key) })
			l.Break("both tags gone", func() { removeTags(l, id, key, MarkerKey(l.Clients.Scope, key)) })
			l.Break("another value", func() { setTag(l, id, key, "other") })
			setTag(l, id, "others", "stay")
			if bad := l.Differences(); len(bad) > 0 {
				t.Errorf("others' tags differ: %v", bad)
			}
			l.Change(func(c *v1alpha1.ClusterSpec) { c.Discovery.Value = "elsewhere" })
			if len(l.Differences()) == 0 {
				t.Error("another declared value is not seen")
			}
			l.Converge()
		}
	}
}

func TestADiscoveryTagOfOthersIsTheirs(t *testing.T) {
	l := newDiscoveryLife(t, Subnets{}, v1alpha1.Discovery{})
	item := l.Items()[0]
	id := item.Key.Name
	setTag(l, id, discoveryKey, "other")
	if observed := l.ReadOne(item); observed.Ours || projection.Satisfied(item, observed) {
		t.Errorf("ours %v", observed.Ours)
	}
	setTag(l, id, discoveryKey, "sandbox")
	if observed := l.ReadOne(item); observed.Ours || projection.Satisfied(item, observed) || !state.Equal(item.Object, projection.WithOwnTags(item.Object, projection.Project(item.Object, observed.Object))) {
		t.Errorf("as desired, by others: ours %v, object %v", observed.Ours, observed.Object)
	}
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Discovery.DeletionPolicy = v1alpha1.AWSDeletionPolicyDelete })
	item = l.Items()[0]
	if observed := l.ReadOne(item); observed.Ours || projection.Satisfied(item, observed) || observed.Tags[tag.DeletionPolicy] != "" {
		t.Errorf("others' tag, desired to be deleted some day: ours %v, tags %v", observed.Ours, observed.Tags)
	}
	setTag(l, id, discoveryKey, "other")
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Discovery.ManagementPolicy = v1alpha1.ManagementPolicy{Adopt: true} })
	l.Converge()
	want := map[string]string{discoveryKey: "sandbox", markerPrefix + "sandbox": adoptedMark}
	if diff := cmp.Diff(want, liveTags(l, id)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if observed := l.ReadOne(l.Items()[0]); !observed.Ours || observed.Tags[tag.DeletionPolicy] != "" {
		t.Errorf("adopted: ours %v, tags %v", observed.Ours, observed.Tags)
	}
}

func TestADiscoveryTagIsRemovedOnlyWhereItsDeletionPolicyIsDelete(t *testing.T) {
	for _, k := range []resource.Kind{Subnets{}, SecurityGroups{}} {
		for policy, stays := range map[v1alpha1.AWSDeletionPolicy]bool{v1alpha1.AWSDeletionPolicyOrphan: true, v1alpha1.AWSDeletionPolicyDelete: false} {
			l := newDiscoveryLife(t, k, v1alpha1.Discovery{ManagementPolicy: v1alpha1.ManagementPolicy{DeletionPolicy: policy}})
			l.Converge()
			item := l.Items()[0]
			observed := l.ReadOne(item)
			if got := observed.Tags[tag.DeletionPolicy]; got != string(policy) || !l.Clients.Scope.Owns(observed.Tags) {
				t.Errorf("tags %v", observed.Tags)
			}
			for range 2 {
				if err := l.Remove(t.Context(), l.Clients, item.Key, observed); err != nil {
					t.Fatal(err)
				}
			}
			if _, has := l.ReadOne(item).Tags[discoveryKey]; has != stays {
				t.Errorf("%T with policy %s: the tag is there: %v", k, policy, has)
			}
			if _, has := l.ReadOne(item).Tags[MarkerKey(l.Clients.Scope, discoveryKey)]; has != stays {
				t.Errorf("%T with policy %s: the marker is there: %v", k, policy, has)
			}
		}
	}
}

func TestTakingADiscoveryTagOffSparesAValueThatSomebodyHasJustSet(t *testing.T) {
	l := newDiscoveryLife(t, Subnets{}, v1alpha1.Discovery{ManagementPolicy: v1alpha1.ManagementPolicy{DeletionPolicy: v1alpha1.AWSDeletionPolicyDelete}})
	l.Converge()
	item := l.Items()[0]
	observed := l.ReadOne(item)
	setTag(l, item.Key.Name, discoveryKey, "theirs")
	if err := l.Remove(t.Context(), l.Clients, item.Key, observed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{discoveryKey: "theirs"}, liveTags(l, item.Key.Name)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANewDeletionPolicyReachesTheMarker(t *testing.T) {
	l := newDiscoveryLife(t, Subnets{}, v1alpha1.Discovery{ManagementPolicy: v1alpha1.ManagementPolicy{DeletionPolicy: v1alpha1.AWSDeletionPolicyDelete}})
	l.Converge()
	l.Change(func(c *v1alpha1.ClusterSpec) { c.Discovery.DeletionPolicy = v1alpha1.AWSDeletionPolicyOrphan })
	if len(l.Differences()) == 0 {
		t.Error("it is not seen")
	}
	l.Converge()
	if got := l.ReadOne(l.Items()[0]).Tags[tag.DeletionPolicy]; got != "Orphan" {
		t.Errorf("the policy is %q", got)
	}
}

func TestClustersThatShareASubnetLeaveEachOthersTagsAlone(t *testing.T) {
	l := newDiscoveryLife(t, Subnets{}, v1alpha1.Discovery{Key: "karpenter.sh/discovery/a", ManagementPolicy: v1alpha1.ManagementPolicy{DeletionPolicy: v1alpha1.AWSDeletionPolicyDelete}})
	l.Converge()
	other := *l
	theirs := *l.Clients
	theirs.Scope.Cluster = "other"
	other.Clients, other.Declared.Cluster = &theirs, "other"
	other.Change(func(c *v1alpha1.ClusterSpec) {
		c.Name = "other"
		c.Discovery = &v1alpha1.Discovery{Key: "karpenter.sh/discovery/b", Subnets: c.Discovery.Subnets}
	})
	other.Converge()
	if bad := l.Differences(); len(bad) > 0 {
		t.Errorf("after the other cluster's corrections %v differ", bad)
	}
	item := l.Items()[0]
	if err := l.Remove(t.Context(), l.Clients, item.Key, l.ReadOne(item)); err != nil {
		t.Fatal(err)
	}
	if bad := other.Differences(); len(bad) > 0 {
		t.Errorf("after a removal by the first %v of the other differ", bad)
	}
}

func TestUnknownIdsAreMissedAndHideNoOthers(t *testing.T) {
	for _, k := range []resource.Kind{Subnets{}, SecurityGroups{}} {
		l := newDiscoveryLife(t, k, v1alpha1.Discovery{})
		l.Change(func(c *v1alpha1.ClusterSpec) {
			c.Discovery.Subnets = append(c.Discovery.Subnets, "subnet-0123456789abcdef0")
			c.Discovery.SecurityGroups = append(c.Discovery.SecurityGroups, "sg-0123456789abcdef0")
		})
		items, observed := l.Items(), l.ReadAll()
		for i, item := range items {
			one := observed[item.Key]
			if last := i == len(items)-1; one.Err != nil || last != (one.Missing != "") {
				t.Errorf("%s: %+v", item.Key, one)
			} else if last && !strings.Contains(one.Missing, "0123456789abcdef0 in us-east-1 of account 000000000000: correct spec.discovery") {
				t.Errorf("it says %s", one.Missing)
			}
		}
	}
}

func TestManySubnetsAreReadInFewRequests(t *testing.T) {
	l := newDiscoveryLife(t, Subnets{}, v1alpha1.Discovery{})
	var keys []state.Key
	for n := range 450 {
		keys = append(keys, l.Clients.Scope.Regional("ec2", "SubnetTag", fmt.Sprintf("subnet-%017x", n)))
	}
	keys = append(keys, l.Items()[0].Key, l.Clients.Scope.Regional("ec2", "SubnetTag", discoveryName(l.Items()[0].Key.Name, "other/key")))
	before := len(l.Cloud.Calls())
	observed := l.Read(t.Context(), l.Clients, keys)
	if got := l.Calls(before)["DescribeSubnets"]; got != 3 {
		t.Errorf("%d requests", got)
	}
	if len(observed) != len(keys) || observed[keys[0]].Missing == "" || observed[keys[450]].Missing != "" || observed[keys[451]].Missing != "" {
		t.Errorf("%d of %d seen; %+v; %+v", len(observed), len(keys), observed[keys[450]], observed[keys[451]])
	}
}

func TestASubnetThatRunsOutOfAddressesIsNoted(t *testing.T) {
	l := newDiscoveryLife(t, Subnets{}, v1alpha1.Discovery{})
	item := l.Items()[0]
	for free, want := range map[int]string{8: "", 7: "only 7 free addresses of ", 0: "no free addresses in "} {
		if err := l.Cloud.SetFreeAddresses(item.Key.Name, free); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(kindtest.Texts(l.ReadOne(item).Notes), "; ")
		if want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("with %d free: %q", free, got)
		}
	}
	if got := addressNotes(ec2types.Subnet{AvailableIpAddressCount: sdk.Int32(0), Ipv6Native: sdk.Bool(true)}); len(got) > 0 {
		t.Errorf("of a subnet without IPv4: %q", got)
	}
	for cidr, want := range map[string]int{"10.0.0.0/24": 251, "10.0.0.0/28": 11, "10.0.0.0/32": 0, "fd00::/64": 0, "nonsense": 0} {
		if got := usable(cidr); got != want {
			t.Errorf("%s has %d usable addresses, not %d", cidr, got, want)
		}
	}
}

func TestDiscoverySurvivesTheDeathOfItsWriter(t *testing.T) {
	for _, k := range []resource.Kind{Subnets{}, SecurityGroups{}} {
		kindtest.Survives(t, func(t *testing.T) *kindtest.Fixture { return newDiscoveryLife(t, k, v1alpha1.Discovery{}) })
	}
}

func TestMarkersFitAndStayApart(t *testing.T) {
	observed := map[string]string{}
	for _, cluster := range []string{"a", "ab", strings.Repeat("x", 100), strings.Repeat("x", 99) + "y"} {
		for _, key := range []string{discoveryKey, "a", "b", strings.Repeat("k", 128)} {
			marker := MarkerKey(resource.Scope{Cluster: cluster}, key)
			what := cluster + " and " + key
			if len(marker) > longestTagKey || !strings.HasPrefix(marker, markerPrefix+cluster) {
				t.Errorf("%s: %s has %d characters", what, marker, len(marker))
			}
			if other := observed[marker]; other != "" {
				t.Errorf("%s and %s share %s", what, other, marker)
			}
			observed[marker] = what
			if id, got := ParseName(discoveryName("subnet-1", key)); id != "subnet-1" || got != key {
				t.Errorf("the name of %s is read as %s, %s", what, id, got)
			}
		}
	}
}

func FuzzDiscoveryName(f *testing.F) {
	f.Add("subnet-0a1b2c3d", "karpenter.sh/discovery")
	f.Add("sg-0a1b2c3d", "a:b")
	f.Add("subnet-0a1b2c3d", "")
	f.Fuzz(func(t *testing.T, id, key string) {
		if strings.Contains(id, ":") || key == "" {
			return // ids have no colon, and the default fills an empty key
		}
		if gotID, gotKey := ParseName(discoveryName(id, key)); gotID != id || gotKey != key {
			t.Fatalf("%q and %q are read as %q and %q", id, key, gotID, gotKey)
		}
	})
}
