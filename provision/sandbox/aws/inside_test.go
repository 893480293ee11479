package aws

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

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
			"RemoveRoleFromInstanceProfile", "SimulatePrincipalPolicy", "TagInstanceProfile", "TagPolicy", "TagRole", "UntagInstanceProfile", "UntagPolicy", "UntagRole",
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
		if have := len(cloud.services[service].table.Operations); have != len(operations) {
			t.Errorf("%s has %d operations, want %d", service, have, len(operations))
		}
		for _, o := range operations {
			if cloud.services[service].table.Operations[o].Run == nil {
				t.Errorf("%s has no %s", service, o)
			}
		}
	}
}

// Model lets tests from outside read the tables: the parameters of each service's
// operations, and the members that each requires.
func (c *Cloud) Model() (params, missing map[string]map[string][]string) {
	params, missing = map[string]map[string][]string{}, map[string]map[string][]string{}
	for name, s := range c.services {
		params[name] = map[string][]string{}
		for op, o := range s.table.Operations {
			params[name][op] = o.Params
		}
		missing[name] = s.table.Required
	}
	return params, missing
}

// Named lets tests from outside know the service and operation of a request, with
// its body.
func (c *Cloud) Named(r *http.Request, body []byte) (service, op string) {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	in := read(c.services, again)
	return in.svc.name, in.Op
}
