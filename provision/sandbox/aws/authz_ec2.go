package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func ec2Authorizations() map[string]authorization {
	out := map[string]authorization{
		"CreateLaunchTemplate": createTemplateAsks,
		"DeleteLaunchTemplate": deleteTemplateAsks,
		"CreateFleet":          createFleetAsks,
		"RunInstances":         runInstancesRequests,
		"TerminateInstances": func(in *call) []authorizationRequest {
			return in.ofExisting("ec2:TerminateInstances", in.form.List("InstanceId"), authorizationRequest{})
		},
		"CreateTags": func(in *call) []authorizationRequest {
			return in.ofExisting("ec2:CreateTags", in.form.List("ResourceId"), authorizationRequest{given: formTags(in.form.Each("Tag"))})
		},
		"DeleteTags": deleteTagsAsks,
	}
	for _, op := range []string{
		"DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "DescribeSubnets", "DescribeSecurityGroups", "DescribeImages",
		"DescribeLaunchTemplates", "DescribeInstances", "DescribeInstanceStatus", "DescribeCapacityReservations", "DescribePlacementGroups",
		"DescribeAvailabilityZones", "DescribeVolumes", "DescribeNetworkInterfaces", "DescribeSpotInstanceRequests",
	} {
		out[op] = anything("ec2:" + op)
	}
	maps.Copy(out, ec2ChangeAuthorizations())
	return out
}

// ec2ARN names an EC2 resource by its id; images and snapshots belong to no
// account.
func (c *Cloud) ec2ARN(id string) string {
	prefix, _, _ := strings.Cut(id, "-")
	kind, known := map[string]string{
		"i": "instance", "lt": "launch-template", "subnet": "subnet", "sg": "security-group", "ami": "image", "snap": "snapshot",
		"cr": "capacity-reservation", "pg": "placement-group", "vol": "volume", "eni": "network-interface", "fleet": "fleet", "sir": "spot-instances-request",
	}[prefix]
	switch {
	case !known:
		return c.localARN("ec2", "unknown/"+id)
	case kind == "image" || kind == "snapshot":
		return fmt.Sprintf("arn:%s:ec2:%s::%s/%s", c.partition(), c.cfg.Region, kind, id)
	}
	return c.localARN("ec2", kind+"/"+id)
}

// ofExisting asks about each of the ids; EC2 says of an id that it does not know
// that it is not found, whoever asks.
func (in *call) ofExisting(action string, ids []string, q authorizationRequest) []authorizationRequest {
	var out []authorizationRequest
	for _, id := range ids {
		if tags := in.st.tagsOf(id); tags != nil {
			next := q
			next.action, next.resource, next.tags = action, in.cloud.ec2ARN(id), tags
			out = append(out, next)
		}
	}
	return out
}

func deleteTagsAsks(in *call) []authorizationRequest {
	given, keys := map[string]string{}, []string{}
	for _, f := range in.form.Each("Tag") {
		if f.Has("Value") {
			given[f.Get("Key")] = f.Get("Value")
		} else {
			keys = append(keys, f.Get("Key"))
		}
	}
	return in.ofExisting("ec2:DeleteTags", in.form.List("ResourceId"), authorizationRequest{given: given, keys: keys})
}

// specified are the tags for a type of resource in TagSpecifications.
func specified(f query.Form, kind string) map[string]string {
	return listed(f.Each("TagSpecification"), kind)
}

// creating asks to make something of a type, and to tag it.
func (in *call) creating(actions []string, kind string, tags map[string]string, by string) []authorizationRequest {
	return in.creatingAt(actions, in.cloud.localARN("ec2", kind+"/*"), tags, by)
}

// creatingAt asks to make what has that ARN, and to tag it.
func (in *call) creatingAt(actions []string, arn string, tags map[string]string, by string) []authorizationRequest {
	var out []authorizationRequest
	for _, a := range actions {
		out = append(out, authorizationRequest{action: a, resource: arn, given: tags})
	}
	if len(tags) > 0 {
		out = append(out, authorizationRequest{action: "ec2:CreateTags", resource: arn, given: tags,
			context: map[string][]string{"ec2:CreateAction": {by}}})
	}
	return out
}

func createTemplateAsks(in *call) []authorizationRequest {
	return in.creating([]string{"ec2:CreateLaunchTemplate"}, "launch-template", specified(in.form, "launch-template"), "CreateLaunchTemplate")
}

func deleteTemplateAsks(in *call) []authorizationRequest {
	if t := in.templateFor(in.form.Get("LaunchTemplateId"), in.form.Get("LaunchTemplateName")); t != nil {
		return in.ofExisting("ec2:DeleteLaunchTemplate", []string{t.id}, authorizationRequest{})
	}
	return nil // it is not found
}

// templateFor finds a launch template by what of both is given.
func (in *call) templateFor(id, name string) *template {
	if id == "" && name == "" {
		return nil
	}
	return in.st.template(id, name)
}

// launchRequests collects what a launch uses and makes.
type launchRequests struct {
	in      *call
	actions []string
	used    []string   // ids of what exists
	data    query.Form // of the launch template
}

// use notes an id once.
func (l *launchRequests) use(ids ...string) {
	for _, id := range ids {
		if id != "" && !slices.Contains(l.used, id) {
			l.used = append(l.used, id)
		}
	}
}

// useTemplate notes a template and what its data names.
func (l *launchRequests) useTemplate(t *template) {
	l.data = t.data
	l.use(t.id, t.data.Get("ImageId"), t.data.Get("Placement.GroupId"))
	l.use(t.data.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"))
	l.use(securityGroups(t.data)...)
	l.use(t.data.Get("NetworkInterface.1.SubnetId"))
	for _, b := range t.data.Each("BlockDeviceMapping") {
		l.use(b.Get("Ebs.SnapshotId"))
	}
}

// requests are all that the launch asks, with the tags that the request or its
// template gives to each type of what is made.
func (l *launchRequests) requests(tags func(kind string) map[string]string) []authorizationRequest {
	var out []authorizationRequest
	for _, id := range l.used {
		for _, a := range l.actions {
			out = append(out, authorizationRequest{action: a, resource: l.in.cloud.ec2ARN(id), tags: l.in.st.tagsOf(id)})
		}
	}
	kinds := []string{"instance", "network-interface", "volume"}
	if len(tags("spot-instances-request")) > 0 {
		kinds = append(kinds, "spot-instances-request")
	}
	for _, kind := range kinds {
		given := specified(l.data, kind)
		maps.Copy(given, tags(kind))
		out = append(out, l.in.creating(l.actions, kind, given, "RunInstances")...)
	}
	if p := l.in.st.iam.profiles[l.data.Get("IamInstanceProfile.Name")]; p != nil && p.role != "" {
		out = append(out, l.in.passing(p.role, "ec2"))
	}
	return out
}

// createFleetAsks: a fleet of type instant runs instances in its caller's name.
func createFleetAsks(in *call) []authorizationRequest {
	l := &launchRequests{in: in, actions: []string{"ec2:CreateFleet", "ec2:RunInstances"}}
	if in.dry {
		l.actions = l.actions[:1] // it runs nothing: a dry run of RunInstances tells of that
	}
	for _, c := range in.form.Each("LaunchTemplateConfigs") {
		spec := c.Sub("LaunchTemplateSpecification")
		if t := in.templateFor(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName")); t != nil {
			l.useTemplate(t)
		}
		for _, o := range c.Each("Overrides") {
			l.use(o.Get("SubnetId"), o.Get("ImageId"))
		}
	}
	isSpot := in.form.Get("TargetCapacitySpecification.DefaultTargetCapacityType") == spot
	out := in.creating([]string{"ec2:CreateFleet"}, "fleet", specified(in.form, "fleet"), "CreateFleet")
	return append(out, l.requests(func(kind string) map[string]string {
		if kind == "spot-instances-request" && isSpot {
			return specified(l.data, kind)
		}
		return specified(in.form, kind)
	})...)
}

func runInstancesRequests(in *call) []authorizationRequest {
	l := &launchRequests{in: in, actions: []string{"ec2:RunInstances"}}
	spec := in.form.Sub("LaunchTemplate")
	if t := in.templateFor(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName")); t != nil {
		l.useTemplate(t)
	}
	l.use(in.form.Get("SubnetId"), in.form.Get("ImageId"))
	for _, n := range in.form.Each("NetworkInterface") {
		l.use(n.Get("SubnetId"))
		l.use(n.List("SecurityGroupId")...)
	}
	return l.requests(func(kind string) map[string]string { return specified(in.form, kind) })
}
