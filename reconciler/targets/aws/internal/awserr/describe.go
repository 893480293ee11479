package awserr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Explain describes the error of a request for a person, without a class; who is the caller,
// such as "role NAME", or empty.
func Explain(who string, err error) error {
	_, text := describe(who, err)
	return &explainedError{text: text, cause: err}
}

// Fail is Explain with the class of the failure. It returns nil for nil.
func Fail(who string, err error) error {
	if err == nil {
		return nil
	}
	reason, text := describe(who, err)
	explained := &explainedError{text: text, cause: err}
	switch reason {
	case codeValidationError:
		return state.Fail(state.Stalled, string(reason), explained)
	case codeQueueDeletedRecently:
		return state.WaitFor(time.Minute+time.Second, string(reason), explained)
	case codeNotPropagated:
		return state.WaitFor(10*time.Second, string(reason), explained)
	default: // all others may succeed when tried again
	}
	return state.Fail(state.Retry, string(reason), explained)
}

// explainedError is an error with a text of ours, of which errors.As finds the cause.
type explainedError struct {
	text  string
	cause error
}

func (a *explainedError) Error() string { return a.text }
func (a *explainedError) Unwrap() error { return a.cause }

// Reason is why a request failed; the codes are those of Fail.
func Reason(err error) finding.Code {
	reason, _ := describe("", err)
	return reason
}

// describe finds the reason and the sentence for an error.
func describe(who string, err error) (reason finding.Code, text string) {
	if reason, text = unprepared(err); reason != "" {
		return reason, text
	}
	code := Code(err)
	switch {
	case Denied(err):
		return codeAccessDenied, fmt.Sprintf("denied: give %s the action %s", cmp.Or(who, "the caller"), actionOf(err))
	case throttled(err):
		return codeThrottled, "throttled: AWS takes no more requests of this kind at this moment"
	case strings.HasSuffix(code, "QueueDeletedRecently"):
		return codeQueueDeletedRecently, "a queue of this name was deleted a moment ago: SQS takes the name again after 60 seconds"
	case errors.Is(err, ErrNotPropagated):
		return codeNotPropagated, ErrNotPropagated.Error() + apiMessage(err)
	case invalid(code):
		return codeValidationError, "AWS refuses it" + apiMessage(err)
	case code != "":
		return codeServiceError, "AWS responded" + apiMessage(err)
	case unreachable(err):
		return codeUnreachable, unreached(err)
	case errors.As(err, new(ratelimit.QuotaExceededError)):
		return codeThrottled, "throttled: too many requests have failed to try more at this moment"
	}
	return codeFailed, redacted(err.Error())
}

// unprepared describes what fails before any response: this process, its
// configuration and its credentials. The reason is empty for all else.
func unprepared(err error) (reason finding.Code, text string) {
	code := Code(err)
	switch {
	case errors.Is(err, ErrWritesDisabled):
		return codeStaleRead, redacted(err.Error())
	case errors.Is(err, ErrConfig):
		return codeAWSConfig, redacted(err.Error())
	case errors.As(err, new(*AccountError)):
		return codeWrongAccount, redacted(err.Error())
	case errors.Is(err, ErrCredentials):
		return codeNoCredentials, ErrCredentials.Error() + ": give the controller's service account a role (EKS Pod Identity or IRSA), or set AWS_PROFILE on a laptop"
	case slices.Contains(expiredCodes, code):
		return codeCredentialsExpired, "the AWS credentials have expired: renew them"
	case slices.Contains(invalidCredentialCodes, code):
		return codeCredentialsInvalid, fmt.Sprintf("AWS does not accept the credentials (%s): check the role or the keys, this machine's clock, and whether %s is right", code, regionOf(err))
	}
	return "", ""
}

// apiMessage is the message of the response, with its code.
func apiMessage(err error) string {
	apiError, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return ""
	}
	text := ": " + apiError.ErrorCode()
	if message := redacted(apiError.ErrorMessage()); message != "" {
		text += ": " + message
	}
	return text
}

func unreachable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNoResponse) {
		return true
	}
	if _, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	_, ok := errors.AsType[*smithy.CanceledError](err)
	return ok
}

// unreached is what could not be reached, and why, as far as is known.
func unreached(err error) string {
	where := "AWS"
	if call, ok := errors.AsType[*CallError](err); ok {
		where = call.Service + " in " + call.Region
	}
	if sent, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := url.Parse(sent.URL); parseErr == nil && at.Host != "" {
			where += " (" + at.Host + ")"
		}
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && name.IsNotFound {
		return where + " could not be reached: its name is unknown: check spec.region and this machine's DNS"
	}
	failed, ok := errors.AsType[net.Error](err)
	if errors.Is(err, ErrNoResponse) || errors.Is(err, context.DeadlineExceeded) || ok && failed.Timeout() {
		return where + " did not respond in time: check the way there (proxy, security groups, VPC endpoints)"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return where + " could not be reached: " + redacted(op.Err.Error())
	}
	return where + " could not be reached"
}

// regionOf names the region of the request.
func regionOf(err error) string {
	if call, ok := errors.AsType[*CallError](err); ok && call.Region != "" {
		return "spec.region " + call.Region
	}
	return "spec.region"
}

// servicePrefixes are the IAM prefixes of services whose name in the SDK
// differs from it by more than its case.
var servicePrefixes = map[string]string{
	"EventBridge": "events", "CloudWatch Logs": "logs",
}

// missing finds the action in the message of a refusal. The operation's name is
// not enough: operations of many services require iam:PassRole.
var missing = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z0-9]+)`)

// forbids finds what kind of policy denies explicitly, so that no further
// permission would help.
var forbids = regexp.MustCompile(`with an explicit deny in an? ([a-z -]+ (?:policy|boundary))`)

// actionOf names the IAM action that is missing.
func actionOf(err error) string {
	message := ""
	if apiError, ok := errors.AsType[smithy.APIError](err); ok {
		message = apiError.ErrorMessage()
	}
	if m := missing.FindStringSubmatch(message); m != nil {
		if f := forbids.FindStringSubmatch(message); f != nil {
			return m[1] + " (an explicit deny in a " + f[1] + " takes it away)"
		}
		return m[1]
	}
	op, ok := errors.AsType[*smithy.OperationError](err)
	if !ok {
		return "that this request needs"
	}
	prefix, ok := servicePrefixes[op.ServiceID]
	if !ok {
		prefix = strings.ToLower(strings.ReplaceAll(op.ServiceID, " ", ""))
	}
	return prefix + ":" + op.OperationName
}

// secrets matches what no message of ours repeats: sessions, keys and encoded
// messages.
var secrets = regexp.MustCompile(`arn:aws[a-z-]*:sts::[0-9]*:assumed-role/\S+|\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b|(?i:encoded authorization failure message: *)\S+|\b[A-Za-z0-9+/_-]{100,}={0,2}`)

// longest is how much of a response's message is repeated, in bytes.
const longest = 300

// redacted is a text without secrets, in one line.
func redacted(text string) string {
	text = strings.Join(strings.Fields(secrets.ReplaceAllString(text, "***")), " ")
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}
