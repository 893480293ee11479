package awserr

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of failed requests, which are reasons of conditions as well.
const (
	codeAccessDenied         finding.Code = "AccessDenied"
	codeThrottled            finding.Code = "Throttled"
	codeQueueDeletedRecently finding.Code = "QueueDeletedRecently"
	codeNotPropagated        finding.Code = "NotPropagated"
	codeValidationError      finding.Code = "ValidationError"
	codeServiceError         finding.Code = "ServiceError"
	codeUnreachable          finding.Code = "Unreachable"
	codeFailed               finding.Code = "Failed"
	codeStaleRead            finding.Code = "StaleRead"
	codeAWSConfig            finding.Code = "AWSConfig"
	codeWrongAccount         finding.Code = "WrongAccount"
	codeNoCredentials        finding.Code = "NoCredentials"
	codeCredentialsExpired   finding.Code = "CredentialsExpired"
	codeCredentialsInvalid   finding.Code = "CredentialsInvalid"
)
