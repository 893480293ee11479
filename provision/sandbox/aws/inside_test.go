package aws

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

func TestAddressesGoRoundPastThoseInUse(t *testing.T) {
	s := newSubnet(0, catalog.Zone{}, netip.MustParsePrefix("10.9.0.0/28"), false, nil)
	if s.free != 11 {
		t.Fatalf("a /28 has %d free addresses, want 11", s.free)
	}
	used := map[netip.Addr]bool{}
	inUse := func(a netip.Addr) bool { return used[a] }
	for range 11 {
		a := s.take(1, inUse)
		if used[a] || !s.cidr.Contains(a) {
			t.Fatalf("address %s", a)
		}
		used[a] = true
	}
	if s.free != 0 || used[netip.MustParseAddr("10.9.0.3")] || used[netip.MustParseAddr("10.9.0.15")] {
		t.Errorf("%d free; given out: %v", s.free, used)
	}
	back := netip.MustParseAddr("10.9.0.9")
	delete(used, back)
	s.free++
	if a := s.take(1, inUse); a != back {
		t.Errorf("the only free address is %s, got %s", back, a)
	}
}

func TestTheIssuerIsInItsPartition(t *testing.T) {
	for region, want := range map[string][2]string{
		"us-east-1":     {"https://oidc.eks.us-east-1.amazonaws.com/id/", "arn:aws:iam::1:oidc-provider/oidc."},
		"cn-north-1":    {"https://oidc.eks.cn-north-1.amazonaws.com.cn/id/", "arn:aws-cn:iam::1:oidc-provider/oidc."},
		"us-gov-west-1": {"https://oidc.eks.us-gov-west-1.amazonaws.com/id/", "arn:aws-us-gov:iam::1:oidc-provider/oidc."},
	} {
		c := &Cloud{account: &api.Account{Region: region, ID: "1"}}
		if !strings.HasPrefix(c.issuer(), want[0]) || !strings.HasPrefix(c.providerARN(), want[1]) {
			t.Errorf("%s: issuer %s, provider %s", region, c.issuer(), c.providerARN())
		}
	}
}

// TestTheTablesAreComplete holds the list of operations that the engine calls:
// one that is dropped from a table would only show at run time.
func TestTheTablesAreComplete(t *testing.T) {
	cloud, err := New(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for service, operations := range map[string][]string{
		"ec2": {"CreateFleet", "CreateLaunchTemplate", "CreateTags", "DeleteLaunchTemplate", "DeleteTags", "DescribeCapacityReservations", "DescribeImages",
			"DescribeInstanceStatus", "DescribeInstanceTypeOfferings", "DescribeInstanceTypes", "DescribeInstances", "DescribeLaunchTemplates",
			"DescribePlacementGroups", "DescribeSecurityGroups", "DescribeSpotPriceHistory", "DescribeSubnets", "RunInstances", "TerminateInstances",
			"CancelCapacityReservation", "CopyImage", "CreateCapacityReservation", "CreateInterruptibleCapacityReservationAllocation", "CreatePlacementGroup",
			"CreateSecurityGroup", "DeletePlacementGroup", "DeleteSecurityGroup", "DescribeAvailabilityZones", "DescribeInstanceAttribute",
			"DescribeNetworkInterfaces", "DescribeSpotInstanceRequests", "DescribeVolumes", "EnableImageDeprecation", "ModifySubnetAttribute", "StopInstances"},
		"iam": {"AddRoleToInstanceProfile", "AttachRolePolicy", "CreateInstanceProfile", "CreatePolicy", "CreatePolicyVersion", "CreateRole",
			"DeleteInstanceProfile", "DeletePolicy", "DeletePolicyVersion", "DeleteRole", "DeleteRolePermissionsBoundary", "DeleteRolePolicy",
			"DetachRolePolicy", "GetInstanceProfile", "GetOpenIDConnectProvider", "GetPolicy", "GetPolicyVersion", "GetRole", "GetRolePolicy",
			"ListAttachedRolePolicies", "ListInstanceProfileTags", "ListInstanceProfiles", "ListInstanceProfilesForRole", "ListOpenIDConnectProviders",
			"ListPolicyTags", "ListPolicyVersions", "ListRolePolicies", "ListRoleTags", "ListRoles", "PutRolePermissionsBoundary", "PutRolePolicy",
			"RemoveRoleFromInstanceProfile", "TagInstanceProfile", "TagPolicy", "TagRole", "UntagInstanceProfile", "UntagPolicy", "UntagRole",
			"UpdateAssumeRolePolicy", "UpdateRole"},
		"eks": {"CreateAccessEntry", "CreatePodIdentityAssociation", "DeleteAccessEntry", "DeletePodIdentityAssociation", "DescribeAccessEntry",
			"DescribeAddon", "DescribeCluster", "DescribeNodegroup", "DescribePodIdentityAssociation", "DescribeUpdate", "ListAccessEntries",
			"ListAddons", "ListClusters", "ListNodegroups", "ListPodIdentityAssociations", "ListTagsForResource", "TagResource", "UntagResource", "UpdateAccessEntry",
			"UpdateClusterConfig", "UpdateNodegroupConfig", "UpdatePodIdentityAssociation"},
		"sts": {"GetCallerIdentity"}, "ssm": {"GetParameter", "GetParametersByPath"}, "pricing": {"GetProducts"},
		"sqs": {"CreateQueue", "DeleteMessage", "DeleteQueue", "GetQueueAttributes", "GetQueueUrl", "ListQueueTags", "ListQueues", "ReceiveMessage",
			"SendMessage", "SetQueueAttributes", "TagQueue", "UntagQueue"},
		"events": {"DeleteRule", "DescribeRule", "DisableRule", "EnableRule", "ListRuleNamesByTarget", "ListRules", "ListTagsForResource",
			"ListTargetsByRule", "PutRule", "PutTargets", "RemoveTargets", "TagResource", "UntagResource"},
		"logs": {"CreateLogGroup", "DeleteLogGroup", "DeleteRetentionPolicy", "DescribeLogGroups", "ListTagsForResource", "PutRetentionPolicy",
			"TagResource", "UntagResource"},
		"servicequotas": {"GetServiceQuota", "ListAWSDefaultServiceQuotas", "ListServiceQuotas"}, "arc-zonal-shift": {"GetManagedResource"},
	} {
		if have := len(cloud.services[service].ops); have != len(operations) {
			t.Errorf("%s has %d operations, want %d", service, have, len(operations))
		}
		for _, o := range operations {
			if cloud.services[service].ops[o].run == nil {
				t.Errorf("%s has no %s", service, o)
			}
		}
	}
}

// Model lets tests from outside read the tables: the parameters of each service's
// operations, and the members that each requires.
func (c *Cloud) Model() (params, lacking map[string]map[string][]string) {
	params, lacking = map[string]map[string][]string{}, map[string]map[string][]string{}
	for name, s := range c.services {
		params[name] = map[string][]string{}
		for op, o := range s.ops {
			params[name][op] = o.params
		}
		lacking[name] = s.required
	}
	return params, lacking
}

// Named lets tests from outside know the service and operation of a request, with
// its body.
func (c *Cloud) Named(r *http.Request, body []byte) (service, op string) {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	in := c.read(again)
	return in.svc.name, in.Op
}
