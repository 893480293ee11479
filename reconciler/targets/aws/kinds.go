package aws

import "slices"

// kindOf names the type of a Key: its service and its kind.
type kindOf struct{ service, kind string }

// kinds lists every type of resource. Each file that adds one adds its line.
func kinds() map[kindOf]kind {
	return map[kindOf]kind{
		{"iam", "Policy"}:                 policies{},
		{"iam", "Role"}:                   roles{},
		{"iam", "InstanceProfile"}:        profiles{},
		{"eks", "AccessEntry"}:            accessEntries{},
		{"eks", "PodIdentityAssociation"}: podIdentities{},
		{"servicequotas", "Quota"}:        newQuotas(),
		{"sqs", "Queue"}:                  queues{},
		{"events", "Rule"}:                rules{},
		{"logs", "LogGroup"}:              logGroups{},
		{"eks", "Logging"}:                loggings{},
		{"eks", "Version"}:                versions{},
		{"eks", "Addon"}:                  addons{},
		{"eks", "NodeGroup"}:              nodeGroups{},
		{"eks", "NodeGroupHardware"}:      nodeGroupHardwares{},
		{"ec2", "SubnetTag"}:              subnets{},
		{"ec2", "SecurityGroupTag"}:       securityGroups{},
	}
}

// strs turns strings into a canonical list, sorted.
func strs[S ~string](in []S) []any {
	sorted := slices.Sorted(slices.Values(in))
	out := make([]any, len(sorted))
	for i, s := range sorted {
		out[i] = string(s)
	}
	return out
}
