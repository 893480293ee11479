package aws

import (
	"context"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// kind is one type of AWS resource. Its methods know neither policies nor
// ownership rules nor the inventory: Target does.
type kind interface {
	// want lists the things of this kind that a Cluster asks for; it sends no
	// request.
	want(s scope) []state.Item
	// read reads the named things, with as few requests as the service
	// allows. A key without a sighting does not exist. What could not be read
	// has a sighting with an err, and does not keep the others from being read.
	read(ctx context.Context, c *clients, keys []state.Key) map[state.Key]liveResource
	// write makes the thing (live.object is nil) or changes it into the wanted
	// one; live was read a moment ago. It may be called again after it died at
	// any of its requests, and then ends in the same state.
	write(ctx context.Context, c *clients, wanted state.Item, live liveResource) error
	// remove deletes the thing that was read a moment ago; one that is gone
	// already is no error.
	remove(ctx context.Context, c *clients, k state.Key, live liveResource) error
}

// grantsExtra is a kind that gives what it makes more than the owner of a thing who
// never asked for Poolwright could know of.
type grantsExtra interface {
	// withGrants is the projection of a thing of others as if it had that, too.
	withGrants(at place, wanted, found map[string]any) map[string]any
}

// liveResource is what was read of one thing.
type liveResource struct {
	// object is the thing in the shape in which want writes it, with all the
	// fields that want may write; nil where it does not exist.
	object map[string]any
	// uid is its ARN and, where AWS reports it, what sets this incarnation apart
	// from its successor of the same name (an id, a creation time), after "#".
	uid string
	// tags are all its tags; nil for what has none.
	tags map[string]string
	// ours is true for what Poolwright made for this cluster, or may write
	// without asking; see owned.
	ours bool
	// pending is what AWS is still at, such as an update that is not done;
	// empty when the thing is as it will stay.
	pending string
	// missing is that the thing does not exist and Poolwright never makes it, with the
	// command that does; object is nil then.
	missing string
	// compareOnly is why a difference must not be corrected by writing, and with which
	// commands a person does it.
	compareOnly string
	// moot is true where there is nothing to report of the thing, because another is
	// missing that says it all; object is nil then, and nothing differs.
	moot bool
	// warnings and notes are for the reader of a report.
	warnings, notes []string
	// notFound is true where AWS has nothing of that name, see state.Findings.
	notFound bool
	// err is why nothing is known of the thing; all else is then zero.
	err error
}

// clients are the AWS services for one cluster's account and region.
type clients struct {
	ec2    *ec2.Client
	eks    *eks.Client
	iam    *iam.Client
	sqs    *sqs.Client
	events *eventbridge.Client
	logs   *cloudwatchlogs.Client
	quotas *servicequotas.Client
	clock  clock.Clock
	place  place
	// responses is for one look; nil for who asks anew each time.
	responses *responseCache
}

// place is where things are and whose they are.
type place struct {
	// Partition is aws, aws-cn, aws-us-gov or another of AWS's.
	Partition string
	// Region, Account and Cluster are as the Cluster object declares them.
	Region, Account, Cluster string
}

// arn writes the ARN of a regional resource of a service; resource is its last
// part, such as "cluster/name".
func (p place) arn(service, resource string) string {
	return "arn:" + p.Partition + ":" + service + ":" + p.Region + ":" + p.Account + ":" + resource
}

// iamARN writes the ARN of an IAM resource, such as "role/name".
func (p place) iamARN(resource string) string {
	return "arn:" + p.Partition + ":iam::" + p.Account + ":" + resource
}

// awsPolicyARN writes the ARN of a policy that AWS manages, whose name includes
// its path, such as "service-role/AmazonEBSCSIDriverPolicy".
func (p place) awsPolicyARN(name string) string {
	return "arn:" + p.Partition + ":iam::aws:policy/" + name
}

// scope is one Cluster declaration, with its defaults filled in.
type scope struct {
	place
	spec   v1alpha1.ClusterSpec
	origin state.Origin
	// pools are the declared NodePools, for what depends on them.
	pools []state.Item
	// bootstrap is true when the controller's own role may be written.
	bootstrap bool
}

// The tags that mark what is ours. They are part of what the kinds want.
const (
	// clusterTag holds the cluster's region and name, because IAM is global and
	// clusters of one name may exist in several regions.
	clusterTag = "poolwright.dev/cluster"
	// policyTag holds the deletion policy; it is absent from what was adopted.
	policyTag = "poolwright.dev/deletion-policy"
)

// owned reports whether the tags are those of a thing that was made, or
// adopted, for this cluster.
func (p place) owned(tags map[string]string) bool { return tags[clusterTag] == p.mark() }

// mark is the value of clusterTag.
func (p place) mark() string { return p.Region + "/" + p.Cluster }

// tags are what a thing of this part is tagged with.
func (s scope) tags(part v1alpha1.Part) map[string]any {
	out := map[string]any{}
	for k, v := range s.spec.Tags {
		out[k] = v
	}
	out[clusterTag] = s.mark()
	if !part.Adopt {
		policy := part.DeletionPolicy
		if policy == "" {
			policy = v1alpha1.PartOrphan
		}
		out[policyTag] = string(policy)
	}
	return out
}

// made is a wanted thing that Poolwright makes, with its tags. The object is
// what kind.write and kind.read agree on.
func (s scope) made(k state.Key, wave int, part v1alpha1.Part, object map[string]any) state.Item {
	object = maps.Clone(object)
	object["tags"] = s.tags(part)
	item := s.amended(k, wave, part.Adopt, object)
	return item
}

// amended is a wanted thing that others make and Poolwright only changes.
func (s scope) amended(k state.Key, wave int, adopt bool, object map[string]any) state.Item {
	return state.Item{Key: k, Version: "v1", Object: object, Origin: s.origin, Wave: wave, Terms: state.Terms{Adopt: adopt}}
}

// compared is a wanted thing that is never written; how is the command that
// changes it.
func (s scope) compared(k state.Key, how string, object map[string]any) state.Item {
	item := s.amended(k, 0, false, object)
	item.CompareOnly = how
	return item
}

// regional names a thing of this region.
func (p place) regional(service, kind, name string) state.Key {
	return state.Key{Target: Name, Group: service, Kind: kind, Namespace: p.Region, Name: name}
}

// global names a thing of IAM, which has no regions.
func global(kind, name string) state.Key {
	return state.Key{Target: Name, Group: "iam", Kind: kind, Name: name}
}

// The waves: a thing comes after all that it needs, and goes before them.
const (
	waveFirst  = 10 // policies, queues, log groups, tags
	waveSecond = 20 // roles, rules
	waveThird  = 30 // instance profiles, access entries, pod identity
	waveLast   = 40 // what AWS takes minutes for and nothing waits for: logging, node groups
)
