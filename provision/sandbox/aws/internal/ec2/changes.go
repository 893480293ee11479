package ec2

import (
	"fmt"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/ec2query"
)

// changeAuthorizations are those of the operations that an account's owner
// uses, and no controller of nodes.
func (svc *Service) changeAuthorizations() map[string]api.Authorization {
	// named is a request about the resource whose id is in a parameter.
	named := func(param string) api.Authorization {
		return func(in *api.Call) []api.AuthorizationRequest {
			return svc.ofExisting("ec2:"+in.Op, []string{in.Form.Get(param)}, api.AuthorizationRequest{})
		}
	}
	// made are the requests to make something, with the tags of the request.
	made := func(kind, list string) api.Authorization {
		return func(in *api.Call) []api.AuthorizationRequest {
			return svc.creating([]string{"ec2:" + in.Op}, kind, ec2query.Listed(in.Form.Each(list), kind), in.Op)
		}
	}
	return map[string]api.Authorization{
		"StopInstances": func(in *api.Call) []api.AuthorizationRequest {
			return svc.ofExisting("ec2:StopInstances", in.Form.List("InstanceId"), api.AuthorizationRequest{})
		},
		"DescribeInstanceAttribute": named("InstanceId"),
		"ModifySubnetAttribute":     named("SubnetId"),
		"EnableImageDeprecation":    named("ImageId"),
		"CopyImage":                 svc.copyImageRequests,
		"CreateSecurityGroup": func(in *api.Call) []api.AuthorizationRequest {
			vpc := api.AuthorizationRequest{Action: "ec2:CreateSecurityGroup", Resource: svc.account.ARN("ec2", "vpc/"+svc.VPC.ID())}
			return append(made("security-group", "TagSpecification")(in), vpc)
		},
		"DeleteSecurityGroup":       named("GroupId"),
		"CreateCapacityReservation": made("capacity-reservation", "TagSpecifications"),
		"CancelCapacityReservation": named("CapacityReservationId"),
		"CreateInterruptibleCapacityReservationAllocation": func(in *api.Call) []api.AuthorizationRequest {
			return append(named("CapacityReservationId")(in), made("capacity-reservation", "TagSpecification")(in)...)
		},
		"CreatePlacementGroup": func(in *api.Call) []api.AuthorizationRequest {
			return svc.creatingAt([]string{"ec2:" + in.Op}, svc.account.ARN("ec2", "placement-group/"+in.Form.Get("GroupName")), ec2query.Listed(in.Form.Each("TagSpecification"), "placement-group"), in.Op)
		},
		"DeletePlacementGroup": func(in *api.Call) []api.AuthorizationRequest {
			q := api.AuthorizationRequest{Action: "ec2:DeletePlacementGroup", Resource: svc.account.ARN("ec2", "placement-group/"+in.Form.Get("GroupName"))}
			if g := svc.Placement.Find("", in.Form.Get("GroupName")); g != nil {
				q.Tags = g.Tags
			}
			return []api.AuthorizationRequest{q}
		},
	}
}

// copyImageRequests: images belong to no account.
func (svc *Service) copyImageRequests(in *api.Call) []api.AuthorizationRequest {
	made := fmt.Sprintf("arn:%s:ec2:%s::image/*", svc.account.Partition(), svc.account.Region)
	return append(svc.creatingAt([]string{"ec2:CopyImage"}, made, ec2query.Listed(in.Form.Each("TagSpecification"), "image"), "CopyImage"),
		svc.ofExisting("ec2:CopyImage", []string{in.Form.Get("SourceImageId")}, api.AuthorizationRequest{})...)
}
