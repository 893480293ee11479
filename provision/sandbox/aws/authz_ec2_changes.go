package aws

import (
	"fmt"
	"maps"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// ec2ChangeAuthorizations are those of the operations that an account's owner
// uses, and no controller of nodes.
func ec2ChangeAuthorizations() map[string]authorization {
	// named asks about the resource whose id is in a parameter.
	named := func(param string) authorization {
		return func(in *call) []authorizationRequest {
			return in.ofExisting("ec2:"+in.op, []string{in.form.Get(param)}, authorizationRequest{})
		}
	}
	// made asks to make something, with the tags of the request.
	made := func(kind, list string) authorization {
		return func(in *call) []authorizationRequest {
			return in.creating([]string{"ec2:" + in.op}, kind, listed(in.form.Each(list), kind), in.op)
		}
	}
	return map[string]authorization{
		"StopInstances": func(in *call) []authorizationRequest {
			return in.ofExisting("ec2:StopInstances", in.form.List("InstanceId"), authorizationRequest{})
		},
		"DescribeInstanceAttribute": named("InstanceId"),
		"ModifySubnetAttribute":     named("SubnetId"),
		"EnableImageDeprecation":    named("ImageId"),
		"CopyImage":                 copyImageAsks,
		"CreateSecurityGroup": func(in *call) []authorizationRequest {
			vpc := authorizationRequest{action: "ec2:CreateSecurityGroup", resource: in.cloud.localARN("ec2", "vpc/"+in.st.network.vpc)}
			return append(made("security-group", "TagSpecification")(in), vpc)
		},
		"DeleteSecurityGroup":       named("GroupId"),
		"CreateCapacityReservation": made("capacity-reservation", "TagSpecifications"),
		"CancelCapacityReservation": named("CapacityReservationId"),
		"CreateInterruptibleCapacityReservationAllocation": func(in *call) []authorizationRequest {
			return append(named("CapacityReservationId")(in), made("capacity-reservation", "TagSpecification")(in)...)
		},
		"CreatePlacementGroup": func(in *call) []authorizationRequest {
			return in.creatingAt([]string{"ec2:" + in.op}, in.cloud.localARN("ec2", "placement-group/"+in.form.Get("GroupName")), listed(in.form.Each("TagSpecification"), "placement-group"), in.op)
		},
		"DeletePlacementGroup": func(in *call) []authorizationRequest {
			q := authorizationRequest{action: "ec2:DeletePlacementGroup", resource: in.cloud.localARN("ec2", "placement-group/"+in.form.Get("GroupName"))}
			if g := in.st.placementGroup("", in.form.Get("GroupName")); g != nil {
				q.tags = g.Tags
			}
			return []authorizationRequest{q}
		},
	}
}

// listed are the tags for a type of resource in a list of specifications.
func listed(specifications []query.Form, kind string) map[string]string {
	out := map[string]string{}
	for _, s := range specifications {
		if s.Get("ResourceType") == kind {
			maps.Copy(out, formTags(s.Each("Tag")))
		}
	}
	return out
}

// copyImageAsks: images belong to no account.
func copyImageAsks(in *call) []authorizationRequest {
	made := fmt.Sprintf("arn:%s:ec2:%s::image/*", in.cloud.partition(), in.cloud.cfg.Region)
	return append(in.creatingAt([]string{"ec2:CopyImage"}, made, listed(in.form.Each("TagSpecification"), "image"), "CopyImage"),
		in.ofExisting("ec2:CopyImage", []string{in.form.Get("SourceImageId")}, authorizationRequest{})...)
}
