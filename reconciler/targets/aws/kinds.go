package aws

import (
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/discovery"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/eks"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/iam"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/interruption"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/logs"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/quotas"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// kindOf names the type of a Key: its service and its kind.
type kindOf struct{ service, kind string }

// kinds lists every type of resource. Each file that adds one adds its line.
func kinds() map[kindOf]resource.Kind {
	return map[kindOf]resource.Kind{
		{"iam", "Policy"}:                 iam.Policies{},
		{"iam", "Role"}:                   iam.Roles{},
		{"iam", "InstanceProfile"}:        iam.InstanceProfiles{},
		{"eks", "AccessEntry"}:            iam.AccessEntries{},
		{"eks", "PodIdentityAssociation"}: iam.PodIdentityAssociations{},
		{"servicequotas", "Quota"}:        quotas.New(),
		{"sqs", "Queue"}:                  interruption.Queues{},
		{"events", "Rule"}:                interruption.Rules{},
		{"logs", "LogGroup"}:              logs.LogGroups{},
		{"eks", "Logging"}:                eks.Logging{},
		{"eks", "Version"}:                eks.Version{},
		{"eks", "Addon"}:                  eks.Addons{},
		{"eks", "NodeGroup"}:              eks.NodeGroups{},
		{"eks", "NodeGroupHardware"}:      eks.NodeGroupHardware{},
		{"ec2", "SubnetTag"}:              discovery.Subnets{},
		{"ec2", "SecurityGroupTag"}:       discovery.SecurityGroups{},
	}
}
