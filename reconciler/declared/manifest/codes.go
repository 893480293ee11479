package manifest

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is wrong with files of manifests.
const (
	codeYAMLInvalid  finding.Code = "YAMLInvalid"
	codeKeyNotScalar finding.Code = "KeyNotScalar"
	codeNotAnObject  finding.Code = "NotAnObject"
)
