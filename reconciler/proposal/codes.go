package proposal

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what the live targets make of a merge.
const (
	codeNotManaged         finding.Code = "NotManaged"
	codeExistenceUnknown   finding.Code = "ExistenceUnknown"
	codeAlreadyApplied     finding.Code = "AlreadyApplied"
	codeExists             finding.Code = "Exists"
	codeNotApplied         finding.Code = "NotApplied"
	codeNotComparedAnyMore finding.Code = "NotComparedAnyMore"
	codeTerminating        finding.Code = "Terminating"
	codeDeletionResumed    finding.Code = "DeletionResumed"
	codeDriftedField       finding.Code = "DriftedField"
	codeMoreFieldsChange   finding.Code = "MoreFieldsChange"
)
