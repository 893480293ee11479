package awserr

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// response is an error as the SDK returns it.
func response(service, operation, code, message string) error {
	return &smithy.OperationError{ServiceID: service, OperationName: operation, Err: &smithy.GenericAPIError{Code: code, Message: message}}
}

func TestRefusalsBecomeSentences(t *testing.T) {
	session := "arn:aws:sts::123456789012:assumed-role/poolwright/eks-pod-0123456789"
	tests := []struct {
		name    string
		err     error
		class   state.FailureClass
		text    string
		message string
	}{
		{"a denial names the action in the message", response("EKS", "CreatePodIdentityAssociation", "AccessDeniedException", "User: "+session+" is not authorized to perform: iam:PassRole on resource: x"),
			state.Retry, "AccessDenied", "denied: give role poolwright the action iam:PassRole"},
		{"a denial without a message names the operation", response("SQS", "GetQueueAttributes", "AccessDenied", "no"), state.Retry, "AccessDenied", "the action sqs:GetQueueAttributes"},
		{"EventBridge is events to IAM", response("EventBridge", "ListRules", "AccessDeniedException", ""), state.Retry, "AccessDenied", "the action events:ListRules"},
		{"CloudWatch Logs is logs to IAM", response("CloudWatch Logs", "DescribeLogGroups", "AccessDeniedException", ""), state.Retry, "AccessDenied", "the action logs:DescribeLogGroups"},
		{"Service Quotas is servicequotas to IAM", response("Service Quotas", "ListServiceQuotas", "AccessDeniedException", ""), state.Retry, "AccessDenied", "the action servicequotas:ListServiceQuotas"},
		{"EC2 has a code of its own, and an encoded message", response("EC2", "CreateTags", "UnauthorizedOperation", "You are not authorized to perform this operation. Encoded authorization failure message: AbCd-123"),
			state.Retry, "AccessDenied", "the action ec2:CreateTags"},
		{"an explicit denial states that no permission helps", response("IAM", "GetRole", "AccessDenied", "User: "+session+" is not authorized to perform: iam:GetRole on resource: role x with an explicit deny in a service control policy"),
			state.Retry, "AccessDenied", "iam:GetRole (an explicit deny in a service control policy takes it away)"},
		{"throttling of IAM", response("IAM", "GetRole", "Throttling", "Rate exceeded"), state.Retry, "Throttled", "throttled"},
		{"throttling of SQS", response("SQS", "GetQueueUrl", "RequestThrottled", ""), state.Retry, "Throttled", "throttled"},
		{"throttling of EC2", response("EC2", "DescribeSubnets", "RequestLimitExceeded", ""), state.Retry, "Throttled", "throttled"},
		{"throttling of EKS", response("EKS", "DescribeCluster", "TooManyRequestsException", ""), state.Retry, "Throttled", "throttled"},
		{"a queue's name that is not free yet", response("SQS", "CreateQueue", "AWS.SimpleQueueService.QueueDeletedRecently", ""), state.Wait, "QueueDeletedRecently", "60 seconds"},
		{"an invalid parameter is the repository's", response("SQS", "CreateQueue", "InvalidAttributeValue", "KmsMasterKeyId is wrong"), state.Stalled, "ValidationError", "KmsMasterKeyId is wrong"},
		{"a request of EC2 that lacks a parameter", response("EC2", "CreateTags", "MissingParameter", "must contain ResourceId"), state.Stalled, "ValidationError", "must contain ResourceId"},
		{"a security group id that is none", response("EC2", "CreateTags", "InvalidGroupId.Malformed", "Invalid id: sg1"), state.Stalled, "ValidationError", "Invalid id: sg1"},
		{"an invalid parameter that will pass is not", NotPropagated(response("EKS", "CreateAccessEntry", "InvalidParameterException", "no such role")), state.Wait, "NotPropagated", "no such role"},
		{"expired credentials", response("SQS", "GetQueueUrl", "ExpiredToken", "x"), state.Retry, "CredentialsExpired", "expired"},
		{"wrong credentials", response("SQS", "GetQueueUrl", "InvalidClientTokenId", "x"), state.Retry, "CredentialsInvalid", "does not accept the credentials"},
		{"no credentials", fmt.Errorf("get identity: %w", ErrCredentials), state.Retry, "NoCredentials", "no AWS credentials"},
		{"no response in time", &smithy.OperationError{ServiceID: "SQS", OperationName: "GetQueueUrl", Err: context.DeadlineExceeded}, state.Retry, "Unreachable", "did not respond in time"},
		{"a service that does not respond is named with its region", &CallError{Service: "SQS", Region: "eu-west-1", Cause: ErrNoResponse}, state.Retry, "Unreachable", "SQS in eu-west-1 did not respond in time"},
		{"an address without a name is reported", &CallError{Service: "EKS", Region: "eu-wst-1", Cause: &url.Error{Op: "Post", URL: "https://eks.eu-wst-1.amazonaws.com/x?token=hunter2",
			Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}}},
			state.Retry, "Unreachable", "EKS in eu-wst-1 (eks.eu-wst-1.amazonaws.com) could not be reached: its name is unknown: check spec.region"},
		{"a refused connection is reported", &CallError{Service: "EKS", Region: "eu-west-1", Cause: &url.Error{Op: "Post", URL: "http://127.0.0.1:1/", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}},
			state.Retry, "Unreachable", "EKS in eu-west-1 (127.0.0.1:1) could not be reached: connection refused"},
		{"a wrong signature may be a wrong region", &CallError{Service: "STS", Region: "eu-west-2", Cause: response("STS", "GetCallerIdentity", "SignatureDoesNotMatch", "x")}, state.Retry, "CredentialsInvalid", "whether spec.region eu-west-2 is right"},
		{"anything else keeps its code", response("EKS", "UpdateClusterConfig", "ResourceInUseException", "an update is in progress"), state.Retry, "ServiceError", "ResourceInUseException: an update is in progress"},
		{"an error of our own", errors.New("reading queue: no number"), state.Retry, "Failed", "no number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Fail("role poolwright", tt.err)
			class, reason, _ := state.Classify(err)
			if class != tt.class || reason != tt.text || !strings.Contains(err.Error(), tt.message) {
				t.Errorf("got %s %s: %v", class, reason, err)
			}
			for _, secret := range []string{"eks-pod-0123456789", "AbCd-123", "hunter2"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("leaks: %v", err)
				}
			}
		})
	}
	if err := Fail("", response("STS", "GetCallerIdentity", "AccessDenied", "")); !strings.Contains(err.Error(), "give the caller the action sts:GetCallerIdentity") {
		t.Errorf("got %v", err)
	}
	if Fail("y", nil) != nil || NotPropagated(nil) != nil {
		t.Error("nothing became an error")
	}
}

func TestErrorTextOfAWSIsRepeatedWithoutSecrets(t *testing.T) {
	text := redacted("User: arn:aws-cn:sts::1:assumed-role/a/b-session did it with ASIAABCDEFGHIJKLMNOP\nand " + strings.Repeat("Zm9v", 40) + " " + strings.Repeat("long ", 200))
	for _, secret := range []string{"b-session", "ASIA", "Zm9vZm9v", "\n"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q holds %q", text, secret)
		}
	}
	if len(text) > longest+10 || !strings.HasPrefix(text, "User: *** did it") {
		t.Errorf("got %q", text)
	}
}

func TestARequestThatAWSRefusesIsNoProofThatSomethingIsGone(t *testing.T) {
	for _, code := range []string{
		"ValidationError", "ValidationException", "MissingParameter", "InvalidParameterException", "InvalidParameterValue", "InvalidGroupId.Malformed",
		"InvalidAMIID.Malformed", "InvalidAddress", "MalformedPolicyDocument", "UnknownParameter", "InvalidAction", "UnknownOperationException",
	} {
		if IsNotFound(response("IAM", "GetRole", code, "1 validation error detected")) {
			t.Errorf("%s is read as gone", code)
		}
	}
	for _, code := range []string{"NoSuchEntity", "ResourceNotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "InvalidGroup.NotFound"} {
		if !IsNotFound(response("IAM", "GetRole", code, "it is not there")) {
			t.Errorf("%s is not read as gone", code)
		}
	}
}

func TestAReasonIsTheSameAfterTheErrorIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want finding.Code
	}{
		"a denied action": {response("sqs", "GetQueueAttributes", "AccessDeniedException", "no"), codeAccessDenied},
		"throttling":      {response("ec2", "DescribeInstances", "RequestLimitExceeded", "slow down"), codeThrottled},
		"no credentials":  {ErrCredentials, codeNoCredentials},
		"another error":   {errors.New("broken"), codeFailed},
	} {
		for _, err := range []error{c.err, Explain("role a", c.err), Fail("role a", c.err)} {
			if got := Reason(err); got != c.want {
				t.Errorf("%s: %s for %v", name, got, err)
			}
			if _, described := finding.Describe(Reason(err)); !described {
				t.Errorf("%s: %s is not described", name, Reason(err))
			}
		}
	}
}
