package awserr

import "github.com/poolwright/poolwright/reconciler/state/finding"

// The codes of failed requests, which are reasons of conditions as well.
const (
	codeAccessDenied         finding.Code = "AccessDenied"
	codeThrottled            finding.Code = "Throttled"
	codeQueueDeletedRecently finding.Code = "QueueDeletedRecently"
	codeNotYet               finding.Code = "NotYet"
	codeInvalid              finding.Code = "Invalid"
	codeRefused              finding.Code = "Refused"
	codeUnreachable          finding.Code = "Unreachable"
	codeFailed               finding.Code = "Failed"
	codeNotFresh             finding.Code = "NotFresh"
	codeAWSConfig            finding.Code = "AWSConfig"
	codeWrongAccount         finding.Code = "WrongAccount"
	codeNoCredentials        finding.Code = "NoCredentials"
	codeCredentialsExpired   finding.Code = "CredentialsExpired"
	codeCredentialsInvalid   finding.Code = "CredentialsInvalid"
)
