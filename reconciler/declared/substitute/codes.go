package substitute

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of what is wrong with variables.
const (
	codePlaceholderReserved    finding.Code = "PlaceholderReserved"
	codeSubstitutionImpossible finding.Code = "SubstitutionImpossible"
	codeSubstitutionInvalid    finding.Code = "SubstitutionInvalid"
	codeVariableInvalid        finding.Code = "VariableInvalid"
	codeSecretOutsideSecret    finding.Code = "SecretOutsideSecret"
	codeFieldEmptied           finding.Code = "FieldEmptied"
)
