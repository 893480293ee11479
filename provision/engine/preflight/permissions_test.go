package preflight_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/engine/preflight"
)

// api responds to AWS's APIs.
type api func(r *http.Request, form url.Values) (int, string)

func (a api) Do(r *http.Request) (*http.Response, error) {
	var form url.Values
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if form, err = url.ParseQuery(string(raw)); err != nil {
			return nil, err
		}
	}
	status, body := a(r, form)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestTheCallerIsReadWithoutARegion(t *testing.T) {
	cfg := config(someone, api(func(*http.Request, url.Values) (int, string) {
		return 200, `<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::111122223333:user/ada</Arn><Account>111122223333</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
	}))
	cfg.Region = ""
	got, err := preflight.ReadCaller(t.Context(), cfg)
	if want := (preflight.Caller{Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/ada"}); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAPodIdentityRoleIsThatOfTheServiceAccount(t *testing.T) {
	for name, c := range map[string]struct {
		list, want string
		status     int
	}{
		"an association": {`{"associations":[{"associationId":"a-1"}]}`, "arn:aws:iam::111122223333:role/p", 200},
		"none":           {`{"associations":[]}`, "", 200},
		"denied":         {`{"message":"no"}`, "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			role, err := preflight.PodIdentityRole(t.Context(), config(someone, api(func(r *http.Request, _ url.Values) (int, string) {
				paths = append(paths, r.URL.Path+"?"+r.URL.Query().Get("serviceAccount"))
				if strings.HasSuffix(r.URL.Path, "/a-1") {
					return 200, `{"association":{"roleArn":"arn:aws:iam::111122223333:role/p"}}`
				}
				return c.status, c.list
			})), "dev", "poolwright-system", "poolwright")
			if role != c.want || (err != nil) != (c.status != 200) || paths[0] != "/clusters/dev/pod-identity-associations?poolwright" {
				t.Errorf("%q, %v, after %v", role, err, paths)
			}
		})
	}
}

const document = `{"Version":"2012-10-17","Statement":[
 {"Effect":"Allow","Action":["ec2:DescribeImages","servicequotas:List*Quotas"],"Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"eu-west-1"}}},
 {"Effect":"Allow","Action":"sqs:GetQueueUrl","Resource":"arn:aws:sqs:eu-west-1:111122223333:q"},
 {"Effect":"Allow","Action":["eks:DescribeCluster","ssm:GetParameter"],"Resource":["arn:a","arn:b"]},
 {"Effect":"Allow","Action":"ec2:RunInstances","Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/a":"b"}}},
 {"Effect":"Allow","Action":"ec2:CreateTags","Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"eu-west-1"},"Null":{"aws:TagKeys":"false"}}},
 {"Effect":"Deny","Action":"iam:CreateUser","Resource":"*"}]}`

func TestOnlyPermissionsThatASimulationDecidesAreSimulated(t *testing.T) {
	got, err := preflight.Permissions(document)
	want := []preflight.Permission{
		{Actions: []string{"ec2:DescribeImages"}, Resources: []string{"*"}},
		{Actions: []string{"sqs:GetQueueUrl"}, Resources: []string{"arn:aws:sqs:eu-west-1:111122223333:q"}},
		{Actions: []string{"eks:DescribeCluster", "ssm:GetParameter"}, Resources: []string{"arn:a", "arn:b"}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if _, err := preflight.Permissions("{"); err == nil {
		t.Error("half a document was read")
	}
}

// result is one of IAM's simulation.
func result(action, decision, specific string) string {
	text := "<member><EvalActionName>" + action + "</EvalActionName><EvalDecision>" + decision + "</EvalDecision>"
	if specific != "" {
		text += "<ResourceSpecificResults><member><EvalResourceName>arn:b</EvalResourceName><EvalResourceDecision>" + specific + "</EvalResourceDecision></member></ResourceSpecificResults>"
	}
	return text + "</member>"
}

func TestDeniedActionsAreThoseThatNoResourceAllows(t *testing.T) {
	permissions, err := preflight.Permissions(document)
	if err != nil {
		t.Fatal(err)
	}
	var requests []url.Values
	cfg := config(someone, api(func(_ *http.Request, form url.Values) (int, string) {
		requests = append(requests, form)
		results, more := result("eks:describecluster", "implicitDeny", "allowed")+result("ssm:GetParameter", "implicitDeny", "implicitDeny"), "<IsTruncated>false</IsTruncated>"
		switch {
		case form.Get("ActionNames.member.1") == "ec2:DescribeImages":
			results = result("ec2:DescribeImages", "allowed", "")
		case form.Get("ActionNames.member.1") == "sqs:GetQueueUrl" && form.Get("Marker") == "":
			results, more = "", "<IsTruncated>true</IsTruncated><Marker>m</Marker>"
		case form.Get("ActionNames.member.1") == "sqs:GetQueueUrl":
			results = result("sqs:GetQueueUrl", "explicitDeny", "")
		}
		return 200, "<SimulatePrincipalPolicyResponse><SimulatePrincipalPolicyResult><EvaluationResults>" + results + "</EvaluationResults>" + more + "</SimulatePrincipalPolicyResult></SimulatePrincipalPolicyResponse>"
	}))
	denied, n, err := preflight.DeniedActions(t.Context(), cfg, "arn:aws:iam::111122223333:role/p", permissions)
	if want := []string{"sqs:GetQueueUrl", "ssm:GetParameter"}; err != nil || n != 4 || !slices.Equal(denied, want) {
		t.Errorf("denied %v of %d, %v", denied, n, err)
	}
	first := requests[0]
	if first.Get("PolicySourceArn") != "arn:aws:iam::111122223333:role/p" || first.Get("ContextEntries.member.1.ContextKeyValues.member.1") != "eu-west-1" || requests[1].Get("ContextEntries.member.1.ContextKeyValues.member.1") != "eu-west-1" {
		t.Errorf("requests %v", requests)
	}
}

func TestASimulationThatIsNotPermittedIsAnError(t *testing.T) {
	cfg := config(someone, api(func(*http.Request, url.Values) (int, string) {
		return 403, `<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`
	}))
	denied, _, err := preflight.DeniedActions(t.Context(), cfg, "arn:aws:iam::111122223333:role/p", []preflight.Permission{{Actions: []string{"ec2:DescribeImages"}, Resources: []string{"*"}}})
	if err == nil || denied != nil {
		t.Errorf("%v, %v", denied, err)
	}
	if _, err := preflight.ReadCaller(t.Context(), config(someone, api(func(*http.Request, url.Values) (int, string) { return 403, "" }))); err == nil {
		t.Error("a caller was read")
	}
}
