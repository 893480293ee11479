package vpc

import (
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// Operations are those of EC2 on subnets, security groups and network interfaces.
func (svc *Service) Operations() map[string]api.Operation {
	list := []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken"}
	also := func(params ...string) []string { return append(slices.Clone(list), params...) }
	return map[string]api.Operation{
		"DescribeSubnets":           {Params: also("SubnetId.#"), Read: true, Run: svc.describeSubnets},
		"DescribeSecurityGroups":    {Params: also("GroupId.#", "GroupName.#"), Read: true, Run: svc.describeSecurityGroups},
		"DescribeNetworkInterfaces": {Params: also("NetworkInterfaceId.#"), Read: true, Run: svc.describeInterfaces},
		"ModifySubnetAttribute":     {Params: []string{"SubnetId", "MapPublicIpOnLaunch.Value"}, Run: svc.modifySubnet},
		"CreateSecurityGroup": {Params: []string{"GroupName", "GroupDescription", "VpcId",
			"TagSpecification.#.ResourceType", "TagSpecification.#.Tag.#.Key", "TagSpecification.#.Tag.#.Value"}, Run: svc.createGroup},
		"DeleteSecurityGroup": {Params: []string{"GroupId", "GroupName"}, Run: svc.deleteGroup},
	}
}
