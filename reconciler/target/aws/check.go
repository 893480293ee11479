package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// check finds the mistakes in a declaration that its schema does not, or that
// no API server has looked at yet.
func check(item state.Item, s v1alpha1.ClusterSpec) []state.Problem {
	c := &checker{item: item}
	for _, f := range []struct{ path, value string }{{"spec.name", s.Name}, {"spec.region", s.Region}, {"spec.account", s.Account}} {
		if f.value == "" {
			c.problem(f.path, "is empty: say which EKS cluster this is")
		}
	}
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		if strings.HasPrefix(k, "poolwright.dev/") || strings.HasPrefix(strings.ToLower(k), "aws:") {
			c.problem("spec.tags", "holds %q, which only Poolwright or AWS may set: take it out", k)
		}
	}
	c.parts(s)
	var names []string
	for _, g := range s.SystemNodeGroups {
		names = append(names, g.Name)
		c.sizes("spec.systemNodeGroups["+g.Name+"]", g)
	}
	c.unique("spec.systemNodeGroups", names)
	names = nil
	for _, a := range s.Addons {
		names = append(names, a.Name)
	}
	c.unique("spec.addons", names)
	return c.problems
}

// parts looks at each part that is declared.
func (c *checker) parts(s v1alpha1.ClusterSpec) {
	if d := s.Discovery; d != nil {
		c.part("spec.discovery", d.Part)
		c.unique("spec.discovery.subnets", d.Subnets)
		c.unique("spec.discovery.securityGroups", d.SecurityGroups)
	}
	if r := s.NodeRole; r != nil {
		c.part("spec.nodeRole", r.Part)
		c.unique("spec.nodeRole.policies", texts(r.Policies))
		if r.Name == "" {
			c.problem("spec.nodeRole.name", "is empty: name the role as EC2NodeClasses quote it")
		}
	}
	if q := s.InterruptionQueue; q != nil {
		c.part("spec.interruptionQueue", q.Part)
	}
	if l := s.Logging; l != nil {
		c.unique("spec.logging.types", texts(l.Types))
	}
	if r := s.ControllerRole; r != nil {
		if s.NodeRole != nil && s.NodeRole.Name == cmp.Or(r.Name, "poolwright-"+s.Name) {
			c.problem("spec.controllerRole.name", "is the nodes' role, too: every pod on a node could act as the controller: give it another name")
		}
	}
}

// checker collects the mistakes of one Cluster.
type checker struct {
	item     state.Item
	problems []state.Problem
}

func (c *checker) problem(path, format string, args ...any) {
	c.problems = append(c.problems, state.Problem{
		Origin: c.item.Origin, Message: fmt.Sprintf("Cluster %s: %s %s", c.item.Key.Name, path, fmt.Sprintf(format, args...)),
	})
}

func (c *checker) part(path string, p v1alpha1.Part) {
	if p.Adopt && p.DeletionPolicy == v1alpha1.PartDelete {
		c.problem(path, "has both adopt: true and deletionPolicy: Delete, and what was adopted is never deleted: remove one of them")
	}
}

func (c *checker) sizes(path string, g v1alpha1.SystemNodeGroup) {
	for _, pair := range []struct {
		small, large string
		a, b         *int32
	}{
		{"minSize", "desiredSize", g.MinSize, g.DesiredSize},
		{"desiredSize", "maxSize", g.DesiredSize, g.MaxSize},
		{"minSize", "maxSize", g.MinSize, g.MaxSize},
	} {
		if pair.a != nil && pair.b != nil && *pair.a > *pair.b {
			c.problem(path, "has %s %d above %s %d: AWS wants minSize <= desiredSize <= maxSize", pair.small, *pair.a, pair.large, *pair.b)
		}
	}
}

func (c *checker) unique(path string, list []string) {
	seen := map[string]bool{}
	for _, v := range list {
		if seen[v] {
			c.problem(path, "holds %q twice: remove one of them", v)
		}
		seen[v] = true
	}
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}
