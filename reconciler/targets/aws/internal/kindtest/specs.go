package kindtest

import (
	"testing"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
)

// Nodes is a Cluster that declares a node role; change may be nil.
func Nodes(change func(*v1alpha1.NodeRole)) v1alpha1.ClusterSpec {
	node := v1alpha1.NodeRole{Name: "nodes"}
	if change != nil {
		change(&node)
	}
	return v1alpha1.ClusterSpec{NodeRole: &node, Tags: map[string]string{"team": "ml"}}
}

// Controlled is a Cluster that declares all identities.
func Controlled(identity v1alpha1.IdentityKind) v1alpha1.ClusterSpec {
	spec := Nodes(func(n *v1alpha1.NodeRole) { n.InstanceProfile = "nodes" })
	spec.ControllerRole = &v1alpha1.ControllerRole{Identity: identity}
	return spec
}

// SystemGroup adds a managed node group to an account, as somebody made it.
func SystemGroup(c *sandboxaws.Config) {
	c.Cluster.NodeGroups = []sandboxaws.NodeGroup{{
		Name: "system", Min: 1, Desired: 2, Max: 4, Labels: map[string]string{"role": "system", "old": "x"},
		Taints:        []string{"dedicated=system:NO_SCHEDULE", "old:PREFER_NO_SCHEDULE"},
		InstanceTypes: []string{"t3.small", "m5.large"}, DiskSize: 50, CapacityType: "ON_DEMAND",
	}}
}

// Bootstrapped is a Fixture that may write the controller's own role, in an account in which the
// kinds before k, in their order, have converged; change may be nil.
func Bootstrapped(t *testing.T, before []resource.Kind, k resource.Kind, change func(*sandboxaws.Config), spec v1alpha1.ClusterSpec) *Fixture {
	t.Helper()
	l := NewFixture(t, k, change, spec)
	l.Declared.Bootstrap = true
	for _, first := range before {
		if first == k {
			break
		}
		other := *l
		other.Kind = first
		other.Converge()
	}
	return l
}
