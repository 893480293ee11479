package eks

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/provision/sandbox/aws/internal/api"
)

// timers is a clock that stands, with what is to run later.
type timers struct {
	now   time.Time
	later []func()
}

func (c *timers) Now() time.Time { return c.now }
func (c *timers) AfterFunc(_ time.Duration, f func()) (stop func() bool) {
	c.later = append(c.later, f)
	return func() bool { return true }
}

// iam has one role, and logs the groups that were made.
type iam struct{ role string }

func (i iam) RoleName(arn string, _ time.Time) string {
	if arn == "arn:"+i.role {
		return i.role
	}
	return ""
}

func (i iam) PassRole(role, service string) api.AuthorizationRequest {
	return api.AuthorizationRequest{Action: "iam:PassRole", Resource: role, RequestTags: map[string]string{"service": service}}
}

type logs struct{ groups []string }

func (l *logs) Ensure(name string, _ time.Time) { l.groups = append(l.groups, name) }

func newService(cluster Cluster) (*Service, *timers, *logs) {
	clock, groups := &timers{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}, &logs{}
	account := &api.Account{ID: "1", Region: "us-east-1", Cluster: cluster.Name, Clock: clock, Delays: api.Delays{Update: time.Minute}}
	return New(account, cluster, Network{VPC: "vpc-1", Subnets: []string{"subnet-1"}}, iam{"node"}, groups), clock, groups
}

func TestEveryRouteLeadsToAnOperation(t *testing.T) {
	svc, _, _ := newService(Cluster{Name: "k"})
	operations, routed := svc.Table().Operations, map[string]bool{}
	for route := range paths() {
		method, path, _ := strings.Cut(route, " ")
		op := Route(method, strings.ReplaceAll(path, "*", "x"))
		if _, emulated := operations[op]; !emulated {
			t.Errorf("%s leads to %q, which is not in the table", route, op)
		}
		routed[op] = true
	}
	for op := range operations {
		if !routed[op] {
			t.Errorf("no route leads to %s", op)
		}
	}
	for _, path := range []string{"/", "/clusters/", "/clusters/a/b/c/d"} {
		if op := Route(http.MethodGet, path); op != "" {
			t.Errorf("GET %s is %s", path, op)
		}
	}
}

func TestAnUpdateTakesEffectOnceItIsDone(t *testing.T) {
	svc, clock, groups := newService(Cluster{Name: "k"})
	in := &api.Call{Op: "UpdateClusterConfig", Target: "POST /clusters/k/update-config",
		Body: []byte(`{"logging":{"clusterLogging":[{"types":["audit"],"enabled":true}]}}`)}
	if _, err := svc.Table().Operations[in.Op].Run(in); err != nil {
		t.Fatal(err)
	}
	before := svc.Clone()
	if len(svc.logging) != 0 || svc.running("") == nil || len(groups.groups) != 0 {
		t.Errorf("before its end: logging %q, update %v, groups %q", svc.logging, svc.running(""), groups.groups)
	}
	for _, f := range clock.later {
		f()
	}
	if !slices.Equal(svc.logging, []string{"audit"}) || svc.running("") != nil || !slices.Equal(groups.groups, []string{"/aws/eks/k/cluster"}) {
		t.Errorf("after its end: logging %q, update %v, groups %q", svc.logging, svc.running(""), groups.groups)
	}
	if len(before.logging) != 0 || before.running("") == nil {
		t.Errorf("a copy from before has logging %q and the update %v", before.logging, before.running(""))
	}
}

func TestTheNameOfTheClusterStays(t *testing.T) {
	svc, _, _ := newService(Cluster{Name: "k"})
	if err := svc.SetCluster(Cluster{Name: "other", Endpoint: "https://x"}); err == nil || svc.cluster.Endpoint != "" {
		t.Errorf("another name: %v, cluster %+v", err, svc.cluster)
	}
	if err := svc.SetCluster(Cluster{Name: "k", Endpoint: "https://x"}); err != nil || svc.cluster.Endpoint != "https://x" {
		t.Errorf("the same name: %v, cluster %+v", err, svc.cluster)
	}
}

func TestANodeGroupHasDefaults(t *testing.T) {
	svc, _, _ := newService(Cluster{Name: "k", NodeGroups: []NodeGroup{
		{Name: "plain", Max: 1},
		{Name: "full", Max: 2, InstanceTypes: []string{"g5.xlarge"}, DiskSize: 80, CapacityType: "SPOT", Labels: map[string]string{"a": "b"}, Taints: []string{"k=v:NO_SCHEDULE", "t:NO_EXECUTE"}},
	}})
	type displayed struct {
		Types    []string
		DiskSize int
		Capacity string
		Labels   map[string]string
		Taints   []taint
	}
	got := map[string]displayed{}
	for name, g := range svc.nodeGroups {
		got[name] = displayed{g.InstanceTypes, g.DiskSize, g.CapacityType, g.Labels, g.taints}
	}
	want := map[string]displayed{
		"plain": {[]string{"m5.large"}, 20, "ON_DEMAND", map[string]string{}, nil},
		"full":  {[]string{"g5.xlarge"}, 80, "SPOT", map[string]string{"a": "b"}, []taint{{"k", "v", "NO_SCHEDULE"}, {"t", "", "NO_EXECUTE"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node groups (-want +got):\n%s", diff)
	}
}
