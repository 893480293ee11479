package probe

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/cmd/internal/check"
	"github.com/poolwright/poolwright/cmd/internal/installation"
	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/provision/sandbox/aws/policy"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

const (
	home    = "poolwright-system"
	account = "111122223333"
	role    = "arn:aws:iam::111122223333:role/poolwright"
	token   = "s3cret-token"
)

// expected is a result: its status, and parts of its object, message and remedy.
type expected struct {
	status                  check.Status
	object, message, remedy string
}

// compare checks results, and that none repeats a secret.
func compare(t *testing.T, want []expected, got []check.Result) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d: %+v", len(got), len(want), got)
	}
	for i, r := range got {
		w := want[i]
		if r.Status != w.status || !strings.Contains(r.Object, w.object) || !strings.Contains(r.Message, w.message) || !strings.Contains(r.Remedy, w.remedy) {
			t.Errorf("result %d is %+v, want %+v", i, r, w)
		}
		if strings.Contains(r.Message+r.Remedy, token) {
			t.Errorf("result %d repeats the token: %+v", i, r)
		}
	}
}

func probing(t *testing.T, objects ...client.Object) *prober {
	t.Helper()
	return &prober{kube: reconcilertest.InstalledClient(t, objects...), namespace: home, now: time.Now, perSync: 10 * time.Second}
}

// denying refuses to return Secrets.
func denying(p *prober) *prober {
	inner, _ := p.kube.(client.WithWatch)
	p.kube = interceptor.NewClient(inner, interceptor.Funcs{Get: func(ctx context.Context, in client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, is := o.(*corev1.Secret); is {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no permission"))
		}
		return in.Get(ctx, key, o, options...)
	}})
	return p
}

func theCluster() *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}, Spec: v1alpha1.ClusterSpec{Name: "dev", Region: "eu-west-1", Account: account, Engine: v1alpha1.EngineSpec{Mode: v1alpha1.EngineEmbedded, InterruptionQueue: "dev"}}}
}

func serviceAccount(role string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: installation.Deployment, Annotations: map[string]string{installation.RoleAnnotation: role}}}
}

func secret(name string, keys ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}, Data: map[string][]byte{}}
	for _, key := range keys {
		s.Data[key] = []byte(token)
	}
	return s
}

func syncOf(name, url string, change ...func(*v1alpha1.Sync)) *v1alpha1.Sync {
	s := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name}}
	s.Spec.Source.Git.URL = url
	for _, c := range change {
		c(s)
	}
	return s
}

func withSecret(s *v1alpha1.Sync) { s.Spec.Source.Git.SecretRef = &v1alpha1.SecretRef{Name: "git"} }

func withPulls(s *v1alpha1.Sync) {
	s.Spec.PullRequests = &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitea, SecretRef: v1alpha1.SecretRef{Name: "forge"}}
}

func TestBeforeAnInstallationOnlyAWSIsProbed(t *testing.T) {
	for pre, want := range map[bool][]string{
		true:  {"aws-identity", "aws-spot-role"},
		false: {"aws-identity", "aws-permissions", "git", "forge"},
	} {
		var names []string
		for _, c := range Checks(check.Request{Pre: pre}) {
			names = append(names, c.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("pre %t: %v", pre, names)
		}
	}
}

// fakeAWS emulates the APIs that are probed; an empty caller has no valid credentials.
type fakeAWS struct {
	caller       string
	associations string
	denied       string
	noSimulation bool
	noSpotRole   bool
}

func (a fakeAWS) start(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": token, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
	} {
		t.Setenv(name, value)
	}
}

func (a fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	respond := func(status int, body string) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
	if strings.HasPrefix(r.URL.Path, "/clusters/dev/pod-identity-associations") {
		if strings.HasSuffix(r.URL.Path, "/a-1") {
			respond(200, `{"association":{"roleArn":"`+role+`"}}`)
			return
		}
		respond(200, `{"associations":[`+a.associations+`]}`)
		return
	}
	const refused = `<ErrorResponse><Error><Code>AccessDenied</Code><Message>not permitted</Message></Error></ErrorResponse>`
	switch r.FormValue("Action") {
	case "GetCallerIdentity":
		if a.caller == "" {
			respond(403, refused)
			return
		}
		respond(200, `<R><GetCallerIdentityResult><Arn>arn:aws:iam::`+a.caller+`:user/ada</Arn><Account>`+a.caller+`</Account></GetCallerIdentityResult></R>`)
	case "GetRole":
		if a.noSpotRole {
			respond(404, strings.Replace(refused, "AccessDenied", "NoSuchEntity", 1))
			return
		}
		respond(200, `<R><GetRoleResult><Role><RoleName>r</RoleName></Role></GetRoleResult></R>`)
	case "SimulatePrincipalPolicy":
		if a.noSimulation || r.FormValue("PolicySourceArn") != role {
			respond(403, refused)
			return
		}
		var results strings.Builder
		for i := 1; ; i++ {
			action, decision := r.FormValue("ActionNames.member."+strconv.Itoa(i)), "allowed"
			if action == "" {
				break
			}
			if action == a.denied {
				decision = "implicitDeny"
			}
			results.WriteString("<member><EvalActionName>" + action + "</EvalActionName><EvalDecision>" + decision + "</EvalDecision></member>")
		}
		respond(200, `<R><SimulatePrincipalPolicyResult><EvaluationResults>`+results.String()+`</EvaluationResults></SimulatePrincipalPolicyResult></R>`)
	default:
		respond(501, refused)
	}
}

func TestTheIdentityIsThatOfTheClustersAccount(t *testing.T) {
	for name, c := range map[string]struct {
		aws  fakeAWS
		has  []client.Object
		want expected
	}{
		"the account":         {fakeAWS{caller: account}, []client.Object{theCluster()}, expected{check.OK, "", "arn:aws:iam::111122223333:user/ada", ""}},
		"before a Cluster":    {fakeAWS{caller: account}, nil, expected{check.OK, "", "in account 111122223333", ""}},
		"another account":     {fakeAWS{caller: "444455556666"}, []client.Object{theCluster()}, expected{check.Warning, "", "of account 444455556666", "AWS_PROFILE"}},
		"refused credentials": {fakeAWS{}, []client.Object{theCluster()}, expected{check.Failed, "", "not permitted", "log in"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.aws.start(t)
			compare(t, []expected{c.want}, probing(t, c.has...).identity(t.Context()))
		})
	}
}

func TestWithoutCredentialsNothingOfAWSIsProbed(t *testing.T) {
	fakeAWS{caller: account}.start(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	p := probing(t, theCluster(), serviceAccount(role))
	for _, run := range []func(context.Context) []check.Result{p.identity, p.permissions, p.spotRole} {
		compare(t, []expected{{check.Skipped, "", "no AWS credentials were found", ""}}, run(t.Context()))
	}
}

func TestThePermissionsAreThoseOfTheControllersRole(t *testing.T) {
	external := theCluster()
	external.Spec.Engine.Mode = v1alpha1.EngineExternal
	noQueue := theCluster()
	noQueue.Spec.Engine.InterruptionQueue = ""
	const association = `{"associationId":"a-1"}`
	for name, c := range map[string]struct {
		aws  fakeAWS
		has  []client.Object
		want expected
	}{
		"all by IRSA":         {fakeAWS{}, []client.Object{theCluster(), serviceAccount(role)}, expected{check.OK, "Cluster cluster", role, ""}},
		"all by Pod Identity": {fakeAWS{associations: association}, []client.Object{theCluster(), serviceAccount("")}, expected{check.OK, "", role, ""}},
		"one is denied": {fakeAWS{denied: "sqs:ReceiveMessage"}, []client.Object{theCluster(), serviceAccount(role)},
			expected{check.Failed, "", "may not: sqs:ReceiveMessage", "config/iam/engine.json"}},
		"one that is not needed is denied": {fakeAWS{denied: "sqs:ReceiveMessage"}, []client.Object{noQueue, serviceAccount(role)}, expected{check.OK, "", role, ""}},
		"no role":                          {fakeAWS{}, []client.Object{theCluster(), serviceAccount("")}, expected{check.Failed, "", "has no role", "bootstrap"}},
		"no permission to simulate":        {fakeAWS{noSimulation: true}, []client.Object{theCluster(), serviceAccount(role)}, expected{check.Skipped, "", "not permitted", "iam:SimulatePrincipalPolicy"}},
		"no engine":                        {fakeAWS{}, []client.Object{external, serviceAccount(role)}, expected{check.Skipped, "", "embedded engine", ""}},
		"no Cluster":                       {fakeAWS{}, nil, expected{check.Skipped, "", "embedded engine", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c.aws.start(t)
			compare(t, []expected{c.want}, probing(t, c.has...).permissions(t.Context()))
		})
	}
}

// What is simulated is what the shipped policies allow together, by the rules of IAM: a role that has them lacks nothing.
func TestTheShippedPoliciesAllowWhatIsSimulated(t *testing.T) {
	spec := theCluster().Spec
	permissions, err := enginePermissions(spec)
	if err != nil {
		t.Fatal(err)
	}
	values := iampolicy.Values{Partition: "aws", Region: spec.Region, Account: spec.Account, Cluster: spec.Name, NodeRole: "n", Queue: "dev"}
	var documents []policy.Document
	for _, write := range []func(iampolicy.Values) (string, error){iampolicy.Engine, iampolicy.Resources, iampolicy.Deny} {
		text, err := write(values)
		if err != nil {
			t.Fatal(err)
		}
		document, err := policy.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, document)
	}
	actions := map[string]bool{}
	for _, permission := range permissions {
		for _, action := range permission.Actions {
			actions[action] = slices.ContainsFunc(permission.Resources, func(resource string) bool {
				return policy.Evaluate(documents, nil, policy.Request{Action: action, Resource: resource, Context: map[string][]string{"aws:RequestedRegion": {spec.Region}}}).Allowed
			})
		}
	}
	for action, allowed := range actions {
		if !allowed {
			t.Errorf("%s is not allowed", action)
		}
	}
	for _, action := range []string{"ec2:DescribeInstanceTypes", "eks:DescribeCluster", "sqs:ReceiveMessage", "pricing:GetProducts", "iam:GetInstanceProfile"} {
		if !actions[action] {
			t.Errorf("%s is not simulated", action)
		}
	}
}

func TestTheSpotRoleIsTheAccounts(t *testing.T) {
	fakeAWS{}.start(t)
	compare(t, []expected{{check.OK, "", "has the role AWSServiceRoleForEC2Spot", ""}}, probing(t).spotRole(t.Context()))
	fakeAWS{noSpotRole: true}.start(t)
	compare(t, []expected{{check.Warning, "", "has no role", "create-service-linked-role"}}, probing(t).spotRole(t.Context()))
}
