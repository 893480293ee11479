package aws

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// What nodes live on can be taken from them without a deletion.
func TestAnUpdateThatTakesWhatNodesLiveOnWaitsAsADeletionDoes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(s *v1alpha1.ClusterSpec)
		// kinds of the updates that wait.
		want []string
	}{
		{"fewer policies", func(s *v1alpha1.ClusterSpec) {
			s.NodeRole.Policies = []v1alpha1.ManagedPolicyName{"AmazonEKSWorkerNodePolicy"}
		}, []string{"Role"}},
		{"another policy in the place of one", func(s *v1alpha1.ClusterSpec) {
			s.NodeRole.Policies = []v1alpha1.ManagedPolicyName{"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly"}
		}, []string{"Role"}},
		{"one more policy", func(s *v1alpha1.ClusterSpec) {
			s.NodeRole.Policies = append(slices.Clone(s.NodeRole.Policies), "CloudWatchAgentServerPolicy")
		}, nil},
		{"another discovery tag", func(s *v1alpha1.ClusterSpec) { s.Discovery.Value = "there" }, []string{"SubnetTag"}},
		{"another tag on all", func(s *v1alpha1.ClusterSpec) { s.Tags = map[string]string{"team": "platform"} }, nil},
		{"messages that are kept for longer", func(s *v1alpha1.ClusterSpec) {
			s.InterruptionQueue.Retention = &metav1.Duration{Duration: time.Hour}
		}, nil},
		{"parts that may be deleted later", func(s *v1alpha1.ClusterSpec) { s.NodeRole.DeletionPolicy = v1alpha1.AWSDeletionPolicyOrphan }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			subnets, boundary := b.subnets(1), b.boundary()
			declare := func(change func(s *v1alpha1.ClusterSpec)) state.Set {
				return b.declare(func(s *v1alpha1.ClusterSpec) {
					queued(deleting)(s)
					s.NodeRole = &v1alpha1.NodeRole{ManagementPolicy: deleting, Name: "nodes", Policies: []v1alpha1.ManagedPolicyName{
						"AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly"}}
					s.NodeRole.PermissionsBoundary = boundary
					s.Discovery = &v1alpha1.Discovery{ManagementPolicy: deleting, Subnets: subnets, Value: "here"}
					change(s)
				})
			}
			b.reconcile(declare(func(*v1alpha1.ClusterSpec) {}))
			after := declare(tt.change)
			early := b.plan(after)
			for _, c := range early.Changes {
				if c.Before == nil || c.Before.Impact != "" {
					t.Errorf("without a node: %s %s, %+v", c.Action, c.Key, c.Before)
				}
			}
			b.node("late")
			if err := b.target.Begin(t.Context(), early.Changes); err != nil {
				t.Fatal(err)
			}
			for _, c := range early.Changes {
				if !slices.Contains(tt.want, c.Key.Kind) {
					continue
				}
				grown, before := &targets.LossesGrownError{}, len(b.writes())
				if err := b.target.Apply(t.Context(), c); !errors.As(err, &grown) || len(b.writes()) != before {
					t.Errorf("updating %s, which was planned without a node, returned %v and wrote %v", c.Key, err, b.writes()[before:])
				}
			}
			desired := b.want(after)
			observed, err := b.target.Observe(t.Context(), desired)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range plan.Compute(desired, observed, plan.ConfirmLosses("")).Changes {
				if !c.Admitted() && c.Action == plan.Update {
					got = append(got, c.Key.Kind)
					if d := cmp.Diff(loss.Counts{"NodePool": 0, "Node": 1}, c.Before.Losses); d != "" {
						t.Error(d)
					}
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("held (-want +got):\n%s", d)
			}
		})
	}
}

// TestEachFieldInAWSIsClassified has whoever adds a field to a kind decide whether a change of
// it loses nodes or data.
func TestEachFieldInAWSIsClassified(t *testing.T) {
	reversible := map[string][]string{
		"Role":             {"trust", "tags"},                // EC2 stays in the trust of a role of nodes.
		"InstanceProfile":  {"tags"},                         //
		"AccessEntry":      {"principalArn", "type", "tags"}, // They follow from its name.
		"Queue":            {"retentionSeconds", "encryption", "policy", "tags"},
		"Rule":             {"pattern", "schedule", "state", "targets", "tags"}, // No declaration makes them other.
		"NodeGroup":        {"minSize", "labels", "taints"},
		"LogGroup":         {"tags"},
		"Logging":          {"types"},
		"Policy":           {"document", "tags"}, // No declaration makes it other.
		"Quota":            nil,
		"SubnetTag":        nil,
		"SecurityGroupTag": nil,
	}
	w := offline(t)
	set, err := w.Desired(t.Context(), declareIn(t, sandboxaws.DefaultConfig(), func(s *v1alpha1.ClusterSpec) {
		everything(false)(s)
		s.Discovery = &v1alpha1.Discovery{ManagementPolicy: deleting, Subnets: []string{"subnet-12345678"}, SecurityGroups: []string{"sg-12345678"}}
		s.Logging = &v1alpha1.Logging{Adopt: true, Types: []v1alpha1.LogType{"api"}, RetentionDays: 7}
		s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{
			Name: "system", Adopt: true, MinSize: new(int32(1)), DesiredSize: new(int32(2)), MaxSize: new(int32(3)),
			Labels: map[string]string{"a": "b"}, Taints: &[]v1alpha1.NodeGroupTaint{},
		}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	observed := map[string]bool{}
	for _, item := range set.Items() {
		observed[item.Key.Kind] = true
		if item.ReadOnly != "" {
			continue // It is never written.
		}
		for field := range item.Object {
			if checked := losingFields()[item.Key.Kind][field] != nil; checked == slices.Contains(reversible[item.Key.Kind], field) {
				t.Errorf("%s.%s: decide in losingFields or here, once, whether its change loses nodes or data", item.Key.Kind, field)
			}
		}
	}
	for kind := range losingFields() {
		if !observed[kind] {
			t.Errorf("nothing of the kind %s is desired", kind)
		}
	}
}

func TestANodeGroupThatShrinksAndLogsThatEndEarlierAreCounted(t *testing.T) {
	type m = map[string]any
	for _, tt := range []struct {
		name, kind    string
		desired, live m
		want          loss.Counts
	}{
		{"fewer nodes", "NodeGroup", m{"desiredSize": int64(1)}, m{"desiredSize": int64(3)}, loss.Counts{"Node": 2}},
		{"more nodes", "NodeGroup", m{"desiredSize": int64(4)}, m{"desiredSize": int64(3)}, nil},
		{"a maximum below what there is", "NodeGroup", m{"maxSize": int64(2)}, m{"desiredSize": int64(3), "maxSize": int64(9)}, loss.Counts{"Node": 1}},
		{"a maximum above it", "NodeGroup", m{"maxSize": int64(3)}, m{"desiredSize": int64(3), "maxSize": int64(9)}, nil},
		{"a minimum below it", "NodeGroup", m{"minSize": int64(0)}, m{"desiredSize": int64(3), "minSize": int64(3)}, nil},
		{"logs that were kept for ever", "LogGroup", m{"retentionDays": int64(7)}, m{}, loss.Counts{"LogGroup": 1}},
		{"logs that were kept for longer", "LogGroup", m{"retentionDays": int64(7)}, m{"retentionDays": int64(30)}, loss.Counts{"LogGroup": 1}},
		{"logs that are kept for longer", "LogGroup", m{"retentionDays": int64(30)}, m{"retentionDays": int64(7)}, nil},
		{"another boundary", "Role", m{"permissionsBoundary": "b"}, m{"permissionsBoundary": "a"}, loss.Counts{"NodePool": 0, "Node": 5}},
		{"a first boundary", "Role", m{"permissionsBoundary": "b"}, m{}, nil},
		{"another role in a profile", "InstanceProfile", m{"role": "b"}, m{"role": "a"}, loss.Counts{"NodePool": 0, "Node": 5}},
		{"another tag of a subnet", "SubnetTag", m{"tags": m{discoveryTag: "b"}}, m{"tags": m{discoveryTag: "a"}}, loss.Counts{"NodePool": 0, "Node": 5}},
		{"a marker of a subnet", "SubnetTag", m{"tags": m{discoveryTag: "a", "marker": "Delete"}}, m{"tags": m{discoveryTag: "a", "marker": "Orphan"}}, nil},
		{"a first tag of a subnet", "SubnetTag", m{"tags": m{discoveryTag: "a"}}, m{"tags": m{}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			item := state.Item{Key: state.Key{Target: Name, Kind: tt.kind, Name: "x"}, Object: tt.desired}
			var got loss.Counts
			if loses(item, tt.live) {
				got = lost(item, tt.live, func() users { return users{nodes: 5} }).Losses
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Numbers that were read from JSON are whole numbers, too.
func TestALossIsCountedOfNumbersFromJSON(t *testing.T) {
	for name, tt := range map[string]struct {
		kind          string
		desired, live map[string]any
		want          bool
	}{
		"logs are kept for a shorter time":        {"LogGroup", map[string]any{"retentionDays": 7.0}, map[string]any{"retentionDays": int64(30)}, true},
		"and were for ever":                       {"LogGroup", map[string]any{"retentionDays": 7.0}, map[string]any{}, true},
		"logs are kept for a longer time":         {"LogGroup", map[string]any{"retentionDays": int64(30)}, map[string]any{"retentionDays": 7.0}, false},
		"logs are kept as long":                   {"LogGroup", map[string]any{"retentionDays": 7.0}, map[string]any{"retentionDays": int64(7)}, false},
		"a node group has fewer nodes":            {"NodeGroup", map[string]any{"desiredSize": 2.0}, map[string]any{"desiredSize": 3.0}, true},
		"a node group may not have as many nodes": {"NodeGroup", map[string]any{"maxSize": 2.0}, map[string]any{"desiredSize": int64(3)}, true},
		"a node group has more nodes":             {"NodeGroup", map[string]any{"desiredSize": 4.0}, map[string]any{"desiredSize": 3.0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := loses(state.Item{Key: state.Key{Kind: tt.kind}, Object: tt.desired}, tt.live); got != tt.want {
				t.Errorf("loses %t, want %t", got, tt.want)
			}
		})
	}
}
