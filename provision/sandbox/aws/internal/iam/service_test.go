package iam

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/query"
)

// still is a clock that stands.
type still struct{ now time.Time }

func (c still) Now() time.Time                                   { return c.now }
func (still) AfterFunc(time.Duration, func()) (stop func() bool) { return func() bool { return true } }

func newService(region string, visible time.Duration) *Service {
	account := &api.Account{ID: "1", Region: region, Cluster: "k", Clock: still{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, Delays: api.Delays{Visible: visible}}
	return New(account, Provider{}, []string{"node"}, map[string]string{"nodes": "node"})
}

func parsed(t *testing.T, form string) query.Form {
	t.Helper()
	f, err := query.Parse(form)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// do runs an operation with a form.
func do(t *testing.T, svc *Service, op, form string) {
	t.Helper()
	if _, err := svc.Table().Operations[op].Run(&api.Call{Op: op, Form: parsed(t, form), Now: svc.account.Clock.Now()}); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
}

func TestWhatIsNewIsFoundAfterAWhile(t *testing.T) {
	svc := newService("us-east-1", time.Minute)
	do(t, svc, "CreateRole", "RoleName=new&Path=/team/&AssumeRolePolicyDocument="+`{"Statement":{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}}`)
	do(t, svc, "CreateInstanceProfile", "InstanceProfileName=new")
	const arn = "arn:aws:iam::1:role/team/new"
	for at, want := range map[time.Duration]bool{0: false, time.Minute - 1: false, time.Minute: true} {
		now := svc.account.Clock.Now().Add(at)
		if role, profile := svc.RoleName(arn, now) == "new", svc.HasProfile("new", now); role != want || profile != want {
			t.Errorf("after %s the role is found: %v, the profile: %v", at, role, profile)
		}
	}
	if now := svc.account.Clock.Now(); svc.RoleName("arn:aws:iam::1:role/node", now) != "node" || !svc.HasProfile("nodes", now) {
		t.Error("what is there from the start is not found at once")
	}
}

func TestACopyKeepsWhatWasThere(t *testing.T) {
	svc := newService("us-east-1", 0)
	before := svc.Clone()
	do(t, svc, "TagRole", "RoleName=node&Tags.member.1.Key=a&Tags.member.1.Value=b")
	do(t, svc, "AttachRolePolicy", "RoleName=node&PolicyArn=arn:aws:iam::aws:policy/ReadOnlyAccess")
	do(t, svc, "RemoveRoleFromInstanceProfile", "InstanceProfileName=nodes&RoleName=node")
	do(t, svc, "CreateInstanceProfile", "InstanceProfileName=new")
	if r := before.roles["node"]; len(r.tags)+len(r.attached) != 0 || before.ProfileRole("nodes") != "node" || before.HasProfile("new", before.account.Clock.Now()) {
		t.Errorf("the copy has changed: role %+v, profiles %v", r, before.profiles)
	}
	if r := svc.roles["node"]; len(r.tags) != 1 || len(r.attached) != 1 || svc.ProfileRole("nodes") != "" || svc.ProfileRole("none") != "" {
		t.Errorf("role %+v, profile's role %q", r, svc.ProfileRole("nodes"))
	}
}

func TestARoleIsPassedToAServiceOfItsPartition(t *testing.T) {
	for name, tt := range map[string]struct{ region, role, service, resource, passedTo string }{
		"to EC2":                  {"us-east-1", "node", "ec2", "arn:aws:iam::1:role/node", "ec2.amazonaws.com"},
		"to EC2 in China":         {"cn-north-1", "node", "ec2", "arn:aws-cn:iam::1:role/node", "ec2.amazonaws.com.cn"},
		"to EKS in China":         {"cn-north-1", "node", "pods.eks", "arn:aws-cn:iam::1:role/node", "pods.eks.amazonaws.com"},
		"one that does not exist": {"us-east-1", "none", "events", "arn:aws:iam::1:role/none", "events.amazonaws.com"},
	} {
		q := newService(tt.region, 0).PassRole(tt.role, tt.service)
		if q.Action != "iam:PassRole" || q.Resource != tt.resource {
			t.Errorf("%s: %s on %s", name, q.Action, q.Resource)
		}
		if diff := cmp.Diff(map[string][]string{"iam:PassedToService": {tt.passedTo}}, q.Context); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
