package ec2

import (
	"maps"
	"slices"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// operations is EC2 as far as it is emulated, with every parameter that each operation
// takes.
func (svc *Service) operations() map[string]api.Operation {
	list := []string{"Filter.#.Name", "Filter.#.Value.#", "MaxResults", "NextToken"}
	also := func(params ...string) []string { return append(slices.Clone(list), params...) }
	out := map[string]api.Operation{
		"CreateFleet":                  {Params: fleetParams(), RateLimitBucket: "CreateFleet", Before: svc.account.Delays.Fleet, Run: svc.createFleet},
		"RunInstances":                 {Params: runParams(), RateLimitBucket: "RunInstances", Run: svc.runInstances},
		"DescribeInstances":            {Params: also("InstanceId.#"), Read: true, Run: svc.describeInstances},
		"DescribeInstanceStatus":       {Params: also("InstanceId.#", "IncludeAllInstances"), Read: true, Run: svc.describeStatus},
		"TerminateInstances":           {Params: []string{"InstanceId.#"}, RateLimitBucket: "TerminateInstances", Run: svc.terminateInstances},
		"CreateTags":                   {Params: []string{"ResourceId.#", "Tag.#.Key", "Tag.#.Value"}, Run: svc.createTags},
		"DeleteTags":                   {Params: []string{"ResourceId.#", "Tag.#.Key", "Tag.#.Value"}, Run: svc.deleteTags},
		"DescribeSpotInstanceRequests": {Params: also("SpotInstanceRequestId.#"), Read: true, Run: svc.describeSpotRequests},
		"DescribeInstanceAttribute":    {Params: []string{"InstanceId", "Attribute"}, Read: true, Run: svc.describeInstanceAttribute},
		"StopInstances":                {Params: []string{"InstanceId.#", "Force"}, Run: svc.stopInstances},
	}
	for _, part := range []map[string]api.Operation{
		svc.offers.Operations(), svc.Images.Operations(), svc.VPC.Operations(), svc.ebs.Operations(), svc.templates.Operations(),
		svc.Reservations.Operations(), svc.Placement.Operations(),
	} {
		maps.Copy(out, part)
	}
	return out
}

// Table is what EC2 can do here.
func (svc *Service) Table() api.Table {
	return api.Table{Operations: svc.operations(), Authorizations: svc.authorizations(), Required: required()}
}
