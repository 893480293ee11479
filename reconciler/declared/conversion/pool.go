package conversion

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// shape blocks an object in which something that must be a mapping is none, so that
// nothing after it has to check.
func (r *converter) shape(o *object) {
	if n := yamlnode.Get(o.node, "spec"); n == nil || yamlnode.Absent(n) && n.Kind != yaml.MappingNode {
		yamlnode.Set(o.node, "spec", yamlnode.Mapping())
	}
	paths := []string{"metadata.annotations.", "spec.template.metadata.", "spec.template.spec.nodeClassRef.", "spec.consolidation.", "spec.limits.resources.",
		"spec.template.spec.kubelet.", "spec.kubeletConfiguration.", "spec.kubelet.", "spec.providerRef.", "spec.provider.", "spec.disruption.", "spec.metadataOptions.", "spec.tags."}
	for _, p := range paths {
		for i, c := range p {
			if c != '.' || o.blocked {
				continue
			}
			if n := yamlnode.Get(o.node, p[:i]); n != nil && n.Kind != yaml.MappingNode && !yamlnode.Absent(n) {
				r.block(o, p[:i], "%s must be a mapping%s", p[:i], remedy(n))
			}
		}
	}
	if !o.blocked && o.name() == "" {
		r.block(o, "metadata", "metadata.name is missing; add it")
	}
}

// checkPool blocks a pool that v1 cannot express.
func (r *converter) checkPool(o *object) {
	if o.rules == nil {
		if keptKubelet(o) != nil {
			r.checkKubelet(o)
		}
		return
	}
	if r.shape(o); o.blocked {
		return
	}
	if other := r.rival(o); other != nil {
		r.block(o, "metadata.name", "there is a %s of this name, too (%s:%d); remove the one that no longer counts", other.kind, other.file, other.line)
		return
	}
	if o.kind == "Provisioner" {
		r.checkProvisioner(o)
	} else {
		r.checkBetaPool(o)
	}
	if !o.blocked && kubeletOf(o) != nil {
		r.checkKubelet(o)
	}
}

// rival is an object of v1beta1 or v1 that one of v1alpha would become a second of.
func (r *converter) rival(o *object) *object {
	_, becomes, _ := strings.Cut(o.rules.New, " ")
	for _, other := range r.called(o.name()) {
		if o.kind != becomes && other.is(o.group(), becomes) && r.together(other.file, o.file) {
			return other
		}
	}
	return nil
}

func (r *converter) checkProvisioner(o *object) {
	r.checkSeconds(o, "spec.ttlSecondsAfterEmpty", "spec.disruption.consolidateAfter")
	r.checkSeconds(o, "spec.ttlSecondsUntilExpired", "spec.template.spec.expireAfter")
	ref, provider := yamlnode.Get(o.node, "spec.providerRef"), yamlnode.Get(o.node, "spec.provider")
	switch {
	case !yamlnode.Absent(provider) && !yamlnode.Absent(ref):
		r.block(o, "spec.provider", "spec.provider and spec.providerRef are both given; remove the one that no longer counts")
	case !yamlnode.Absent(provider):
		r.checkTemplateSpec(o, "spec.provider")
		if _, taken := r.classOf(o, o.name()); taken {
			r.block(o, "spec.provider", "spec.provider becomes an EC2NodeClass with the name of the Provisioner, and there is one already; move it to an AWSNodeTemplate of another name, and name that in spec.providerRef")
		}
		if o.page != nil && o.page.JSON() && o.items == nil {
			r.block(o, "spec.provider", "spec.provider becomes an EC2NodeClass, a second object, for which there is no room in a JSON file; turn it into YAML first")
		}
	case yamlnode.Text(yamlnode.Get(ref, "name")) == "":
		r.block(o, "spec.providerRef", "spec.providerRef.name is missing; name the AWSNodeTemplate, which becomes an EC2NodeClass")
	case !slices.Contains([]string{"", "AWSNodeTemplate", "EC2NodeClass"}, yamlnode.Text(yamlnode.Get(ref, "kind"))):
		r.block(o, "spec.providerRef.kind", "spec.providerRef.kind is none of AWS; only AWSNodeTemplate can be converted")
	}
	r.checkList(o, "spec.requirements")
	r.checkDecided(o)
}

func (r *converter) checkBetaPool(o *object) {
	policy, after := yamlnode.Text(yamlnode.Get(o.node, "spec.disruption.consolidationPolicy")), yamlnode.Get(o.node, "spec.disruption.consolidateAfter")
	if policy == "WhenEmpty" && yamlnode.Absent(after) {
		r.block(o, "spec.disruption.consolidationPolicy", "WhenEmpty needs spec.disruption.consolidateAfter, which v1beta1 required, too; write how long an empty node is kept, such as 30s")
	}
	if yamlnode.Text(yamlnode.Get(o.node, "spec.template.spec.nodeClassRef.name")) == "" {
		r.block(o, "spec.template.spec.nodeClassRef", "spec.template.spec.nodeClassRef.name is missing; name the EC2NodeClass")
	}
	r.checkList(o, "spec.template.spec.requirements")
}

// checkList blocks an object whose field is not a list of mappings.
func (r *converter) checkList(o *object, field string) {
	n := yamlnode.Get(o.node, field)
	if yamlnode.Absent(n) {
		return
	}
	if n.Kind != yaml.SequenceNode || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Kind != yaml.MappingNode }) {
		r.block(o, field, "%s must be a list of mappings%s", field, remedy(n))
	}
}

// betaPool converts a NodePool of v1beta1.
func (r *converter) betaPool(o *object) {
	r.revalued(o)
	disruption := yamlnode.Get(o.node, "spec.disruption")
	policy := yamlnode.Get(disruption, "consolidationPolicy")
	if after := yamlnode.Get(disruption, "consolidateAfter"); !yamlnode.Absent(after) && yamlnode.Text(policy) != "WhenEmpty" && !yamlnode.HasVariable(policy) && yamlnode.Text(after) != "Never" {
		r.report(o, Default, "spec.disruption.consolidateAfter", "consolidateAfter %s takes effect now: v1beta1 refused it beside WhenUnderutilized, and did not wait; write 0s where that is meant", yamlnode.Text(after))
	}
	if r.unknown(policy) {
		r.requireReview(o, yamlnode.LineOf(o.node, "spec.disruption.consolidationPolicy"), "%s is kept as it is written: where its value is WhenUnderutilized, make that WhenEmptyOrUnderutilized, which is its name in v1", yamlnode.Text(policy))
	}
	expires := yamlnode.Text(yamlnode.Get(disruption, "expireAfter")) != "Never"
	if budgets := yamlnode.Get(disruption, "budgets"); expires && !yamlnode.Absent(budgets) {
		r.requireReview(o, yamlnode.LineOf(o.node, "spec.disruption.budgets"), "budgets no longer hold back expiry: v1 drains a node as soon as it is too old; write expireAfter: Never where that must not be, or spread the ages")
	}
	r.apply(o)
	r.nodeClassRef(o)
	r.defaults(o)
}

// nodeClassRef gives the reference of a pool the three fields of v1.
func (r *converter) nodeClassRef(o *object) {
	ref := yamlnode.Get(o.node, "spec.template.spec.nodeClassRef")
	group := awsGroup
	if k, v, i := yamlnode.RemoveEntry(ref, "apiVersion"); k != nil {
		if g, _, ok := strings.Cut(yamlnode.Text(v), "/"); ok && g != "" {
			group = g
		}
		r.reportAt(o, Lossless, k.Line, "nodeClassRef.apiVersion is group now")
		k.Value = "group"
		yamlnode.Put(ref, i, k, yamlnode.Scalar(group))
	} else if yamlnode.Index(ref, "group") < 0 {
		r.reportAt(o, Default, ref.Line, "nodeClassRef.group: %s", group)
		yamlnode.Put(ref, 0, yamlnode.Scalar("group"), yamlnode.Scalar(group))
	}
	switch kind := yamlnode.Get(ref, "kind"); {
	case yamlnode.Text(kind) == "AWSNodeTemplate":
		kind.Value = "EC2NodeClass"
	case yamlnode.Absent(kind):
		yamlnode.RemoveEntry(ref, "kind")
		r.reportAt(o, Default, ref.Line, "nodeClassRef.kind: EC2NodeClass")
		yamlnode.Put(ref, yamlnode.Index(ref, "group")+2, yamlnode.Scalar("kind"), yamlnode.Scalar("EC2NodeClass"))
	}
	for _, field := range []string{"namespace", "uid"} {
		yamlnode.RemoveEntry(ref, field)
	}
}

// provisioner converts a Provisioner to a NodePool.
func (r *converter) provisioner(o *object) {
	spec := yamlnode.Get(o.node, "spec")
	r.inlineProvider(o, spec)
	r.disruption(o, spec)
	if limits := yamlnode.Get(spec, "limits"); yamlnode.Get(limits, "resources") != nil {
		r.report(o, Lossless, "spec.limits.resources", "spec.limits.resources is spec.limits now")
		yamlnode.Set(spec, "limits", yamlnode.Get(limits, "resources"))
	}
	r.apply(o)
	r.nodeClassRef(o)
	r.requirements(o)
	r.revalued(o)
	r.defaults(o)
	disruption := yamlnode.Ensure(spec, "disruption", -1)
	if yamlnode.Absent(yamlnode.Get(disruption, "budgets")) {
		r.report(o, Default, "spec.disruption", "spec.disruption.budgets: nodes 10%%, the default of v1; v1alpha5 had no budgets, which is nodes 100%%: for empty nodes that go together as before, write {nodes: \"100%%\", reasons: [Empty]}, {nodes: \"10%%\", reasons: [Drifted, Underutilized]} in its place")
		yamlnode.Set(disruption, "budgets", yamlnode.List(yamlnode.Mapping(yamlnode.Scalar("nodes"), yamlnode.Scalar("10%"))))
	}
}

// disruption turns the ways in which a Provisioner removed nodes into one policy.
func (r *converter) disruption(o *object, spec *yaml.Node) {
	empty, consolidates := yamlnode.Get(spec, "ttlSecondsAfterEmpty"), yamlnode.IsTrue(yamlnode.Get(spec, "consolidation.enabled"))
	policy := func(name string, after *yaml.Node) *yaml.Node {
		return yamlnode.Mapping(yamlnode.Scalar("consolidationPolicy"), yamlnode.Scalar(name), yamlnode.Scalar("consolidateAfter"), after)
	}
	if consolidates {
		r.report(o, Lossless, "spec.consolidation", "spec.consolidation is spec.disruption.consolidationPolicy WhenEmptyOrUnderutilized now")
		r.report(o, Default, "spec.consolidation", "spec.disruption.consolidateAfter: 0s, because v1alpha5 had no such setting")
		if !yamlnode.Absent(empty) {
			r.requireReview(o, yamlnode.LineOf(o.node, "spec.ttlSecondsAfterEmpty"), "spec.ttlSecondsAfterEmpty is dropped: v1alpha5 refused it beside consolidation; write its time to spec.disruption.consolidateAfter if it was meant")
		}
		yamlnode.RemoveEntry(spec, "ttlSecondsAfterEmpty")
		k, _, i := yamlnode.RemoveEntry(spec, "consolidation")
		k.Value = "disruption"
		yamlnode.Put(spec, i, k, policy("WhenEmptyOrUnderutilized", yamlnode.Scalar("0s")))
		return
	}
	if k, _, _ := yamlnode.RemoveEntry(spec, "consolidation"); k != nil {
		r.reportAt(o, Lossless, k.Line, "spec.consolidation is dropped: it was not enabled")
	}
	if yamlnode.Absent(empty) {
		yamlnode.RemoveEntry(spec, "ttlSecondsAfterEmpty")
		return
	}
	after := seconds(empty)
	r.report(o, Lossless, "spec.ttlSecondsAfterEmpty", "spec.ttlSecondsAfterEmpty is spec.disruption now, WhenEmpty after %s", yamlnode.Text(after))
	k, _, i := yamlnode.RemoveEntry(spec, "ttlSecondsAfterEmpty")
	k.Value = "disruption"
	yamlnode.Put(spec, i, k, policy("WhenEmpty", after))
}

// revalued reports requirements for review that name other nodes than they did.
func (r *converter) revalued(o *object) {
	requirements := yamlnode.Get(o.node, "spec.template.spec.requirements")
	if requirements == nil || requirements.Kind != yaml.SequenceNode {
		return
	}
	for _, q := range requirements.Content {
		if key := yamlnode.Get(q, "key"); slices.Contains(r.table.ChangedValues, yamlnode.Text(key)) && !yamlnode.Absent(yamlnode.Get(q, "values")) {
			r.requireReview(o, key.Line, "Karpenter 1.1 gave values of %s other names, such as inferentia2 and trainium beside inferentia; check that all that are meant are named", yamlnode.Text(key))
		}
	}
}

// requirements writes down those that v1alpha5 added by itself.
func (r *converter) requirements(o *object) {
	template := yamlnode.Ensure(yamlnode.Get(o.node, "spec"), "template.spec", -1)
	given := yamlnode.Get(template, "requirements")
	has := map[string]bool{}
	if given != nil {
		for _, item := range given.Content {
			has[yamlnode.Text(yamlnode.Get(item, "key"))] = true
		}
	}
	var added []*yaml.Node
	for _, q := range r.table.Requirements {
		if slices.ContainsFunc(q.Unless, func(key string) bool { return has[key] }) {
			continue
		}
		values := yamlnode.List()
		values.Style = yaml.FlowStyle
		for _, v := range q.Values {
			values.Content = append(values.Content, yamlnode.Quoted(v))
		}
		r.report(o, Default, "spec.template.spec.requirements", "requirement %s %s [%s], which v1alpha5 added by itself", q.Key, q.Operator, strings.Join(q.Values, ", "))
		added = append(added, yamlnode.Mapping(yamlnode.Scalar("key"), yamlnode.Scalar(q.Key), yamlnode.Scalar("operator"), yamlnode.Scalar(q.Operator), yamlnode.Scalar("values"), values))
	}
	if len(added) == 0 {
		return
	}
	if yamlnode.Absent(given) {
		yamlnode.Set(template, "requirements", yamlnode.List(added...))
		return
	}
	given.Content = append(given.Content, added...)
}
