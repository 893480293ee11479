package aws

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
)

const nodeGroup = "sg-0000000000000ccc3"

// newDiscoveryLife declares the tag for the first two subnets, or for a
// security group.
func newDiscoveryLife(t *testing.T, k kind, d v1alpha1.Discovery) *life {
	t.Helper()
	l := newLife(t, k, nil, v1alpha1.ClusterSpec{})
	nets, err := l.c.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range nets.Subnets[:2] {
		d.Subnets = append(d.Subnets, *s.SubnetId)
	}
	d.SecurityGroups = []string{nodeGroup}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Discovery = &d })
	return l
}

func (l *life) tag(id, key, value string) {
	l.Helper()
	l.do(l.c.ec2.CreateTags(l.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: &key, Value: &value}}}))
}

func (l *life) untag(id string, keys ...string) {
	l.Helper()
	in := &ec2.DeleteTagsInput{Resources: []string{id}}
	for _, k := range keys {
		in.Tags = append(in.Tags, ec2types.Tag{Key: sdk.String(k)})
	}
	l.do(l.c.ec2.DeleteTags(l.Context(), in))
}

// tags are the tags that the thing really has, without its name and role.
func (l *life) realTags(id string) map[string]string {
	l.Helper()
	got, err := l.c.ec2.DescribeSubnets(l.Context(), &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: sdk.String("subnet-id"), Values: []string{id}}}})
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
	for describe, k := range map[string]kind{"DescribeSubnets": subnets{}, "DescribeSecurityGroups": securityGroups{}} {
		for _, key := range []string{discoveryKey, "example.com/nodes:gpu"} {
			l := newDiscoveryLife(t, k, v1alpha1.Discovery{Key: key})
			for _, item := range l.wanted() {
				if seen := l.see(item); !seen.ours || seen.object != nil {
					t.Errorf("%s, which has no such tag: ours %v, object %v", item.Key, seen.ours, seen.object)
				}
			}
			l.settle()
			l.asks(map[string]int{describe: 1})
			l.denied("ec2", describe)
			id, _ := parseDiscoveryName(l.wanted()[0].Key.Name)
			l.broken("a tag that is gone", func() { l.untag(id, key) })
			l.broken("both tags gone", func() { l.untag(id, key, l.c.place.markerKey(key)) })
			l.broken("another value", func() { l.tag(id, key, "other") })
			l.tag(id, "others", "stay")
			if bad := l.differences(); len(bad) > 0 {
				t.Errorf("others' tags differ: %v", bad)
			}
			l.declare(func(c *v1alpha1.ClusterSpec) { c.Discovery.Value = "elsewhere" })
			if len(l.differences()) == 0 {
				t.Error("another declared value is not seen")
			}
			l.settle()
		}
	}
}

func TestADiscoveryTagOfOthersIsTheirs(t *testing.T) {
	l := newDiscoveryLife(t, subnets{}, v1alpha1.Discovery{})
	item := l.wanted()[0]
	id := item.Key.Name
	l.tag(id, discoveryKey, "other")
	if seen := l.see(item); seen.ours || satisfies(item, seen) {
		t.Errorf("ours %v", seen.ours)
	}
	l.tag(id, discoveryKey, "sandbox")
	if seen := l.see(item); seen.ours || satisfies(item, seen) || !state.Equal(item.Object, asMarked(item.Object, project(item.Object, seen.object))) {
		t.Errorf("as wanted, by others: ours %v, object %v", seen.ours, seen.object)
	}
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Discovery.DeletionPolicy = v1alpha1.PartDelete })
	item = l.wanted()[0]
	if seen := l.see(item); seen.ours || satisfies(item, seen) || seen.tags[policyTag] != "" {
		t.Errorf("others' tag, wanted to be deleted some day: ours %v, tags %v", seen.ours, seen.tags)
	}
	l.tag(id, discoveryKey, "other")
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Discovery.Part = v1alpha1.Part{Adopt: true} })
	l.settle()
	want := map[string]string{discoveryKey: "sandbox", markerPrefix + "sandbox": adoptedMark}
	if diff := cmp.Diff(want, l.realTags(id)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if seen := l.see(l.wanted()[0]); !seen.ours || seen.tags[policyTag] != "" {
		t.Errorf("adopted: ours %v, tags %v", seen.ours, seen.tags)
	}
}

func TestADiscoveryTagIsTakenOffOnlyWhereItSaysSo(t *testing.T) {
	for _, k := range []kind{subnets{}, securityGroups{}} {
		for policy, stays := range map[v1alpha1.PartDeletionPolicy]bool{v1alpha1.PartOrphan: true, v1alpha1.PartDelete: false} {
			l := newDiscoveryLife(t, k, v1alpha1.Discovery{Part: v1alpha1.Part{DeletionPolicy: policy}})
			l.settle()
			item := l.wanted()[0]
			seen := l.see(item)
			if got := seen.tags[policyTag]; got != string(policy) || !l.c.place.owned(seen.tags) {
				t.Errorf("tags %v", seen.tags)
			}
			for range 2 {
				if err := l.remove(t.Context(), l.c, item.Key, seen); err != nil {
					t.Fatal(err)
				}
			}
			if _, has := l.see(item).tags[discoveryKey]; has != stays {
				t.Errorf("%T with policy %s: the tag is there: %v", k, policy, has)
			}
			if _, has := l.see(item).tags[l.c.place.markerKey(discoveryKey)]; has != stays {
				t.Errorf("%T with policy %s: the marker is there: %v", k, policy, has)
			}
		}
	}
}

func TestTakingADiscoveryTagOffSparesAValueThatSomebodyHasJustSet(t *testing.T) {
	l := newDiscoveryLife(t, subnets{}, v1alpha1.Discovery{Part: v1alpha1.Part{DeletionPolicy: v1alpha1.PartDelete}})
	l.settle()
	item := l.wanted()[0]
	seen := l.see(item)
	l.tag(item.Key.Name, discoveryKey, "theirs")
	if err := l.remove(t.Context(), l.c, item.Key, seen); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{discoveryKey: "theirs"}, l.realTags(item.Key.Name)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANewDeletionPolicyReachesTheMarker(t *testing.T) {
	l := newDiscoveryLife(t, subnets{}, v1alpha1.Discovery{Part: v1alpha1.Part{DeletionPolicy: v1alpha1.PartDelete}})
	l.settle()
	l.declare(func(c *v1alpha1.ClusterSpec) { c.Discovery.DeletionPolicy = v1alpha1.PartOrphan })
	if len(l.differences()) == 0 {
		t.Error("it is not seen")
	}
	l.settle()
	if got := l.see(l.wanted()[0]).tags[policyTag]; got != "Orphan" {
		t.Errorf("the policy is %q", got)
	}
}

func TestClustersThatShareASubnetLeaveEachOthersTagsAlone(t *testing.T) {
	l := newDiscoveryLife(t, subnets{}, v1alpha1.Discovery{Key: "karpenter.sh/discovery/a", Part: v1alpha1.Part{DeletionPolicy: v1alpha1.PartDelete}})
	l.settle()
	other := *l
	theirs := *l.c
	theirs.place.Cluster = "other"
	other.c, other.scope.Cluster = &theirs, "other"
	other.declare(func(c *v1alpha1.ClusterSpec) {
		c.Name = "other"
		c.Discovery = &v1alpha1.Discovery{Key: "karpenter.sh/discovery/b", Subnets: c.Discovery.Subnets}
	})
	other.settle()
	if bad := l.differences(); len(bad) > 0 {
		t.Errorf("after the other cluster's corrections %v differ", bad)
	}
	item := l.wanted()[0]
	if err := l.remove(t.Context(), l.c, item.Key, l.see(item)); err != nil {
		t.Fatal(err)
	}
	if bad := other.differences(); len(bad) > 0 {
		t.Errorf("after a removal by the first %v of the other differ", bad)
	}
}

func TestUnknownIdsAreMissedAndHideNoOthers(t *testing.T) {
	for _, k := range []kind{subnets{}, securityGroups{}} {
		l := newDiscoveryLife(t, k, v1alpha1.Discovery{})
		l.declare(func(c *v1alpha1.ClusterSpec) {
			c.Discovery.Subnets = append(c.Discovery.Subnets, "subnet-0123456789abcdef0")
			c.Discovery.SecurityGroups = append(c.Discovery.SecurityGroups, "sg-0123456789abcdef0")
		})
		items, seen := l.wanted(), l.look()
		for i, item := range items {
			one := seen[item.Key]
			if last := i == len(items)-1; one.err != nil || last != (one.missing != "") {
				t.Errorf("%s: %+v", item.Key, one)
			} else if last && !strings.Contains(one.missing, "0123456789abcdef0 in us-east-1 of account 000000000000: correct spec.discovery") {
				t.Errorf("it says %s", one.missing)
			}
		}
	}
}

func TestManySubnetsAreReadInFewRequests(t *testing.T) {
	l := newDiscoveryLife(t, subnets{}, v1alpha1.Discovery{})
	var keys []state.Key
	for n := range 450 {
		keys = append(keys, l.c.place.regional("ec2", "SubnetTag", fmt.Sprintf("subnet-%017x", n)))
	}
	keys = append(keys, l.wanted()[0].Key, l.c.place.regional("ec2", "SubnetTag", discoveryName(l.wanted()[0].Key.Name, "other/key")))
	before := len(l.cloud.Calls())
	seen := l.read(t.Context(), l.c, keys)
	if got := l.calls(before)["DescribeSubnets"]; got != 3 {
		t.Errorf("%d requests", got)
	}
	if len(seen) != len(keys) || seen[keys[0]].missing == "" || seen[keys[450]].missing != "" || seen[keys[451]].missing != "" {
		t.Errorf("%d of %d seen; %+v; %+v", len(seen), len(keys), seen[keys[450]], seen[keys[451]])
	}
}

func TestASubnetThatRunsOutOfAddressesIsNoted(t *testing.T) {
	l := newDiscoveryLife(t, subnets{}, v1alpha1.Discovery{})
	item := l.wanted()[0]
	for free, want := range map[int]string{8: "", 7: "only 7 free addresses of ", 0: "no free addresses in "} {
		if err := l.cloud.SetFreeAddresses(item.Key.Name, free); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(l.see(item).notes, "; ")
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
	for _, k := range []kind{subnets{}, securityGroups{}} {
		survives(t, func(t *testing.T) *life { return newDiscoveryLife(t, k, v1alpha1.Discovery{}) })
	}
}

func TestMarkersFitAndStayApart(t *testing.T) {
	seen := map[string]string{}
	for _, cluster := range []string{"a", "ab", strings.Repeat("x", 100), strings.Repeat("x", 99) + "y"} {
		for _, key := range []string{discoveryKey, "a", "b", strings.Repeat("k", 128)} {
			marker := place{Cluster: cluster}.markerKey(key)
			what := cluster + " and " + key
			if len(marker) > longestTagKey || !strings.HasPrefix(marker, markerPrefix+cluster) {
				t.Errorf("%s: %s has %d characters", what, marker, len(marker))
			}
			if other := seen[marker]; other != "" {
				t.Errorf("%s and %s share %s", what, other, marker)
			}
			seen[marker] = what
			if id, got := parseDiscoveryName(discoveryName("subnet-1", key)); id != "subnet-1" || got != key {
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
		if gotID, gotKey := parseDiscoveryName(discoveryName(id, key)); gotID != id || gotKey != key {
			t.Fatalf("%q and %q are read as %q and %q", id, key, gotID, gotKey)
		}
	})
}
