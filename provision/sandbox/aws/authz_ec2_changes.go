package aws

import (
	"fmt"
	"maps"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// ec2ChangeAuthorizations are those of the operations that an account's owner
// uses, and no controller of nodes.
func ec2ChangeAuthorizations() map[string]authorization {
	// named asks about the resource whose id is in a parameter.
	named := func(param string) authorization {
		return func(in *call) []api.AuthorizationRequest {
			return in.ofExisting("ec2:"+in.Op, []string{in.Form.Get(param)}, api.AuthorizationRequest{})
		}
	}
	// made asks to make something, with the tags of the request.
	made := func(kind, list string) authorization {
		return func(in *call) []api.AuthorizationRequest {
			return in.creating([]string{"ec2:" + in.Op}, kind, listed(in.Form.Each(list), kind), in.Op)
		}
	}
	return map[string]authorization{
		"StopInstances": func(in *call) []api.AuthorizationRequest {
			return in.ofExisting("ec2:StopInstances", in.Form.List("InstanceId"), api.AuthorizationRequest{})
		},
		"DescribeInstanceAttribute": named("InstanceId"),
		"ModifySubnetAttribute":     named("SubnetId"),
		"EnableImageDeprecation":    named("ImageId"),
		"CopyImage":                 copyImageAsks,
		"CreateSecurityGroup": func(in *call) []api.AuthorizationRequest {
			vpc := api.AuthorizationRequest{Action: "ec2:CreateSecurityGroup", Resource: in.cloud.account.ARN("ec2", "vpc/"+in.st.network.vpc)}
			return append(made("security-group", "TagSpecification")(in), vpc)
		},
		"DeleteSecurityGroup":       named("GroupId"),
		"CreateCapacityReservation": made("capacity-reservation", "TagSpecifications"),
		"CancelCapacityReservation": named("CapacityReservationId"),
		"CreateInterruptibleCapacityReservationAllocation": func(in *call) []api.AuthorizationRequest {
			return append(named("CapacityReservationId")(in), made("capacity-reservation", "TagSpecification")(in)...)
		},
		"CreatePlacementGroup": func(in *call) []api.AuthorizationRequest {
			return in.creatingAt([]string{"ec2:" + in.Op}, in.cloud.account.ARN("ec2", "placement-group/"+in.Form.Get("GroupName")), listed(in.Form.Each("TagSpecification"), "placement-group"), in.Op)
		},
		"DeletePlacementGroup": func(in *call) []api.AuthorizationRequest {
			q := api.AuthorizationRequest{Action: "ec2:DeletePlacementGroup", Resource: in.cloud.account.ARN("ec2", "placement-group/"+in.Form.Get("GroupName"))}
			if g := in.st.placementGroup("", in.Form.Get("GroupName")); g != nil {
				q.Tags = g.Tags
			}
			return []api.AuthorizationRequest{q}
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
func copyImageAsks(in *call) []api.AuthorizationRequest {
	made := fmt.Sprintf("arn:%s:ec2:%s::image/*", in.cloud.account.Partition(), in.cloud.account.Region)
	return append(in.creatingAt([]string{"ec2:CopyImage"}, made, listed(in.Form.Each("TagSpecification"), "image"), "CopyImage"),
		in.ofExisting("ec2:CopyImage", []string{in.Form.Get("SourceImageId")}, api.AuthorizationRequest{})...)
}
