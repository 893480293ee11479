// Package discovery has the kinds of the tags by which Karpenter finds subnets and security groups.
// It makes and deletes neither subnets nor security groups. Start reading at Subnets.
package discovery

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Subnets and SecurityGroups are the discovery tags of subnets and security
// groups; the things themselves belong to whoever made the VPC:
//
//	tags  {key: value}, the discovery tag, and its marker
//
// The marker is a tag which reports that the discovery tag is ours and what becomes
// of it: a deletion policy, or Adopted. Its key names the cluster, because
// clusters share subnets and each may have its own discovery key. A discovery
// tag without a marker was put there by others: where it is as desired it stays
// as it is, where it has another value it is theirs.
//
// The name of such a thing is the id, followed by ":" and the tag's key where
// this is not Karpenter's default: so a key that is given up can still be taken
// off.
type (
	// Subnets are the discovery tags of subnets.
	Subnets struct{}
	// SecurityGroups are the discovery tags of security groups.
	SecurityGroups struct{}
)

const (
	discoveryKey = "karpenter.sh/discovery"
	markerPrefix = "poolwright.dev/discovery/"
	// adoptedMark is the marker of a tag that others had put there first.
	adoptedMark   = "Adopted"
	longestTagKey = 128
)

// discoveryName names the tag of a subnet or security group;
// ParseName takes the name apart.
func discoveryName(id, key string) string {
	if key == discoveryKey {
		return id
	}
	return id + ":" + key
}

// ParseName returns the id of the subnet or security group, and the key of its discovery tag, that
// the name of a resource of this package consists of.
func ParseName(name string) (id, key string) {
	id, key, ok := strings.Cut(name, ":")
	if !ok {
		key = discoveryKey
	}
	return id, key
}

// MarkerKey is the key of the marker of one cluster and discovery key. It holds
// the whole name of the cluster, as the IAM policy that allows it does, and as
// much of the key's digest as there is room for.
func MarkerKey(p resource.Scope, key string) string {
	if key == discoveryKey {
		return markerPrefix + p.Cluster
	}
	digest := state.Hash(key)[:8]
	length := max(0, min(len(digest), longestTagKey-len(markerPrefix+p.Cluster+"/")))
	return markerPrefix + p.Cluster + "/" + digest[:length]
}

// Desired implements resource.Kind.
func (Subnets) Desired(s resource.Declaration) []state.Item {
	if d := s.Spec.Discovery; d != nil {
		return discoveryItems(s, "SubnetTag", d, d.Subnets)
	}
	return nil
}

// Desired implements resource.Kind.
func (SecurityGroups) Desired(s resource.Declaration) []state.Item {
	if d := s.Spec.Discovery; d != nil {
		return discoveryItems(s, "SecurityGroupTag", d, d.SecurityGroups)
	}
	return nil
}

func discoveryItems(s resource.Declaration, kind string, d *v1alpha1.Discovery, ids []string) []state.Item {
	mark := string(d.DeletionPolicy)
	if d.Adopt {
		mark = adoptedMark
	}
	tags := map[string]any{d.Key: d.Value, MarkerKey(s.Scope, d.Key): mark}
	var out []state.Item
	for _, id := range ids {
		k := s.Regional("ec2", kind, discoveryName(id, d.Key))
		out = append(out, s.Shared(k, resource.WaveFirst, d.Adopt, map[string]any{"tags": tags}))
	}
	return out
}

// described is a subnet or security group as EC2 describes it.
type described struct {
	tags  map[string]string
	notes []finding.Finding
}

// filtered is how many values EC2 takes in one filter.
const filtered = 200

// Read implements resource.Kind.
func (Subnets) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return readDiscovery(keys, c.Scope, "subnet", func(ids []string, found map[string]described) error {
		// A filter passes over unknown ids; a list of ids would fail as a whole.
		pages := ec2.NewDescribeSubnetsPaginator(c.EC2, &ec2.DescribeSubnetsInput{
			Filters: []ec2types.Filter{{Name: sdk.String("subnet-id"), Values: ids}},
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, s := range page.Subnets {
				found[sdk.ToString(s.SubnetId)] = described{tags: ec2Tags(s.Tags), notes: addressNotes(s)}
			}
		}
		return nil
	})
}

// Read implements resource.Kind.
func (SecurityGroups) Read(ctx context.Context, c *resource.Clients, keys []state.Key) map[state.Key]resource.Live {
	return readDiscovery(keys, c.Scope, "security group", func(ids []string, found map[string]described) error {
		pages := ec2.NewDescribeSecurityGroupsPaginator(c.EC2, &ec2.DescribeSecurityGroupsInput{
			Filters: []ec2types.Filter{{Name: sdk.String("group-id"), Values: ids}},
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, g := range page.SecurityGroups {
				found[sdk.ToString(g.GroupId)] = described{tags: ec2Tags(g.Tags)}
			}
		}
		return nil
	})
}

func ec2Tags(tags []ec2types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	return out
}

// fewAddresses is how many free addresses are worth a note: a node takes one,
// and its pods a handful at once.
const fewAddresses = 8

// The codes of notes on subnets.
const (
	codeSubnetFull       finding.Code = "SubnetFull"
	codeSubnetNearlyFull finding.Code = "SubnetNearlyFull"
)

// addressNotes is when a subnet runs out of addresses.
func addressNotes(s ec2types.Subnet) []finding.Finding {
	if s.AvailableIpAddressCount == nil || sdk.ToBool(s.Ipv6Native) {
		return nil
	}
	free, cidr := *s.AvailableIpAddressCount, sdk.ToString(s.CidrBlock)
	switch {
	case free >= fewAddresses:
		return nil
	case free <= 0:
		return []finding.Finding{finding.New(codeSubnetFull, "no free addresses in %s (%s): no node can start there",
			finding.NewFact("cidr", cidr), finding.NewFact("zone", sdk.ToString(s.AvailabilityZone)))}
	}
	return []finding.Finding{finding.New(codeSubnetNearlyFull, "only %d free addresses of %d in %s (%s)",
		finding.NewFact("freeAddresses", free), finding.NewFact("addresses", usable(cidr)), finding.NewFact("cidr", cidr), finding.NewFact("zone", sdk.ToString(s.AvailabilityZone)))}
}

// usable is the number of addresses in an IPv4 range, without the five that AWS
// keeps in each subnet.
func usable(cidr string) int {
	r, err := netip.ParsePrefix(cidr)
	if err != nil || !r.Addr().Is4() {
		return 0
	}
	return max(0, 1<<(32-r.Bits())-5)
}

// readDiscovery turns what read returns of the ids into sightings.
func readDiscovery(keys []state.Key, p resource.Scope, what string, read func([]string, map[string]described) error) map[state.Key]resource.Live {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i], _ = ParseName(k.Name)
	}
	slices.Sort(ids)
	found, failures := map[string]described{}, map[string]error{}
	for some := range slices.Chunk(slices.Compact(ids), filtered) {
		if err := read(some, found); err != nil {
			for _, id := range some {
				failures[id] = err
			}
		}
	}
	out := make(map[state.Key]resource.Live, len(keys))
	for _, k := range keys {
		id, key := ParseName(k.Name)
		thing, ok := found[id]
		switch {
		case failures[id] != nil:
			out[k] = resource.Live{Err: failures[id]}
		case !ok:
			out[k] = resource.Live{Missing: fmt.Sprintf("EC2 has no %s %s in %s of account %s: correct spec.discovery, spec.region or spec.account", what, id, p.Region, p.Account)}
		default:
			out[k] = observedDiscovery(p, id, key, thing)
		}
	}
	return out
}

// observedDiscovery is a discovery tag as it is, with tags that are what its marker
// does, written as our own two.
func observedDiscovery(p resource.Scope, id, key string, thing described) resource.Live {
	_, present := thing.tags[key]
	mark, marked := thing.tags[MarkerKey(p, key)]
	out := resource.Live{UID: id, Tags: maps.Clone(thing.tags), Ours: marked || !present, Notes: thing.notes}
	delete(out.Tags, tag.Cluster)
	delete(out.Tags, tag.DeletionPolicy)
	if !present {
		return out // The thing is there, its tag is not.
	}
	out.Object = map[string]any{"tags": tag.Object(thing.tags)}
	if marked {
		out.Tags[tag.Cluster] = p.ClusterTagValue()
		if mark != adoptedMark {
			out.Tags[tag.DeletionPolicy] = mark
		}
	}
	return out
}

// Write implements resource.Kind.
func (Subnets) Write(ctx context.Context, c *resource.Clients, desired state.Item, _ resource.Live) error {
	return writeDiscovery(ctx, c, desired)
}

// Write implements resource.Kind.
func (SecurityGroups) Write(ctx context.Context, c *resource.Clients, desired state.Item, _ resource.Live) error {
	return writeDiscovery(ctx, c, desired)
}

// writeDiscovery puts the tag and its marker on in one request.
func writeDiscovery(ctx context.Context, c *resource.Clients, desired state.Item) error {
	id, _ := ParseName(desired.Key.Name)
	tags := tag.Declared(desired)
	in := &ec2.CreateTagsInput{Resources: []string{id}}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		in.Tags = append(in.Tags, ec2types.Tag{Key: sdk.String(k), Value: sdk.String(tags[k])})
	}
	_, err := c.EC2.CreateTags(ctx, in)
	return err
}

// Remove implements resource.Kind.
func (Subnets) Remove(ctx context.Context, c *resource.Clients, k state.Key, live resource.Live) error {
	return removeDiscovery(ctx, c, k, live)
}

// Remove implements resource.Kind.
func (SecurityGroups) Remove(ctx context.Context, c *resource.Clients, k state.Key, live resource.Live) error {
	return removeDiscovery(ctx, c, k, live)
}

// removeDiscovery takes both tags off what carries our marker. The discovery
// tag goes only with the value that was observed, so that a new one of somebody
// else stays.
func removeDiscovery(ctx context.Context, c *resource.Clients, k state.Key, live resource.Live) error {
	id, key := ParseName(k.Name)
	marker := MarkerKey(c.Scope, key)
	if live.Tags[marker] != string(v1alpha1.AWSDeletionPolicyDelete) {
		return nil
	}
	in := &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: &marker}}}
	if value, ok := live.Tags[key]; ok {
		in.Tags = append(in.Tags, ec2types.Tag{Key: &key, Value: &value})
	}
	_, err := c.EC2.DeleteTags(ctx, in)
	if awserr.IsNotFound(err) {
		return nil
	}
	return err
}
