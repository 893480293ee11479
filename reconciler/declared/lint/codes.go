package lint

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// The codes of what lint finds in single objects.
const (
	codeSecretInGit              finding.Code = "SecretInGit"
	codeAnnotationUnknown        finding.Code = "AnnotationUnknown"
	codeKubeletInvalid           finding.Code = "KubeletConfigurationInvalid"
	codeDefinitionInvalid        finding.Code = "CustomResourceDefinitionInvalid"
	codeVersionNotServed         finding.Code = "VersionNotServed"
	codeUnknownField             finding.Code = "UnknownField"
	codeMachineDeclared          finding.Code = "MachineDeclared"
	codeConversionReviewRequired finding.Code = "ConversionReviewRequired"
	codeOldAPIFollowed           finding.Code = "OldAPIFollowed"
	codeOldAPIMentioned          finding.Code = "OldAPIMentioned"
)

// The codes of fields that a schema or a rule refuses are the causes with which an API server returns them
// (metav1.CauseType).
const (
	codeRequired     finding.Code = "FieldValueRequired"
	codeInvalid      finding.Code = "FieldValueInvalid"
	codeNotSupported finding.Code = "FieldValueNotSupported"
	codeDuplicate    finding.Code = "FieldValueDuplicate"
	codeTooLong      finding.Code = "FieldValueTooLong"
	codeTooMany      finding.Code = "FieldValueTooMany"
	codeForbidden    finding.Code = "FieldValueForbidden"
	codeTypeInvalid  finding.Code = "FieldValueTypeInvalid"
)

// codeOf is the cause with which an API server refuses the field.
func codeOf(err *field.Error) finding.Code {
	switch err.Type {
	case field.ErrorTypeRequired:
		return codeRequired
	case field.ErrorTypeNotSupported:
		return codeNotSupported
	case field.ErrorTypeDuplicate:
		return codeDuplicate
	case field.ErrorTypeTooLong:
		return codeTooLong
	case field.ErrorTypeTooMany:
		return codeTooMany
	case field.ErrorTypeForbidden:
		return codeForbidden
	case field.ErrorTypeTypeInvalid:
		return codeTypeInvalid
	default:
		return codeInvalid
	}
}
