package aws

import (
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/eks"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/kindtest"
)

// The kinds of what others made, as the whole Target treats them.

// The discovery tag, the beginning of its marker's key, and a security group of the emulated account.
const (
	discoveryTag      = "karpenter.sh/discovery"
	discoveryMarker   = "poolwright.dev/discovery/"
	nodeSecurityGroup = "sg-0000000000000ccc3"
)

func tagMap(tags []ec2types.Tag) map[string]string {
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[sdk.ToString(t.Key)] = sdk.ToString(t.Value)
	}
	return out
}

func (b *bench) subnets(n int) []string {
	b.Helper()
	all, err := b.hand.EC2.DescribeSubnets(b.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		b.Fatal(err)
	}
	var out []string
	for _, s := range all.Subnets[:n] {
		out = append(out, *s.SubnetId)
	}
	return out
}

func (b *bench) tagged(id, key string) (string, bool) {
	b.Helper()
	found := map[string]map[string]string{}
	all, err := b.hand.EC2.DescribeSubnets(b.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range all.Subnets {
		found[*s.SubnetId] = tagMap(s.Tags)
	}
	v, ok := found[id][key]
	return v, ok
}

func (b *bench) tag(id, key, value string) {
	b.Helper()
	_, err := b.hand.EC2.CreateTags(b.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []ec2types.Tag{{Key: &key, Value: &value}}})
	if err != nil {
		b.Fatal(err)
	}
}

func TestWhatOthersMadeIsChangedAndThenOrphaned(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) {
		kindtest.SystemGroup(c)
		c.Cluster.Endpoint = "https://127.0.0.1:6443"
		c.Delays.Update = 0
	})
	nets := b.subnets(2)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		s.Discovery = &v1alpha1.Discovery{ManagementPolicy: deleting, Subnets: nets, SecurityGroups: []string{nodeSecurityGroup}}
		s.Logging = &v1alpha1.Logging{Adopt: true, Types: []v1alpha1.LogType{"api"}, RetentionDays: 30}
		s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "system", Adopt: true, MaxSize: sdk.Int32(9)}}
	})
	b.reconcile(declared)
	b.converged(declared)
	if v, _ := b.tagged(nets[0], discoveryTag); v != "sandbox" {
		t.Errorf("the tag is %q", v)
	}
	b.tag(nets[0], discoveryTag, "by hand")
	if p := b.plan(declared); len(p.Changes) != 1 || !p.Changes[0].Admitted() {
		t.Errorf("after a change by hand:\n%s", show(p))
	}
	b.reconcile(declared)
	b.converged(declared)

	none := b.declare(nothing)
	b.reconcile(none)
	b.converged(none)
	for _, id := range nets {
		if v, has := b.tagged(id, discoveryTag); has {
			t.Errorf("%s still says %q", id, v)
		}
		if v, has := b.tagged(id, discoveryMarker+"sandbox"); has {
			t.Errorf("%s still has the marker %q", id, v)
		}
	}
	for _, rec := range b.target.store.Records() {
		t.Errorf("left in the inventory: %s", rec.Key)
	}
	group := b.hand.Scope.Regional("eks", "NodeGroup", "system")
	if got := (eks.NodeGroups{}).Read(t.Context(), b.hand, []state.Key{group})[group]; got.Object["maxSize"] != int64(9) {
		t.Errorf("the node group is %v, %v", got.Object, got.Err)
	}
}

func TestATagThatOthersPutOnIsComparedAndLeftAlone(t *testing.T) {
	b := newBench(t, nil)
	nets := b.subnets(2)
	b.tag(nets[0], discoveryTag, "sandbox")
	b.tag(nets[1], discoveryTag, "other")
	declared := func(part v1alpha1.ManagementPolicy) state.Set {
		return b.declare(func(s *v1alpha1.ClusterSpec) {
			s.Discovery = &v1alpha1.Discovery{ManagementPolicy: part, Subnets: nets}
		})
	}
	p := b.plan(declared(v1alpha1.ManagementPolicy{}))
	if len(p.Changes) != 1 || p.Changes[0].Key.Name != nets[1] || !strings.Contains(p.Changes[0].Hold.String(), "adopt: true in spec.discovery") {
		t.Errorf("others' tags:\n%s", show(p))
	}
	for path := range fieldsOf(p.Changes[0]) {
		if strings.Contains(path, "poolwright.dev/") {
			t.Errorf("their owner is asked for %s", path)
		}
	}
	before := len(b.writes())
	b.reconcile(declared(v1alpha1.ManagementPolicy{}))
	b.reconcile(declared(deleting))
	b.reconcile(b.declare(nothing))
	if diff := cmp.Diff(before, len(b.writes())); diff != "" {
		t.Errorf("something was written: %v", b.writes()[before:])
	}
	adopted := declared(v1alpha1.ManagementPolicy{Adopt: true})
	b.reconcile(adopted)
	b.converged(adopted)
	b.reconcile(b.declare(nothing))
	for _, id := range nets {
		if v, _ := b.tagged(id, discoveryTag); v != "sandbox" {
			t.Errorf("after its adoption %s says %q", id, v)
		}
	}
}

func TestWhatIsNeverMadeHereIsMissedAndHeld(t *testing.T) {
	b := newBench(t, nil)
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		s.Discovery = &v1alpha1.Discovery{Subnets: []string{"subnet-0123456789abcdef0"}, SecurityGroups: []string{"sg-0123456789abcdef0"}}
		s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "system", Adopt: true, MinSize: sdk.Int32(1), CapacityType: "SPOT"}}
	})
	p := b.plan(declared)
	held := map[string]bool{}
	for _, c := range p.Changes {
		held[c.Key.Kind] = c.Action == plan.Create && (strings.Contains(c.Hold.String(), "correct spec.discovery") || strings.Contains(c.Hold.String(), "aws eks create-nodegroup"))
	}
	want := map[string]bool{"SubnetTag": true, "SecurityGroupTag": true, "NodeGroup": true}
	if diff := cmp.Diff(want, held); diff != "" || len(p.Unknown) > 0 {
		t.Errorf("held (-want +got):\n%s\n%s", diff, show(p))
	}
	before := len(b.writes())
	b.reconcile(declared)
	if got := b.writes()[before:]; len(got) > 0 {
		t.Errorf("it wrote %v", got)
	}
}

func TestVersionAddonsAndHardwareAreReportedAndHeld(t *testing.T) {
	b := newBench(t, func(c *sandboxaws.Config) {
		kindtest.SystemGroup(c)
		c.Cluster.Addons = map[string]string{"vpc-cni": "v1"}
	})
	declared := b.declare(func(s *v1alpha1.ClusterSpec) {
		s.Version = "1.34"
		s.Addons = []v1alpha1.Addon{{Name: "vpc-cni", Version: "v2"}, {Name: "coredns"}}
		s.ManagedNodeGroups = []v1alpha1.ManagedNodeGroup{{Name: "system", Adopt: true, CapacityType: "SPOT"}}
	})
	p := b.plan(declared)
	held := map[string]bool{}
	for _, c := range p.Changes {
		command := map[string]string{"Version": "update-cluster-version", "NodeGroupHardware": "delete-nodegroup"}[c.Key.Kind]
		if c.Key.Kind == "Addon" {
			command = map[plan.Action]string{plan.Create: "create-addon", plan.Update: "update-addon"}[c.Action]
		}
		held[c.Key.Kind+"/"+c.Key.Name] = strings.Contains(c.Hold.String(), "aws eks "+command) && strings.Count(c.Hold.String(), "-addon ") <= 1
	}
	want := map[string]bool{"Version/sandbox": true, "Addon/vpc-cni": true, "Addon/coredns": true, "NodeGroupHardware/system": true}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("held (-want +got):\n%s\n%s", diff, show(p))
	}
	before := len(b.writes())
	b.reconcile(declared)
	if got := b.writes()[before:]; len(got) > 0 {
		t.Errorf("it wrote %v", got)
	}
}

func fieldsOf(c plan.Change) map[string]bool {
	out := map[string]bool{}
	for _, f := range c.Fields {
		out[f.Path] = true
	}
	return out
}

func TestTheMarkerIsShownAsItIsAndDecidesAboutTheEnd(t *testing.T) {
	b := newBench(t, nil)
	nets := b.subnets(1)
	declared := func(part v1alpha1.ManagementPolicy) state.Set {
		return b.declare(func(s *v1alpha1.ClusterSpec) {
			s.Discovery = &v1alpha1.Discovery{ManagementPolicy: part, Subnets: nets}
		})
	}
	const marker = discoveryMarker + "sandbox"
	for _, tt := range []struct {
		part v1alpha1.ManagementPolicy
		want string
	}{{v1alpha1.ManagementPolicy{}, "Orphan"}, {deleting, "Delete"}, {v1alpha1.ManagementPolicy{Adopt: true}, "Adopted"}, {deleting, "Delete"}} {
		p := b.reconcile(declared(tt.part))
		if len(p.Changes) != 1 {
			t.Fatalf("%s:\n%s", tt.want, show(p))
		}
		tags, _ := p.Changes[0].After.Object["tags"].(map[string]any)
		if diff := cmp.Diff(map[string]any{discoveryTag: "sandbox", marker: tt.want}, tags); diff != "" {
			t.Errorf("the plan shows (-want +got):\n%s", diff)
		}
		if got, _ := b.tagged(nets[0], marker); got != tt.want {
			t.Errorf("the marker is %q, not %q", got, tt.want)
		}
		b.converged(declared(tt.part))
	}
	none := b.declare(nothing)
	if p := b.reconcile(none); p.Count(plan.Delete) != 1 {
		t.Errorf("its end:\n%s", show(p))
	}
	if got, has := b.tagged(nets[0], marker); has {
		t.Errorf("the marker %q stays", got)
	}
}
