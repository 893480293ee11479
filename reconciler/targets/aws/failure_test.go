package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/smithy-go"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/state"
)

// answer is an error as the SDK returns it.
func answer(service, operation, code, message string) error {
	return &smithy.OperationError{ServiceID: service, OperationName: operation, Err: &smithy.GenericAPIError{Code: code, Message: message}}
}

func TestRefusalsBecomeSentences(t *testing.T) {
	session := "arn:aws:sts::123456789012:assumed-role/poolwright/eks-pod-0123456789"
	tests := []struct {
		name  string
		err   error
		class state.Class
		word  string
		says  string
	}{
		{"a denial names the action of the words", answer("EKS", "CreatePodIdentityAssociation", "AccessDeniedException", "User: "+session+" is not authorized to perform: iam:PassRole on resource: x"),
			state.Retry, "AccessDenied", "denied: give role poolwright the action iam:PassRole"},
		{"a denial without words names the operation", answer("SQS", "GetQueueAttributes", "AccessDenied", "no"), state.Retry, "AccessDenied", "the action sqs:GetQueueAttributes"},
		{"EventBridge is events to IAM", answer("EventBridge", "ListRules", "AccessDeniedException", ""), state.Retry, "AccessDenied", "the action events:ListRules"},
		{"CloudWatch Logs is logs to IAM", answer("CloudWatch Logs", "DescribeLogGroups", "AccessDeniedException", ""), state.Retry, "AccessDenied", "the action logs:DescribeLogGroups"},
		{"Service Quotas is one word to IAM", answer("Service Quotas", "ListServiceQuotas", "AccessDeniedException", ""), state.Retry, "AccessDenied", "the action servicequotas:ListServiceQuotas"},
		{"EC2 has a code of its own, and an encoded message", answer("EC2", "CreateTags", "UnauthorizedOperation", "You are not authorized to perform this operation. Encoded authorization failure message: AbCd-123"),
			state.Retry, "AccessDenied", "the action ec2:CreateTags"},
		{"an explicit denial says that no permission helps", answer("IAM", "GetRole", "AccessDenied", "User: "+session+" is not authorized to perform: iam:GetRole on resource: role x with an explicit deny in a service control policy"),
			state.Retry, "AccessDenied", "iam:GetRole (an explicit deny in a service control policy takes it away)"},
		{"throttling of IAM", answer("IAM", "GetRole", "Throttling", "Rate exceeded"), state.Retry, "Throttled", "throttled"},
		{"throttling of SQS", answer("SQS", "GetQueueUrl", "RequestThrottled", ""), state.Retry, "Throttled", "throttled"},
		{"throttling of EC2", answer("EC2", "DescribeSubnets", "RequestLimitExceeded", ""), state.Retry, "Throttled", "throttled"},
		{"throttling of EKS", answer("EKS", "DescribeCluster", "TooManyRequestsException", ""), state.Retry, "Throttled", "throttled"},
		{"a queue's name that is not free yet", answer("SQS", "CreateQueue", "AWS.SimpleQueueService.QueueDeletedRecently", ""), state.Wait, "QueueDeletedRecently", "60 seconds"},
		{"an invalid parameter is the repository's", answer("SQS", "CreateQueue", "InvalidAttributeValue", "KmsMasterKeyId is wrong"), state.Fix, "Invalid", "KmsMasterKeyId is wrong"},
		{"a request of EC2 that lacks a parameter", answer("EC2", "CreateTags", "MissingParameter", "must contain ResourceId"), state.Fix, "Invalid", "must contain ResourceId"},
		{"a security group id that is none", answer("EC2", "CreateTags", "InvalidGroupId.Malformed", "Invalid id: sg1"), state.Fix, "Invalid", "Invalid id: sg1"},
		{"an invalid parameter that will pass is not", notYet(answer("EKS", "CreateAccessEntry", "InvalidParameterException", "no such role")), state.Wait, "NotYet", "no such role"},
		{"expired credentials", answer("SQS", "GetQueueUrl", "ExpiredToken", "x"), state.Retry, "CredentialsExpired", "expired"},
		{"wrong credentials", answer("SQS", "GetQueueUrl", "InvalidClientTokenId", "x"), state.Retry, "CredentialsInvalid", "does not accept the credentials"},
		{"no credentials", fmt.Errorf("get identity: %w", errCredentials), state.Retry, "NoCredentials", "no AWS credentials"},
		{"no answer in time", &smithy.OperationError{ServiceID: "SQS", OperationName: "GetQueueUrl", Err: context.DeadlineExceeded}, state.Retry, "Unreachable", "did not answer in time"},
		{"a service that is silent is named with its region", &calledError{service: "SQS", region: "eu-west-1", cause: errNoResponse}, state.Retry, "Unreachable", "SQS in eu-west-1 did not answer in time"},
		{"an address without a name is told", &calledError{service: "EKS", region: "eu-wst-1", cause: &url.Error{Op: "Post", URL: "https://eks.eu-wst-1.amazonaws.com/x?token=hunter2",
			Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}}},
			state.Retry, "Unreachable", "EKS in eu-wst-1 (eks.eu-wst-1.amazonaws.com) could not be reached: its name is unknown: check spec.region"},
		{"a refused connection is told", &calledError{service: "EKS", region: "eu-west-1", cause: &url.Error{Op: "Post", URL: "http://127.0.0.1:1/", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}},
			state.Retry, "Unreachable", "EKS in eu-west-1 (127.0.0.1:1) could not be reached: connection refused"},
		{"a wrong signature may be a wrong region", &calledError{service: "STS", region: "eu-west-2", cause: answer("STS", "GetCallerIdentity", "SignatureDoesNotMatch", "x")}, state.Retry, "CredentialsInvalid", "whether spec.region eu-west-2 is right"},
		{"anything else keeps its code", answer("EKS", "UpdateClusterConfig", "ResourceInUseException", "an update is in progress"), state.Retry, "Refused", "ResourceInUseException: an update is in progress"},
		{"an error of our own", errors.New("reading queue: no number"), state.Retry, "Failed", "no number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := failed("reading it", "role poolwright", tt.err)
			class, reason, _ := state.Classify(err)
			if class != tt.class || reason != tt.word || !strings.Contains(err.Error(), tt.says) || !strings.HasPrefix(err.Error(), "reading it: ") {
				t.Errorf("got %s %s: %v", class, reason, err)
			}
			for _, secret := range []string{"eks-pod-0123456789", "AbCd-123", "hunter2"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("leaks: %v", err)
				}
			}
		})
	}
	if err := failed("reading it", "", answer("STS", "GetCallerIdentity", "AccessDenied", "")); !strings.Contains(err.Error(), "give the caller the action sts:GetCallerIdentity") {
		t.Errorf("got %v", err)
	}
	if failed("x", "y", nil) != nil || notYet(nil) != nil {
		t.Error("nothing became an error")
	}
}

func TestWhatAWSSaysIsRepeatedWithoutSecrets(t *testing.T) {
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

func TestCallersAreNamedWithoutTheirSessions(t *testing.T) {
	for arn, want := range map[string]string{
		"arn:aws:sts::123456789012:assumed-role/poolwright-a/i-0123": "role poolwright-a",
		"arn:aws:iam::123456789012:user/ops/jane":                    "user jane",
		"arn:aws:iam::123456789012:root":                             "the caller",
		"":                                                           "the caller",
	} {
		if got := callerOf(arn); got != want {
			t.Errorf("%s: %q", arn, got)
		}
	}
}

func TestOnlyTheNamesOfReadsPassForReads(t *testing.T) {
	for _, name := range []string{"GetRole", "ListRules", "DescribeCluster"} {
		if !reads(name) {
			t.Errorf("%s is taken for a write", name)
		}
	}
	for _, name := range []string{"", "CreateRole", "PutRule", "TagResource", "AssociateAccessPolicy", "getRole"} {
		if reads(name) {
			t.Errorf("%s is taken for a read", name)
		}
	}
}

func TestProjectionShowsExactlyWhatIsAskedFor(t *testing.T) {
	type m = map[string]any
	wanted := m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}}
	tests := []struct {
		name string
		live m
		same bool
	}{
		{"the same", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}}, true},
		{"fields that nobody asks for", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}, "size": int64(3)}, true},
		{"others' tags", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra", "cost": "1"}}, true},
		{"a label too many", m{"retention": int64(300), "labels": m{"a": "b", "c": "d"}, "list": []any{"x"}, "tags": m{"team": "infra"}}, false},
		{"a tag that is gone", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{}}, false},
		{"a field that is gone", m{"labels": m{"a": "b"}, "list": []any{"x"}, "tags": m{"team": "infra"}}, false},
		{"a longer list", m{"retention": int64(300), "labels": m{"a": "b"}, "list": []any{"x", "y"}, "tags": m{"team": "infra"}}, false},
		{"nothing", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := satisfies(state.Item{Object: wanted}, liveResource{object: tt.live}); got != tt.same {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestEveryPartitionIsKnownByItsRegions(t *testing.T) {
	for region, want := range map[string]string{
		"eu-west-1": "aws", "us-east-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov", "us-iso-east-1": "aws-iso",
		"us-isob-east-1": "aws-iso-b", "eu-isoe-west-1": "aws-iso-e", "us-isof-south-1": "aws-iso-f", "eusc-de-east-1": "aws-eusc",
	} {
		if got := iampolicy.PartitionOf(region); got != want {
			t.Errorf("%s is in %s", region, got)
		}
	}
}

func TestARequestThatAWSRefusesIsNoProofThatSomethingIsGone(t *testing.T) {
	for _, code := range []string{
		"ValidationError", "ValidationException", "MissingParameter", "InvalidParameterException", "InvalidParameterValue", "InvalidGroupId.Malformed",
		"InvalidAMIID.Malformed", "InvalidAddress", "MalformedPolicyDocument", "UnknownParameter", "InvalidAction", "UnknownOperationException",
	} {
		if gone(answer("IAM", "GetRole", code, "1 validation error detected")) {
			t.Errorf("%s is read as gone", code)
		}
	}
	for _, code := range []string{"NoSuchEntity", "ResourceNotFoundException", "AWS.SimpleQueueService.NonExistentQueue", "InvalidGroup.NotFound"} {
		if !gone(answer("IAM", "GetRole", code, "it is not there")) {
			t.Errorf("%s is not read as gone", code)
		}
	}
}
