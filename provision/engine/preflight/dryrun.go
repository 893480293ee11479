package preflight

import "github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass"

// DryRunDisabled is the reason of an EC2NodeClass's condition ValidationSucceeded where dry runs are switched off.
const DryRunDisabled = nodeclass.ConditionReasonDryRunDisabled

// LaunchRefused reports whether a reason of an EC2NodeClass's condition ValidationSucceeded is that EC2 refused Karpenter's
// dry run of a launch: the controller's role lacks a permission.
func LaunchRefused(reason string) bool {
	switch reason {
	case nodeclass.ConditionReasonCreateFleetAuthFailed, nodeclass.ConditionReasonCreateLaunchTemplateAuthFailed, nodeclass.ConditionReasonRunInstancesAuthFailed:
		return true
	}
	return false
}
