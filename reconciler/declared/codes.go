package declared

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what only a revision as a whole shows.
const (
	codeConfirmationInRepository finding.Code = "ConfirmationInRepository"
	codeSymbolicLinkInvalid      finding.Code = "SymbolicLinkInvalid"
	codeVariableNotSubstituted   finding.Code = "VariableNotSubstituted"
)
