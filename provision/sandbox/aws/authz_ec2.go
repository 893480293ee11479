package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func ec2Authorizations() map[string]authorization {
	out := map[string]authorization{
		"CreateLaunchTemplate": createTemplateAsks,
		"DeleteLaunchTemplate": deleteTemplateAsks,
		"CreateFleet":          createFleetAsks,
		"RunInstances":         runInstancesRequests,
		"TerminateInstances": func(in *call) []api.AuthorizationRequest {
			return in.ofExisting("ec2:TerminateInstances", in.Form.List("InstanceId"), api.AuthorizationRequest{})
		},
		"CreateTags": func(in *call) []api.AuthorizationRequest {
			return in.ofExisting("ec2:CreateTags", in.Form.List("ResourceId"), api.AuthorizationRequest{Given: formTags(in.Form.Each("Tag"))})
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
		return c.account.ARN("ec2", "unknown/"+id)
	case kind == "image" || kind == "snapshot":
		return fmt.Sprintf("arn:%s:ec2:%s::%s/%s", c.account.Partition(), c.account.Region, kind, id)
	}
	return c.account.ARN("ec2", kind+"/"+id)
}

// ofExisting asks about each of the ids; EC2 says of an id that it does not know
// that it is not found, whoever asks.
func (in *call) ofExisting(action string, ids []string, q api.AuthorizationRequest) []api.AuthorizationRequest {
	var out []api.AuthorizationRequest
	for _, id := range ids {
		if tags := in.st.tagsOf(id); tags != nil {
			next := q
			next.Action, next.Resource, next.Tags = action, in.cloud.ec2ARN(id), tags
			out = append(out, next)
		}
	}
	return out
}

func deleteTagsAsks(in *call) []api.AuthorizationRequest {
	given, keys := map[string]string{}, []string{}
	for _, f := range in.Form.Each("Tag") {
		if f.Has("Value") {
			given[f.Get("Key")] = f.Get("Value")
		} else {
			keys = append(keys, f.Get("Key"))
		}
	}
	return in.ofExisting("ec2:DeleteTags", in.Form.List("ResourceId"), api.AuthorizationRequest{Given: given, Keys: keys})
}

// specified are the tags for a type of resource in TagSpecifications.
func specified(f query.Form, kind string) map[string]string {
	return listed(f.Each("TagSpecification"), kind)
}

// creating asks to make something of a type, and to tag it.
func (in *call) creating(actions []string, kind string, tags map[string]string, by string) []api.AuthorizationRequest {
	return in.creatingAt(actions, in.cloud.account.ARN("ec2", kind+"/*"), tags, by)
}

// creatingAt asks to make what has that ARN, and to tag it.
func (in *call) creatingAt(actions []string, arn string, tags map[string]string, by string) []api.AuthorizationRequest {
	var out []api.AuthorizationRequest
	for _, a := range actions {
		out = append(out, api.AuthorizationRequest{Action: a, Resource: arn, Given: tags})
	}
	if len(tags) > 0 {
		out = append(out, api.AuthorizationRequest{Action: "ec2:CreateTags", Resource: arn, Given: tags,
			Context: map[string][]string{"ec2:CreateAction": {by}}})
	}
	return out
}

func createTemplateAsks(in *call) []api.AuthorizationRequest {
	return in.creating([]string{"ec2:CreateLaunchTemplate"}, "launch-template", specified(in.Form, "launch-template"), "CreateLaunchTemplate")
}

func deleteTemplateAsks(in *call) []api.AuthorizationRequest {
	if t := in.templateFor(in.Form.Get("LaunchTemplateId"), in.Form.Get("LaunchTemplateName")); t != nil {
		return in.ofExisting("ec2:DeleteLaunchTemplate", []string{t.id}, api.AuthorizationRequest{})
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
func (l *launchRequests) requests(tags func(kind string) map[string]string) []api.AuthorizationRequest {
	var out []api.AuthorizationRequest
	for _, id := range l.used {
		for _, a := range l.actions {
			out = append(out, api.AuthorizationRequest{Action: a, Resource: l.in.cloud.ec2ARN(id), Tags: l.in.st.tagsOf(id)})
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
		out = append(out, l.in.st.passRole(p.role, "ec2"))
	}
	return out
}

// createFleetAsks: a fleet of type instant runs instances in its caller's name.
func createFleetAsks(in *call) []api.AuthorizationRequest {
	l := &launchRequests{in: in, actions: []string{"ec2:CreateFleet", "ec2:RunInstances"}}
	if in.Dry {
		l.actions = l.actions[:1] // it runs nothing: a dry run of RunInstances tells of that
	}
	for _, c := range in.Form.Each("LaunchTemplateConfigs") {
		spec := c.Sub("LaunchTemplateSpecification")
		if t := in.templateFor(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName")); t != nil {
			l.useTemplate(t)
		}
		for _, o := range c.Each("Overrides") {
			l.use(o.Get("SubnetId"), o.Get("ImageId"))
		}
	}
	isSpot := in.Form.Get("TargetCapacitySpecification.DefaultTargetCapacityType") == spot
	out := in.creating([]string{"ec2:CreateFleet"}, "fleet", specified(in.Form, "fleet"), "CreateFleet")
	return append(out, l.requests(func(kind string) map[string]string {
		if kind == "spot-instances-request" && isSpot {
			return specified(l.data, kind)
		}
		return specified(in.Form, kind)
	})...)
}

func runInstancesRequests(in *call) []api.AuthorizationRequest {
	l := &launchRequests{in: in, actions: []string{"ec2:RunInstances"}}
	spec := in.Form.Sub("LaunchTemplate")
	if t := in.templateFor(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName")); t != nil {
		l.useTemplate(t)
	}
	l.use(in.Form.Get("SubnetId"), in.Form.Get("ImageId"))
	for _, n := range in.Form.Each("NetworkInterface") {
		l.use(n.Get("SubnetId"))
		l.use(n.List("SecurityGroupId")...)
	}
	return l.requests(func(kind string) map[string]string { return specified(in.Form, kind) })
}
