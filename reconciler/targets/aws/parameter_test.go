package aws

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

const (
	standardImage = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/standard/recommended/image_id"
	nvidiaImage   = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
	endedImage    = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2/recommended/image_id"
)

// parameters starts an account and leads ReadParameters to it.
func parameters(t *testing.T) (*sandboxaws.Cloud, func(names ...string) (map[string]Parameter, error)) {
	t.Helper()
	cfg := sandboxaws.DefaultConfig()
	cfg.Delays.Response = 0
	cloud, err := sandboxaws.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	load := func(_ context.Context, region string) (sdk.Config, error) {
		out := kindtest.SDKConfig(server, region)
		out.RetryMaxAttempts = 2
		return out, nil
	}
	return cloud, func(names ...string) (map[string]Parameter, error) {
		return ReadParameters(t.Context(), load, cfg.Region, names)
	}
}

func TestPublicParametersAreRead(t *testing.T) {
	cloud, read := parameters(t)
	first, err := read(standardImage, nvidiaImage)
	if err != nil || len(first) != 2 || first[standardImage].Value == first[nvidiaImage].Value || !strings.HasPrefix(first[nvidiaImage].Value, "ami-") {
		t.Fatal(first, err)
	}
	if err := cloud.Publish("v20261120"); err != nil {
		t.Fatal(err)
	}
	second, err := read(standardImage)
	if err != nil || second[standardImage].Value == first[standardImage].Value || second[standardImage].Version != first[standardImage].Version+1 {
		t.Errorf("%v, then %v: %v", first[standardImage], second, err)
	}
}

func TestTheErrorOfAParameterNamesItAndTheRemedy(t *testing.T) {
	tests := []struct {
		name          string
		fault         sandboxaws.Fault
		desiredCalled []string
		class         state.FailureClass
		reason        string
		message       []string
	}{
		{name: "one that does not exist is the Sync's problem", desiredCalled: []string{endedImage},
			class: state.Stalled, reason: "ParameterNotFound", message: []string{"SSM parameter " + endedImage + " does not exist in us-east-1", "spec.substituteFrom"}},
		{name: "one of the account's own is never requested", desiredCalled: []string{"/prod/database/password"},
			class: state.Stalled, reason: "InvalidParameter", message: []string{"/prod/database/password", "/aws/service/"}},
		{name: "a denied one names the permission", desiredCalled: []string{nvidiaImage}, fault: sandboxaws.Fault{Service: "ssm", Code: "AccessDeniedException", Message: "no"},
			class: state.Retry, reason: "AccessDenied", message: []string{nvidiaImage, "ssm:GetParameter"}},
		{name: "a throttled one is tried again later", desiredCalled: []string{nvidiaImage}, fault: sandboxaws.Fault{Service: "ssm", Throttle: true},
			class: state.Retry, reason: "Throttled", message: []string{nvidiaImage, "throttled"}},
		{name: "a failure of AWS is tried again later", desiredCalled: []string{nvidiaImage}, fault: sandboxaws.Fault{Service: "ssm", Code: "InternalServerError", Status: 500},
			class: state.Retry, reason: "ServiceError", message: []string{nvidiaImage, "InternalServerError"}},
		{name: "the problem decides where one is wrong and another is denied", desiredCalled: []string{nvidiaImage, endedImage},
			fault: sandboxaws.Fault{Service: "ssm", Code: "AccessDeniedException", Message: "no", Match: "nvidia"},
			class: state.Stalled, reason: "ParameterNotFound", message: []string{nvidiaImage, endedImage}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cloud, read := parameters(t)
			if tt.fault.Service != "" {
				if _, err := cloud.Inject(tt.fault); err != nil {
					t.Fatal(err)
				}
			}
			got, err := read(tt.desiredCalled...)
			class, reason, _ := state.Classify(err)
			if err == nil || len(got) > 0 || class != tt.class || reason != tt.reason {
				t.Fatalf("%v, class %s, reason %s: %v", got, class, reason, err)
			}
			for _, texts := range tt.message {
				if !strings.Contains(err.Error(), texts) {
					t.Errorf("%q does not say %q", err, texts)
				}
			}
		})
	}
}

func TestWhatCouldBeReadIsReturnedBesideTheError(t *testing.T) {
	_, read := parameters(t)
	got, err := read(endedImage, nvidiaImage)
	if err == nil || len(got) != 1 || got[nvidiaImage].Value == "" {
		t.Errorf("%v: %v", got, err)
	}
}

func TestAThrottledParameterIsReadAtTheSecondAttempt(t *testing.T) {
	cloud, read := parameters(t)
	if _, err := cloud.Inject(sandboxaws.Fault{Service: "ssm", Throttle: true, Times: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := read(nvidiaImage); err != nil || got[nvidiaImage].Value == "" {
		t.Errorf("%v: %v", got, err)
	}
}

func TestParametersOfAnAccountThatCannotBeReached(t *testing.T) {
	load := func(context.Context, string) (sdk.Config, error) {
		return sdk.Config{}, errors.New("AWS_ENDPOINT_URL is wrong")
	}
	got, err := ReadParameters(t.Context(), load, "us-east-1", []string{nvidiaImage})
	if class, reason, _ := state.Classify(err); len(got) > 0 || err == nil || class != state.Retry || reason != "AWSConfig" || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL") {
		t.Errorf("%v: %v", got, err)
	}
}

// The policies that bootstrap attaches are enough, and allow nothing of the account's own.
func TestTheControllersPoliciesAllowPublicParametersOnly(t *testing.T) {
	cloud, read := parameters(t)
	cfg := sandboxaws.DefaultConfig()
	text, err := iampolicy.Engine(iampolicy.Values{Partition: "aws", Region: cfg.Region, Account: cfg.Account, Cluster: cfg.Cluster.Name, NodeRole: "nodes", InstanceProfile: "nodes", Queue: "queue"})
	if err != nil {
		t.Fatal(err)
	}
	document, err := policy.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	lift := cloud.Restrict("EMULATED", []policy.Document{document}, nil)
	got, err := read(standardImage, nvidiaImage)
	if err != nil || len(got) != 2 {
		t.Errorf("with the controller's policies: %v: %v", got, err)
	}
	lift()
	cloud.Restrict("EMULATED", nil, nil)
	if _, err := read(standardImage); err == nil || cmp.Diff("AccessDenied", reasonOf(err)) != "" {
		t.Errorf("without any: %v", err)
	}
}

func reasonOf(err error) string {
	_, reason, _ := state.Classify(err)
	return reason
}
