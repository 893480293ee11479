// Package clusterspec reads the spec of a declared Cluster: its defaults, and the problems in it
// that the schema does not find. It sends no request, and makes no resource of it. Start reading
// at Problems and at Default.
package clusterspec

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/tag"
)

// Problems returns what is wrong in a declaration that its schema does not find, or that
// no API server has read yet.
func Problems(item state.Item, s v1alpha1.ClusterSpec) []state.Problem {
	c := &validator{item: item}
	c.written()
	c.tags("spec.tags", slices.Collect(maps.Keys(s.Tags)))
	c.tagsFit(s)
	c.fields(s)
	var names []string
	for _, g := range s.ManagedNodeGroups {
		names = append(names, g.Name)
		c.sizes("spec.managedNodeGroups["+g.Name+"]", g)
		c.labels("spec.managedNodeGroups["+g.Name+"].labels", g)
	}
	c.unique("spec.managedNodeGroups", names)
	names = nil
	for _, a := range s.Addons {
		names = append(names, a.Name)
	}
	c.unique("spec.addons", names)
	return c.problems
}

// Unidentified returns a problem for each of the name, region and account of the cluster that
// the declaration lacks.
func Unidentified(item state.Item, s v1alpha1.ClusterSpec) []state.Problem {
	c := &validator{item: item}
	for _, f := range []struct{ path, value string }{{"spec.name", s.Name}, {"spec.region", s.Region}, {"spec.account", s.Account}} {
		if f.value == "" {
			c.problem(f.path, codeFieldEmpty, "is empty: name the EKS cluster")
		}
	}
	return c.problems
}

// written finds what is written and declares nothing: it would pass for left out.
func (c *validator) written() {
	spec, _ := c.item.Object["spec"].(map[string]any)
	for _, field := range []string{"discovery", "nodeRole", "interruptionQueue", "logging", "controllerRole"} {
		if v, there := spec[field]; there && v == nil {
			c.problem("spec."+field, codeFieldEmpty, "is there and holds nothing: write {} for its defaults, or take it out")
		}
	}
	discovery, _ := spec["discovery"].(map[string]any)
	for _, field := range []string{"key", "value"} {
		if v, there := discovery[field]; there && (v == nil || v == "") {
			c.problem("spec.discovery."+field, codeFieldEmpty, "is empty: write one, or take it out for its default")
		}
	}
}

// tags refuses keys of tags that only Poolwright or AWS may set.
func (c *validator) tags(path string, keys []string) {
	for _, k := range slices.Sorted(slices.Values(keys)) {
		if strings.HasPrefix(k, tag.Prefix) || strings.HasPrefix(strings.ToLower(k), "aws:") {
			c.problem(path, codeTagReserved, "holds %q, which only Poolwright or AWS may set: take it out", finding.NewFact("tag", k))
		}
	}
}

// tagForm are the characters that IAM and CloudWatch Logs take in tags.
var tagForm = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

// tagsFit refuses tags that a field which is declared cannot have in AWS.
func (c *validator) tagsFit(s v1alpha1.ClusterSpec) {
	narrow := s.NodeRole != nil || s.ControllerRole != nil || s.Logging != nil
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		v := s.Tags[k]
		switch {
		case k == "" || utf8.RuneCountInString(k) > 128 || utf8.RuneCountInString(v) > 256:
			c.problem("spec.tags", codeTagInvalid, "holds the tag %q, and AWS takes keys of 1 to 128 characters with values of at most 256: shorten it", finding.NewFact("tag", k))
		case narrow && !(tagForm.MatchString(k) && tagForm.MatchString(v)):
			c.problem("spec.tags", codeTagInvalid, "holds the tag %q, and IAM and CloudWatch Logs take letters, digits, blanks and _.:/=+-@ only: write it with these", finding.NewFact("tag", k))
		}
	}
}

// labels refuses labels that EKS does not take.
func (c *validator) labels(path string, g v1alpha1.ManagedNodeGroup) {
	for _, k := range slices.Sorted(maps.Keys(g.Labels)) {
		v := g.Labels[k]
		if k == "" || len(k) > 63 || len(v) > 63 || v == "" && g.Adopt {
			c.problem(path, codeLabelInvalid, "holds the label %q, and EKS takes keys and values of 1 to 63 characters", finding.NewFact("label", k))
		}
	}
}

// fields reads each field that is declared.
func (c *validator) fields(s v1alpha1.ClusterSpec) {
	if d := s.Discovery; d != nil {
		c.managementPolicy("spec.discovery", d.ManagementPolicy)
		c.tags("spec.discovery.key", []string{d.Key})
		c.unique("spec.discovery.subnets", d.Subnets)
		c.unique("spec.discovery.securityGroups", d.SecurityGroups)
	}
	if r := s.NodeRole; r != nil {
		c.managementPolicy("spec.nodeRole", r.ManagementPolicy)
		c.unique("spec.nodeRole.policies", texts(r.Policies))
		if r.Name == "" {
			c.problem("spec.nodeRole.name", codeFieldEmpty, "is empty: name the role as EC2NodeClasses quote it")
		}
	}
	if q := s.InterruptionQueue; q != nil {
		c.managementPolicy("spec.interruptionQueue", q.ManagementPolicy)
		if name, read := cmp.Or(q.Name, s.Name), s.Engine.InterruptionQueue; read != "" && read != name {
			c.problem("spec.engine.interruptionQueue", codeInterruptionQueueConflict, "is %q, and spec.interruptionQueue is %q, which nobody would read: take one of them out",
				finding.NewFact("queue", read), finding.NewFact("otherQueue", name))
		}
	}
	if l := s.Logging; l != nil {
		c.unique("spec.logging.types", texts(l.Types))
	}
	if r := s.ControllerRole; r != nil {
		if s.NodeRole != nil && strings.EqualFold(s.NodeRole.Name, cmp.Or(r.Name, iampolicy.NamesOf(s.Name, s.Region).Role)) {
			c.problem("spec.controllerRole.name", codeRoleShared, "is the nodes' role, too: every pod on a node could act as the controller: give it another name")
		}
	}
}

// validator collects the problems of one Cluster.
type validator struct {
	item     state.Item
	problems []state.Problem
}

func (c *validator) problem(path string, code finding.Code, format string, args ...any) {
	found := finding.New(code, format, args...)
	found.Text = fmt.Sprintf("Cluster %s: %s %s", c.item.Key.Name, path, found.Text)
	c.problems = append(c.problems, state.NewProblem(c.item.Origin, found.With(finding.NewFact("cluster", c.item.Key.Name), finding.NewFact("field", path))))
}

func (c *validator) managementPolicy(path string, p v1alpha1.ManagementPolicy) {
	if p.Adopt && p.DeletionPolicy == v1alpha1.AWSDeletionPolicyDelete {
		c.problem(path, codeDeletionPolicyConflict, "has both adopt: true and deletionPolicy: Delete, and what was adopted is never deleted: remove one of them")
	}
}

func (c *validator) sizes(path string, g v1alpha1.ManagedNodeGroup) {
	for _, pair := range []struct {
		small, large string
		a, b         *int32
	}{
		{"minSize", "desiredSize", g.MinSize, g.DesiredSize},
		{"desiredSize", "maxSize", g.DesiredSize, g.MaxSize},
		{"minSize", "maxSize", g.MinSize, g.MaxSize},
	} {
		if pair.a != nil && pair.b != nil && *pair.a > *pair.b {
			c.problem(path, codeNodeGroupSizesInvalid, "has %s %d above %s %d: AWS requires minSize <= desiredSize <= maxSize",
				finding.NewFact("sizeField", pair.small), finding.NewFact("nodes", *pair.a), finding.NewFact("maxField", pair.large), finding.NewFact("maxNodes", *pair.b))
		}
	}
}

func (c *validator) unique(path string, list []string) {
	found := map[string]bool{}
	for _, v := range list {
		if found[v] {
			c.problem(path, codeDuplicateEntry, "holds %q twice: remove one of them", finding.NewFact("entry", v))
		}
		found[v] = true
	}
}

func texts[S ~string](list []S) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}
