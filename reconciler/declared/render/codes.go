package render

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is wrong with kustomizations.
const (
	codeKustomizationCycle             finding.Code = "KustomizationCycle"
	codeKustomizationMissing           finding.Code = "KustomizationMissing"
	codeKustomizationInvalid           finding.Code = "KustomizationInvalid"
	codeKustomizationFieldUnknown      finding.Code = "KustomizationFieldUnknown"
	codeKustomizationFieldNotSupported finding.Code = "KustomizationFieldNotSupported"
	codeKustomizeFailed                finding.Code = "KustomizeFailed"
	codePluginNotSupported             finding.Code = "KustomizePluginNotSupported"
	codeReplacementsTooLarge           finding.Code = "ReplacementsTooLarge"
	codeRemoteBase                     finding.Code = "RemoteBase"
	codePathInvalid                    finding.Code = "PathInvalid"
	codePathNotFound                   finding.Code = "PathNotFound"
	codePathOutsideRepository          finding.Code = "PathOutsideRepository"
)
