package aws_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
)

// wantMalformed wants IAM's refusal of a document, with a part of its message;
// "" wants none.
func wantMalformed(t *testing.T, err error, message string) {
	t.Helper()
	if message == "" {
		ok(t, err)
		return
	}
	var malformed *iamtypes.MalformedPolicyDocumentException
	if !errors.As(err, &malformed) || !strings.Contains(malformed.ErrorMessage(), message) {
		t.Errorf("%v, want MalformedPolicyDocument: %s", err, message)
	}
}

func TestIAMEvaluatesTheElementsOfAPolicy(t *testing.T) {
	const vendor, syntax = "must be prefaced by a vendor", "Syntax errors in policy."
	statement := func(elements string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",` + elements + `}]}`
	}
	for name, tt := range map[string]struct{ document, message string }{
		"an action of a service":               {statement(`"Action":["s3:Get*","ec2:*"],"Resource":"*"`), ""},
		"an action without its service":        {statement(`"Action":"s3","Resource":"*"`), vendor},
		"an action with two colons":            {statement(`"Action":"s3:Get:Object","Resource":"*"`), "one colon"},
		"an action of a service with a star":   {statement(`"Action":"s*:GetObject","Resource":"*"`), "Vendor s* is not valid"},
		"an exempt action without its service": {statement(`"NotAction":"s3","Resource":"*"`), vendor},
		"an action that is a number":           {statement(`"Action":5,"Resource":"*"`), syntax},
		"no action in a list":                  {statement(`"Action":[],"Resource":"*"`), "must contain actions"},
		"actions and exempt actions":           {statement(`"Action":"s3:*","NotAction":"ec2:*","Resource":"*"`), syntax},
		"a resource that is no ARN":            {statement(`"Action":"*","Resource":"nope"`), "Resource nope must be in ARN format"},
		"an exempt resource that is no ARN":    {statement(`"Action":"*","NotResource":["nope"]`), "Resource nope must be in ARN format"},
		"a resource of another partition":      {statement(`"Action":"*","Resource":"arn:nope:s3:::b"`), `Partition "nope" is not valid`},
		"a resource without service":           {statement(`"Action":"*","Resource":"arn:aws::::b"`), "vendor must be fully qualified"},
		"a resource that ends early":           {statement(`"Action":"*","Resource":"arn:aws:s3"`), "legacy parsing"},
		"a resource with a variable":           {statement(`"Action":"*","Resource":"arn:aws:s3:::b/${aws:username}"`), ""},
		"a condition of all kinds":             {statement(`"Action":"*","Resource":"*","Condition":{"ForAllValues:StringEquals":{"aws:TagKeys":["a"]},"Null":{"aws:a":"true"},"ArnLikeIfExists":{"aws:b":"*"}}`), ""},
		"a condition of an unknown operator":   {statement(`"Action":"*","Resource":"*","Condition":{"StringIs":{"aws:a":"b"}}`), syntax},
		"a condition key without service":      {statement(`"Action":"*","Resource":"*","Condition":{"StringEquals":{"a":"b"}}`), vendor},
		"two statements of one id":             {`{"Statement":[{"Sid":"a","Effect":"Allow","Action":"*","Resource":"*"},{"Sid":"a","Effect":"Deny","Action":"s3:*","Resource":"*"}]}`, "must be unique"},
		"two statements of no id":              {`{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Sid":"","Effect":"Deny","Action":"s3:*","Resource":"*"}]}`, ""},
		"an id with a blank":                   {statement(`"Sid":"a b","Action":"*","Resource":"*"`), "must be alpha-numeric"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, nil)
			wantMalformed(t, drop(w.iam.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: sdk.String("p"), PolicyDocument: &tt.document})), tt.message)
			w.role(t, "holder")
			wantMalformed(t, drop(w.iam.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: sdk.String("holder"), PolicyName: sdk.String("p"), PolicyDocument: &tt.document})), tt.message)
		})
	}
}

func TestIAMEvaluatesThePrincipalsOfATrust(t *testing.T) {
	for principal, message := range map[string]string{
		`{"Service":"ec2.amazonaws.com"}`:                               "",
		`{"Service":["pods.eks.amazonaws.com","eks.amazonaws.com"]}`:    "",
		`{"Service":"logs.us-east-1.amazonaws.com"}`:                    "",
		`{"Service":"nope"}`:                                            `Invalid principal in policy: "SERVICE":"nope"`,
		`{"Service":"nope.amazonaws.com"}`:                              `"SERVICE":"nope.amazonaws.com"`,
		`{"Service":["ec2.amazonaws.com","ec2.amazonaws.org"]}`:         `"SERVICE":"ec2.amazonaws.org"`,
		`{"Service":[]}`:                                                "Invalid principal in policy.",
		`{"Machine":"ec2.amazonaws.com"}`:                               "Invalid principal in policy.",
		`{"AWS":"111111111111"}`:                                        "",
		`{"AWS":["arn:aws:iam::111111111111:root","*"]}`:                "",
		`{"AWS":"nobody"}`:                                              `"AWS":"nobody"`,
		`{"AWS":"arn:aws:iam::111:role/x"}`:                             `"AWS":"arn:aws:iam::111:role/x"`,
		`{"Federated":"arn:aws:iam::000000000000:oidc-provider/x.y/z"}`: "",
		`{"Federated":"nope"}`:                                          `"FEDERATED":"nope"`,
	} {
		t.Run(principal, func(t *testing.T) {
			w := newFixture(t, nil)
			doc := `{"Statement":{"Effect":"Allow","Principal":` + principal + `,"Action":"sts:AssumeRole"}}`
			wantMalformed(t, drop(w.iam.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: sdk.String("r"), AssumeRolePolicyDocument: &doc})), message)
			w.role(t, "other")
			wantMalformed(t, drop(w.iam.UpdateAssumeRolePolicy(t.Context(), &iam.UpdateAssumeRolePolicyInput{RoleName: sdk.String("other"), PolicyDocument: &doc})), message)
		})
	}
}

func TestOnlyARolesTagKeysIgnoreCase(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"a role":              {"department": "hr"},
		"an instance profile": {"Department": "finance", "department": "hr"},
		"a policy":            {"Department": "finance", "department": "hr"},
	} {
		t.Run(name, func(t *testing.T) {
			w, ctx := newFixture(t, nil), t.Context()
			w.role(t, "x")
			w.boundary(t)
			ok(t, drop(w.iam.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String("x")})))
			all := taggables()
			tt := all[slices.IndexFunc(all, func(tt taggable) bool { return tt.name == name })]
			ok(t, tt.tag(ctx, w, "Department", "finance"))
			ok(t, tt.tag(ctx, w, "department", "hr"))
			got, err := tt.list(ctx, w)
			ok(t, err)
			if diff := cmp.Diff(want, tagMap(got)); diff != "" {
				t.Error(diff)
			}
			if twice := tt.tag(ctx, w, "d", "1", "D", "2"); (twice == nil) != (name != "a role") {
				t.Errorf("a key given twice, but for case: %v", twice)
			}
			ok(t, tt.untag(ctx, w, "DEPARTMENT"))
			got, err = tt.list(ctx, w)
			ok(t, err)
			if _, left := tagMap(got)["department"]; left != (name != "a role") {
				t.Errorf("after untagging it by another case: %v", tagMap(got))
			}
		})
	}
}

func TestAPolicyOfAWSHasAnIDAndDates(t *testing.T) {
	w := newFixture(t, nil)
	out, err := w.iam.GetPolicy(t.Context(), &iam.GetPolicyInput{PolicyArn: sdk.String(driver)})
	ok(t, err)
	p := out.Policy
	if len(sdk.ToString(p.PolicyId)) != 21 || p.CreateDate == nil || p.UpdateDate == nil || *p.Path != "/service-role/" || *p.PolicyName != "AmazonEBSCSIDriverPolicy" {
		t.Errorf("%+v", p)
	}
}

func TestAnEventPatternHasABound(t *testing.T) {
	w := newFixture(t, nil)
	pattern := func(n int) *string {
		text := `{"source":["aws.ec2"],"detail-type":["` + strings.Repeat("x", n-len(`{"source":["aws.ec2"],"detail-type":[""]}`)) + `"]}`
		return &text
	}
	put := func(n int) error {
		return drop(w.bridge().PutRule(t.Context(), &eventbridge.PutRuleInput{Name: sdk.String("r"), EventPattern: pattern(n)}))
	}
	ok(t, put(4096))
	var api smithy.APIError
	if err := put(4097); !errors.As(err, &api) || api.ErrorCode() != "ValidationException" {
		t.Errorf("a pattern of 4097 characters: %v", err)
	}
}
