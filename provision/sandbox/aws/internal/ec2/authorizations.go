package ec2

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/offerings"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2/templates"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

func (svc *Service) authorizations() map[string]api.Authorization {
	out := map[string]api.Authorization{
		"CreateLaunchTemplate": svc.createTemplateRequests,
		"DeleteLaunchTemplate": svc.deleteTemplateRequests,
		"CreateFleet":          svc.createFleetRequests,
		"RunInstances":         svc.runInstancesRequests,
		"TerminateInstances": func(in *api.Call) []api.AuthorizationRequest {
			return svc.ofExisting("ec2:TerminateInstances", in.Form.List("InstanceId"), api.AuthorizationRequest{})
		},
		"CreateTags": func(in *api.Call) []api.AuthorizationRequest {
			return svc.ofExisting("ec2:CreateTags", in.Form.List("ResourceId"), api.AuthorizationRequest{RequestTags: query.Tags(in.Form.Each("Tag"))})
		},
		"DeleteTags": svc.deleteTagsRequests,
	}
	for _, op := range []string{
		"DescribeInstanceTypes", "DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory", "DescribeSubnets", "DescribeSecurityGroups", "DescribeImages",
		"DescribeLaunchTemplates", "DescribeInstances", "DescribeInstanceStatus", "DescribeCapacityReservations", "DescribePlacementGroups",
		"DescribeAvailabilityZones", "DescribeVolumes", "DescribeNetworkInterfaces", "DescribeSpotInstanceRequests",
	} {
		out[op] = api.Anything("ec2:" + op)
	}
	maps.Copy(out, svc.changeAuthorizations())
	return out
}

// ofExisting are requests about each of the ids; an id that is not there is refused as
// not found, whoever calls.
func (svc *Service) ofExisting(action string, ids []string, q api.AuthorizationRequest) []api.AuthorizationRequest {
	var out []api.AuthorizationRequest
	for _, id := range ids {
		if tags := svc.tagsOf(id); tags != nil {
			next := q
			next.Action, next.Resource, next.Tags = action, ec2query.ARN(svc.account, id), tags
			out = append(out, next)
		}
	}
	return out
}

func (svc *Service) deleteTagsRequests(in *api.Call) []api.AuthorizationRequest {
	given, keys := map[string]string{}, []string{}
	for _, f := range in.Form.Each("Tag") {
		if f.Has("Value") {
			given[f.Get("Key")] = f.Get("Value")
		} else {
			keys = append(keys, f.Get("Key"))
		}
	}
	return svc.ofExisting("ec2:DeleteTags", in.Form.List("ResourceId"), api.AuthorizationRequest{RequestTags: given, Keys: keys})
}

// creating are the requests to make something of a type, and to tag it.
func (svc *Service) creating(actions []string, kind string, tags map[string]string, by string) []api.AuthorizationRequest {
	return svc.creatingAt(actions, svc.account.ARN("ec2", kind+"/*"), tags, by)
}

// creatingAt are the requests to make what has that ARN, and to tag it.
func (svc *Service) creatingAt(actions []string, arn string, tags map[string]string, by string) []api.AuthorizationRequest {
	var out []api.AuthorizationRequest
	for _, a := range actions {
		out = append(out, api.AuthorizationRequest{Action: a, Resource: arn, RequestTags: tags})
	}
	if len(tags) > 0 {
		out = append(out, api.AuthorizationRequest{Action: "ec2:CreateTags", Resource: arn, RequestTags: tags,
			Context: map[string][]string{"ec2:CreateAction": {by}}})
	}
	return out
}

func (svc *Service) createTemplateRequests(in *api.Call) []api.AuthorizationRequest {
	return svc.creating([]string{"ec2:CreateLaunchTemplate"}, "launch-template", ec2query.Specified(in.Form, "launch-template"), "CreateLaunchTemplate")
}

func (svc *Service) deleteTemplateRequests(in *api.Call) []api.AuthorizationRequest {
	if t := svc.templates.Named(in.Form.Get("LaunchTemplateId"), in.Form.Get("LaunchTemplateName")); t != nil {
		return svc.ofExisting("ec2:DeleteLaunchTemplate", []string{t.ID}, api.AuthorizationRequest{})
	}
	return nil // it is not found
}

// launchRequests collects what a launch uses and makes.
type launchRequests struct {
	svc     *Service
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
func (l *launchRequests) useTemplate(t *templates.Template) {
	l.data = t.Data
	l.use(t.ID, t.Data.Get("ImageId"), t.Data.Get("Placement.GroupId"))
	l.use(t.Data.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"))
	l.use(securityGroups(t.Data)...)
	l.use(t.Data.Get("NetworkInterface.1.SubnetId"))
	for _, b := range t.Data.Each("BlockDeviceMapping") {
		l.use(b.Get("Ebs.SnapshotId"))
	}
}

// requests are all that the launch needs, with the tags that the request or its
// template gives to each type of what is made.
func (l *launchRequests) requests(tags func(kind string) map[string]string) []api.AuthorizationRequest {
	var out []api.AuthorizationRequest
	for _, id := range l.used {
		for _, a := range l.actions {
			out = append(out, api.AuthorizationRequest{Action: a, Resource: ec2query.ARN(l.svc.account, id), Tags: l.svc.tagsOf(id)})
		}
	}
	kinds := []string{"instance", "network-interface", "volume"}
	if len(tags("spot-instances-request")) > 0 {
		kinds = append(kinds, "spot-instances-request")
	}
	for _, kind := range kinds {
		given := ec2query.Specified(l.data, kind)
		maps.Copy(given, tags(kind))
		out = append(out, l.svc.creating(l.actions, kind, given, "RunInstances")...)
	}
	if role := l.svc.deps.Profiles.ProfileRole(l.data.Get("IamInstanceProfile.Name")); role != "" {
		out = append(out, l.svc.deps.Profiles.PassRole(role, "ec2"))
	}
	return out
}

// createFleetRequests: a fleet of type instant runs instances in its caller's name.
func (svc *Service) createFleetRequests(in *api.Call) []api.AuthorizationRequest {
	l := &launchRequests{svc: svc, actions: []string{"ec2:CreateFleet", "ec2:RunInstances"}}
	if in.Dry {
		l.actions = l.actions[:1] // it runs nothing: a dry run of RunInstances shows that
	}
	for _, c := range in.Form.Each("LaunchTemplateConfigs") {
		spec := c.Sub("LaunchTemplateSpecification")
		if t := svc.templates.Named(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName")); t != nil {
			l.useTemplate(t)
		}
		for _, o := range c.Each("Overrides") {
			l.use(o.Get("SubnetId"), o.Get("ImageId"))
		}
	}
	isSpot := in.Form.Get("TargetCapacitySpecification.DefaultTargetCapacityType") == offerings.Spot
	out := svc.creating([]string{"ec2:CreateFleet"}, "fleet", ec2query.Specified(in.Form, "fleet"), "CreateFleet")
	return append(out, l.requests(func(kind string) map[string]string {
		if kind == "spot-instances-request" && isSpot {
			return ec2query.Specified(l.data, kind)
		}
		return ec2query.Specified(in.Form, kind)
	})...)
}

func (svc *Service) runInstancesRequests(in *api.Call) []api.AuthorizationRequest {
	l := &launchRequests{svc: svc, actions: []string{"ec2:RunInstances"}}
	spec := in.Form.Sub("LaunchTemplate")
	if t := svc.templates.Named(spec.Get("LaunchTemplateId"), spec.Get("LaunchTemplateName")); t != nil {
		l.useTemplate(t)
	}
	l.use(in.Form.Get("SubnetId"), in.Form.Get("ImageId"))
	for _, n := range in.Form.Each("NetworkInterface") {
		l.use(n.Get("SubnetId"))
		l.use(n.List("SecurityGroupId")...)
	}
	return l.requests(func(kind string) map[string]string { return ec2query.Specified(in.Form, kind) })
}
