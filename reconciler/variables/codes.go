package variables

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is reported of SSM parameters.
const (
	codeParameterValue      finding.Code = "ParameterValue"
	codeParameterOutdated   finding.Code = "ParameterOutdated"
	codeParameterOverridden finding.Code = "ParameterOverridden"
	codeParameterUnknown    finding.Code = "ParameterUnknown"
)
