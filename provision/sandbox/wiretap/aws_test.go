package wiretap

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/trace"
)

func TestRequestsToAWSAreNamedByOperationAndService(t *testing.T) {
	for _, c := range []struct {
		name, service, method, path, target, content string
		want                                         trace.Request
	}{
		{"a launch", "ec2", "POST", "/", "", "Action=CreateFleet&Version=2016-11-15&Type=instant", trace.Request{Verb: "CreateFleet", Kind: "ec2"}},
		{"a dry run is none", "ec2", "POST", "/", "", "Action=CreateFleet&DryRun=true", trace.Request{Verb: "CreateFleet", Kind: "ec2", DryRun: true}},
		{"a termination is of instances", "ec2", "POST", "/", "", "Action=TerminateInstances&InstanceId.1=i-00123456789abcdef&InstanceId.2=i-0fedcba9876543210",
			trace.Request{Verb: "TerminateInstances", Kind: "ec2", Instances: []string{"i-00123456789abcdef", "i-0fedcba9876543210"}}},
		{"tags are an instance's", "ec2", "POST", "/", "", "Action=CreateTags&ResourceId.1=i-00123456789abcdef&Tag.1.Key=Name&Tag.1.Value=node",
			trace.Request{Verb: "CreateTags", Kind: "ec2", Name: "i-00123456789abcdef", Instances: []string{"i-00123456789abcdef"}}},
		{"a read has no instances", "ec2", "POST", "/", "", "Action=DescribeInstances&InstanceId.1=i-00123456789abcdef", trace.Request{Verb: "DescribeInstances", Kind: "ec2"}},
		{"a role", "iam", "POST", "/", "", "Action=AttachRolePolicy&RoleName=nodes&PolicyArn=arn%3Aaws%3Aiam%3A%3Aaws%3Apolicy%2FAmazonEKSWorkerNodePolicy",
			trace.Request{Verb: "AttachRolePolicy", Kind: "iam", Name: "nodes"}},
		{"a queue", "sqs", "POST", "/", "AmazonSQS.ReceiveMessage", `{"QueueUrl":"https://sqs.us-east-1.amazonaws.com/000000000000/sandbox"}`,
			trace.Request{Verb: "ReceiveMessage", Kind: "sqs", Name: "sandbox"}},
		{"a rule", "events", "POST", "/", "AWSEvents.PutTargets", `{"Rule":"poolwright-sandbox-Rebalance","Targets":[{"Id":"1"}]}`,
			trace.Request{Verb: "PutTargets", Kind: "events", Name: "poolwright-sandbox-Rebalance"}},
		{"EKS by its path", "eks", "GET", "/clusters/sandbox/access-entries", "", "", trace.Request{Verb: "ListAccessEntries", Kind: "eks", Name: "clusters/sandbox/access-entries"}},
		{"a request without a signature", "", "POST", "/", "", "Action=CreateFleet", trace.Request{Verb: "post", Kind: "unknown"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.content))
			if c.service != "" {
				r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/"+c.service+"/aws4_request, SignedHeaders=host, Signature=0")
			}
			if c.target != "" {
				r.Header.Set("X-Amz-Target", c.target)
			}
			c.want.Wire = trace.AWS
			if diff := cmp.Diff(c.want, awsRequest(r, []byte(c.content))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALaunchsResponseNamesItsInstances(t *testing.T) {
	const response = `<CreateFleetResponse><fleetInstanceSet><item><instanceIds><item>i-00123456789abcdef</item></instanceIds><x>i-00123456789abcdef</x></item></fleetInstanceSet></CreateFleetResponse>`
	got := completed(AWS(), trace.Request{Wire: trace.AWS, Verb: "CreateFleet"}, response)
	if diff := cmp.Diff([]string{"i-00123456789abcdef"}, got.Instances); diff != "" {
		t.Error(diff)
	}
}

func TestALaunchNamesTheOfferingsThatItRequestsAndThoseWithoutCapacity(t *testing.T) {
	const content = "Action=CreateFleet&TargetCapacitySpecification.DefaultTargetCapacityType=spot" +
		"&LaunchTemplateConfigs.1.Overrides.1.InstanceType=g4dn.xlarge&LaunchTemplateConfigs.1.Overrides.1.SubnetId=subnet-1" +
		"&LaunchTemplateConfigs.1.Overrides.2.InstanceType=g4dn.2xlarge&LaunchTemplateConfigs.1.Overrides.2.SubnetId=subnet-1" +
		"&LaunchTemplateConfigs.1.Overrides.3.InstanceType=g4dn.xlarge&LaunchTemplateConfigs.1.Overrides.3.SubnetId=subnet-2"
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(content))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0")
	q := awsRequest(r, []byte(content))
	if diff := cmp.Diff([]string{"g4dn.2xlarge in subnet-1, spot", "g4dn.xlarge in subnet-1, spot", "g4dn.xlarge in subnet-2, spot"}, q.Offerings); diff != "" {
		t.Error(diff)
	}
	refusal := func(code, kind, subnet string) string {
		return "<item><errorCode>" + code + "</errorCode><launchTemplateAndOverrides><overrides><instanceType>" + kind + "</instanceType><subnetId>" + subnet +
			"</subnetId></overrides></launchTemplateAndOverrides></item>"
	}
	response := "<CreateFleetResponse><errorSet>" + refusal("InsufficientInstanceCapacity", "g4dn.xlarge", "subnet-2") +
		refusal("VcpuLimitExceeded", "g4dn.2xlarge", "subnet-1") + refusal("InvalidLaunchTemplateName.NotFoundException", "g4dn.xlarge", "subnet-1") + "</errorSet></CreateFleetResponse>"
	if diff := cmp.Diff([]string{"g4dn.xlarge in subnet-2, spot", "g4dn.2xlarge in subnet-1, spot"}, completed(AWS(), q, response).Refused); diff != "" {
		t.Error(diff)
	}
	if got := completed(AWS(), q, "no response").Refused; got != nil {
		t.Errorf("what is no response refuses %v", got)
	}
}
