package aws

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/clusterspec"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// offline is a Target that can only want.
func offline(t *testing.T) *Target {
	t.Helper()
	b := &bench{T: t, mod: func(*Config) {}, rest: &rest.Config{Host: "https://localhost:1"}, sync: "s", home: "h"}
	return b.connect(nil)
}

func TestProblemsAreReportedWithTheirOriginAndRemedy(t *testing.T) {
	one := func(n int32) *int32 { return &n }
	tests := []struct {
		name    string
		change  func(*v1alpha1.ClusterSpec)
		message string
	}{
		{"adopting and deleting", func(s *v1alpha1.ClusterSpec) {
			s.InterruptionQueue = &v1alpha1.InterruptionQueue{ManagementPolicy: v1alpha1.ManagementPolicy{Adopt: true, DeletionPolicy: v1alpha1.AWSDeletionPolicyDelete}}
		}, "spec.interruptionQueue has both adopt: true and deletionPolicy: Delete, and what was adopted is never deleted: remove one of them"},
		{"a subnet twice", func(s *v1alpha1.ClusterSpec) {
			s.Discovery = &v1alpha1.Discovery{Subnets: []string{"subnet-12345678", "subnet-12345678"}}
		}, `spec.discovery.subnets holds "subnet-12345678" twice: remove one of them`},
		{"a node group twice", func(s *v1alpha1.ClusterSpec) {
			s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "a"}, {Name: "a"}}
		}, `spec.managedNodeGroups holds "a" twice: remove one of them`},
		{"sizes that AWS refuses", func(s *v1alpha1.ClusterSpec) {
			s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "a", MinSize: one(3), MaxSize: one(2)}}
		}, "spec.managedNodeGroups[a] has minSize 3 above maxSize 2: AWS requires minSize <= desiredSize <= maxSize"},
		{"tags that are not the user's", func(s *v1alpha1.ClusterSpec) {
			queued(v1alpha1.ManagementPolicy{})(s)
			s.Tags = map[string]string{"poolwright.dev/cluster": "other"}
		}, `spec.tags holds "poolwright.dev/cluster", which only Poolwright or AWS may set: take it out`},
		{"one role for nodes and controller", func(s *v1alpha1.ClusterSpec) {
			s.NodeRole = &v1alpha1.NodeRole{Name: "poolwright-sandbox-us-east-1"}
			s.ControllerRole = &v1alpha1.ControllerRole{}
		}, "spec.controllerRole.name is the nodes' role, too: every pod on a node could act as the controller: give it another name"},
		{"no account", func(s *v1alpha1.ClusterSpec) { s.Account = "" }, "spec.account is empty: name the EKS cluster"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			declared := declareIn(t, sandboxaws.DefaultConfig(), tt.change)
			set, err := offline(t).Desired(t.Context(), declared)
			var problems *targets.ProblemsError
			if !errors.As(err, &problems) || len(problems.Problems) != 1 || set.Len() != 0 {
				t.Fatalf("got %v and %d things", err, set.Len())
			}
			if got, want := problems.Problems[0].String(), "cluster.yaml:1: Cluster cluster: "+tt.message; got != want {
				t.Error(cmp.Diff(want, got))
			}
		})
	}
}

func TestAnAPIServerHasOneCluster(t *testing.T) {
	declared := declareIn(t, sandboxaws.DefaultConfig(), queued(deleting))
	item := declared.Items()[0]
	other := item
	other.Key.Name, other.Origin = "second", state.Origin{File: "b.yaml", Line: 7}
	set, err := offline(t).Desired(t.Context(), state.NewSet(item, other))
	if err == nil || set.Len() != 0 || !strings.Contains(err.Error(), "b.yaml:7: Cluster second: there is another Cluster, cluster (cluster.yaml:1)") {
		t.Errorf("got %v and %d things", err, set.Len())
	}
}

func TestAFieldThatClustersDoNotHaveIsNamed(t *testing.T) {
	declared := declareIn(t, sandboxaws.DefaultConfig(), queued(deleting))
	item := declared.Items()[0]
	spec := item.Object["spec"].(map[string]any)
	spec["interruptionQeue"] = map[string]any{}
	_, err := offline(t).Desired(t.Context(), state.NewSet(item))
	if err == nil || !strings.Contains(err.Error(), "interruptionQeue") {
		t.Errorf("got %v", err)
	}
}

func TestDefaultsAreFilledInOncePerPart(t *testing.T) {
	in := v1alpha1.ClusterSpec{
		Name: "c", Region: "r", Discovery: &v1alpha1.Discovery{}, NodeRole: &v1alpha1.NodeRole{Name: "n"},
		InterruptionQueue: &v1alpha1.InterruptionQueue{}, ControllerRole: &v1alpha1.ControllerRole{},
	}
	out := clusterspec.Default(in)
	if in.Discovery.Key != "" {
		t.Error("the declaration was changed")
	}
	if d := cmp.Diff(clusterspec.Default(out), out); d != "" {
		t.Errorf("defaults of defaults: %s", d)
	}
	if out.Discovery.Value != "c" || out.InterruptionQueue.Name != "c" || out.InterruptionQueue.Retention.Minutes() != 5 ||
		out.NodeRole.PermissionsBoundary != "poolwright-boundary-c-r" || out.ControllerRole.Name != "poolwright-c-r" || out.ControllerRole.Identity != v1alpha1.IdentityPod {
		t.Errorf("got %+v", out)
	}
	in.NodeRole.Adopt = true
	if b := clusterspec.Default(in).NodeRole.PermissionsBoundary; b != "" {
		t.Errorf("an adopted role would get the boundary %q", b)
	}
	if d := cmp.Diff(v1alpha1.ClusterSpec{Name: "c"}, clusterspec.Default(v1alpha1.ClusterSpec{Name: "c"})); d != "" {
		t.Errorf("what is not declared: %s", d)
	}
}

func TestPartsAndReservedObjectsAreFoundByWhatRequiresThem(t *testing.T) {
	w := offline(t)
	if _, err := w.Desired(t.Context(), declareIn(t, sandboxaws.DefaultConfig(), everything(false))); err != nil {
		t.Fatal(err)
	}
	p := w.desired.Scope
	queue, controller, nodes := p.Regional("sqs", "Queue", "sandbox"), resource.Global("Role", "poolwright-sandbox-us-east-1"), resource.Global("Role", "nodes")
	for k, want := range map[state.Key]string{queue: "spec.interruptionQueue", controller: "spec.controllerRole", nodes: "spec.nodeRole"} {
		if got := w.desired.fields()[k]; got != want {
			t.Errorf("%s belongs to %q", k, got)
		}
	}
	if r := w.desired.reserved(); !r[controller] || r[queue] || r[nodes] {
		t.Errorf("reserved: %v", r)
	}
}
