package eks

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of notes on what EKS runs.
const (
	codeStatusNotActive       finding.Code = "EKSStatusNotActive"
	codeHealthIssue           finding.Code = "EKSHealthIssue"
	codeLaunchTemplateUnknown finding.Code = "LaunchTemplateUnknown"
)
