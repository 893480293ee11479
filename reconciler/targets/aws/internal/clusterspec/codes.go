package clusterspec

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is wrong with a Cluster.
const (
	codeFieldEmpty                finding.Code = "ClusterFieldEmpty"
	codeDuplicateEntry            finding.Code = "ClusterEntryDuplicate"
	codeTagReserved               finding.Code = "TagReserved"
	codeTagInvalid                finding.Code = "TagInvalid"
	codeLabelInvalid              finding.Code = "NodeGroupLabelInvalid"
	codeNodeGroupSizesInvalid     finding.Code = "NodeGroupSizesInvalid"
	codeInterruptionQueueConflict finding.Code = "InterruptionQueueConflict"
	codeRoleShared                finding.Code = "ControllerRoleIsNodeRole"
	codeDeletionPolicyConflict    finding.Code = "DeletionPolicyConflict"
)
