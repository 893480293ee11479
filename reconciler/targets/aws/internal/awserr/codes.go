package awserr

import (
	"errors"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// Code is the code in AWS's response; empty where the error is no response of AWS's.
func Code(err error) string {
	if apiError, ok := errors.AsType[smithy.APIError](err); ok {
		return apiError.ErrorCode()
	}
	return ""
}

var (
	expiredCodes           = []string{"ExpiredToken", "ExpiredTokenException", "RequestExpired"}
	invalidCredentialCodes = []string{
		"InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "InvalidSignatureException",
		"AuthFailure", "IncompleteSignature", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "NotAuthorized", "OptInRequired",
	}
	throttleCodes = []string{
		"Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "RequestLimitExceeded", "SlowDown", "EC2ThrottledException", "PriorRequestNotComplete", "BandwidthLimitExceeded",
	}
	invalidCodes = []string{
		"ValidationError", "ValidationException", "MalformedPolicyDocument", "MalformedPolicyDocumentException", "MalformedPolicy",
		"UnmodifiableEntity", "InvalidRequestException", "InvalidEventPatternException", "MissingParameter",
	}
)

// Denied reports whether the caller lacks a permission.
func Denied(err error) bool {
	code := Code(err)
	return strings.Contains(code, "AccessDenied") || code == "UnauthorizedOperation" || code == "UnauthorizedAccess" ||
		code == "AuthorizationError" || code == "AuthorizationErrorException" || code == "Client.UnauthorizedOperation"
}

// throttled reports whether AWS throttles the caller.
func throttled(err error) bool {
	code := Code(err)
	if slices.Contains(throttleCodes, strings.TrimPrefix(code, "AWS.SimpleQueueService.")) {
		return true
	}
	responseError, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && responseError.HTTPStatusCode() == 429
}

// CredentialsFailed reports whether no request can succeed with these credentials.
func CredentialsFailed(err error) bool {
	code := Code(err)
	return errors.Is(err, ErrCredentials) || slices.Contains(expiredCodes, code) || slices.Contains(invalidCredentialCodes, code)
}

// Exists reports whether a creation was refused because the name is taken.
func Exists(err error) bool {
	code := strings.TrimPrefix(Code(err), "AWS.SimpleQueueService.")
	return slices.Contains([]string{
		"EntityAlreadyExists", "EntityAlreadyExistsException", "ResourceInUseException", "ResourceAlreadyExistsException", "QueueAlreadyExists", "QueueNameExists",
	}, code)
}

// IsNotFound reports whether what was to be changed is not there.
func IsNotFound(err error) bool {
	code := Code(err)
	return slices.Contains([]string{
		"NoSuchEntity", "NoSuchEntityException", "ResourceNotFoundException", "NotFoundException",
		"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue",
	}, code) || strings.HasSuffix(code, ".NotFound")
}

func invalid(code string) bool {
	return strings.HasPrefix(code, "InvalidParameter") || strings.HasPrefix(code, "InvalidAttribute") || strings.HasPrefix(code, "InvalidInput") ||
		strings.HasSuffix(code, ".Malformed") || slices.Contains(invalidCodes, code)
}
