package conversion

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/poolwright/poolwright/reconciler/declared/conversion/internal/yamlnode"
)

// checkClass blocks a class that v1 cannot express.
func (r *converter) checkClass(o *object) {
	if r.shape(o); o.blocked {
		return
	}
	if other := r.rival(o); other != nil {
		r.block(o, "metadata.name", "there is an %s of this name, too (%s:%d); remove the one that no longer counts", other.kind, other.file, other.line)
		return
	}
	if o.kind == "AWSNodeTemplate" {
		r.checkTemplateSpec(o, "spec")
		return
	}
	r.checkIdentity(o, "spec")
	r.checkVolumes(o, "spec")
	family := yamlnode.Text(yamlnode.Get(o.node, "spec.amiFamily"))
	if yamlnode.Absent(yamlnode.Get(o.node, "spec.amiSelectorTerms")) {
		r.checkFamily(o, "spec", family, "amiSelectorTerms")
	}
	for _, field := range []string{"subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"} {
		r.checkList(o, "spec."+field)
	}
	r.checkTerms(o, "spec", "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms")
}

// checkFamily blocks a class without AMI terms whose family has no alias.
func (r *converter) checkFamily(o *object, at, family, field string) {
	switch {
	case r.table.Aliases[family] != "":
	case strings.HasPrefix(family, "Ubuntu"):
		r.block(o, at+".amiFamily", "Karpenter v1 finds no Ubuntu AMIs by itself; write %s.%s with their ids, or with a name such as ubuntu-eks/k8s_1.32/images/* and owner 099720109477, and convert again", at, field)
	case family == "Custom":
		r.block(o, at+".amiFamily", "amiFamily Custom needs %s.%s; write which AMIs", at, field)
	case family == "":
		r.block(o, at+".amiFamily", "%s.amiFamily is missing, which v1beta1 required; write it", at)
	case yamlnode.HasVariable(yamlnode.Get(o.node, at+".amiFamily")):
		if !r.opts.UnresolvedVariables {
			r.block(o, at+".amiFamily", "amiFamily is %s, and what becomes of it depends on its value; write AL2, AL2023 or Bottlerocket, convert, and put a variable into the alias of spec.amiSelectorTerms, whose value is such as al2023@latest", family)
		}
	default:
		r.block(o, at+".amiFamily", "amiFamily %s is not known; it is one of AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Ubuntu, Custom", family)
	}
}

// checkIdentity blocks a class that does not declare what its nodes may do.
func (r *converter) checkIdentity(o *object, at string) {
	role, profile := !yamlnode.Absent(yamlnode.Get(o.node, at+".role")), !yamlnode.Absent(yamlnode.Get(o.node, at+".instanceProfile"))
	switch {
	case role && profile:
		r.block(o, at+".role", "%s has role and instanceProfile; remove one", at)
	case !role && !profile && r.defaultProfile(o) == nil:
		r.block(o, at, "%s has neither role nor instanceProfile, which v1 requires (aws.defaultInstanceProfile of karpenter-global-settings is gone); write one", at)
	}
}

// checkVolumes blocks a class with a volume that has no size.
func (r *converter) checkVolumes(o *object, at string) {
	r.checkList(o, at+".blockDeviceMappings")
	mappings := yamlnode.Get(o.node, at+".blockDeviceMappings")
	if mappings == nil || o.blocked {
		return
	}
	for _, m := range mappings.Content {
		if ebs := yamlnode.Get(m, "ebs"); ebs != nil && yamlnode.Absent(yamlnode.Get(ebs, "volumeSize")) && yamlnode.Absent(yamlnode.Get(ebs, "snapshotID")) {
			r.block(o, at+".blockDeviceMappings", "a volume of blockDeviceMappings has neither volumeSize nor snapshotID, one of which v1 requires; write its size")
			return
		}
	}
}

// checkTemplateSpec blocks what the spec of an AWSNodeTemplate, or the provider
// in a Provisioner, holds and v1 does not have.
func (r *converter) checkTemplateSpec(o *object, at string) {
	for _, field := range []string{"launchTemplate", "launchTemplateName"} {
		if !yamlnode.Absent(yamlnode.Get(o.node, at+"."+field)) {
			r.block(o, at+"."+field, "Karpenter v1 takes no launch templates; write what it holds into the class instead (amiSelectorTerms, userData, securityGroupSelectorTerms, blockDeviceMappings, metadataOptions, role or instanceProfile), remove %s, and convert again", field)
			return
		}
	}
	for _, field := range []string{"subnetSelector", "securityGroupSelector", "amiSelector"} {
		n := yamlnode.Get(o.node, at+"."+field)
		if n != nil && !yamlnode.Absent(n) && (n.Kind != yaml.MappingNode || slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Kind != yaml.ScalarNode })) {
			r.block(o, at+"."+field, "%s.%s must be a mapping of texts%s", at, field, remedy(n))
		} else if yamlnode.Absent(n) && field != "amiSelector" {
			r.block(o, at+"."+field, "%s.%s is missing; write which, by tags or by aws-ids", at, field)
		} else if n != nil {
			r.checkValues(o, at, field, n)
		}
	}
	r.checkTerms(o, at, "subnetSelector", "securityGroupSelector", "amiSelector")
	r.checkIdentity(o, at)
	r.checkVolumes(o, at)
	if family := yamlnode.Text(yamlnode.Get(o.node, at+".amiFamily")); family != "" && yamlnode.Absent(yamlnode.Get(o.node, at+".amiSelector")) {
		r.checkFamily(o, at, family, "amiSelector")
	}
}

// defaultProfile is the instance profile that Karpenter's old settings gave to
// every template without one, if they are among the manifests.
func (r *converter) defaultProfile(o *object) *yaml.Node {
	var settings []*object
	for _, s := range r.called("karpenter-global-settings") {
		if s.is("", "ConfigMap") {
			settings = append(settings, s)
		}
	}
	if s, one := r.nearest(o.file, settings); one && o.rules != nil && strings.Contains(o.rules.Old, "alpha") {
		data := yamlnode.Get(s.node, "data")
		if i := yamlnode.Index(data, "aws.defaultInstanceProfile"); i >= 0 && yamlnode.Text(data.Content[i+1]) != "" {
			return data.Content[i+1]
		}
	}
	return nil
}

// betaClass converts an EC2NodeClass of v1beta1.
func (r *converter) betaClass(o *object) {
	r.apply(o)
	spec := yamlnode.Get(o.node, "spec")
	for _, field := range []string{"subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"} {
		r.explode(o, yamlnode.Get(spec, field), field)
	}
	r.amiFamily(o, spec)
	r.tags(o, spec)
	r.defaults(o)
}

// template converts an AWSNodeTemplate to an EC2NodeClass.
func (r *converter) template(o *object) {
	r.apply(o)
	r.templateSpec(o, yamlnode.Get(o.node, "spec"))
	r.defaults(o)
}

// templateSpec converts the spec of an AWSNodeTemplate.
func (r *converter) templateSpec(o *object, spec *yaml.Node) {
	for _, s := range []struct{ old, new string }{
		{"subnetSelector", "subnetSelectorTerms"}, {"securityGroupSelector", "securityGroupSelectorTerms"}, {"amiSelector", "amiSelectorTerms"},
	} {
		r.selector(o, spec, s.old, s.new)
	}
	if yamlnode.Absent(yamlnode.Get(spec, "amiFamily")) {
		yamlnode.RemoveEntry(spec, "amiFamily")
		if yamlnode.Absent(yamlnode.Get(spec, "amiSelectorTerms")) {
			r.report(o, Default, "spec", "amiSelectorTerms: alias al2@latest, the default of v1alpha1")
			yamlnode.Set(spec, "amiSelectorTerms", yamlnode.List(yamlnode.Mapping(yamlnode.Scalar("alias"), yamlnode.Scalar("al2@latest"))))
		} else {
			r.report(o, Default, "spec", "amiFamily: AL2, the default of v1alpha1")
			yamlnode.Set(spec, "amiFamily", yamlnode.Scalar("AL2"))
		}
	} else {
		r.amiFamily(o, spec)
	}
	if yamlnode.Absent(yamlnode.Get(spec, "instanceProfile")) && yamlnode.Absent(yamlnode.Get(spec, "role")) {
		profile := r.defaultProfile(o)
		r.report(o, Default, "spec", "instanceProfile: %s, which karpenter-global-settings gave to templates without one", yamlnode.Text(profile))
		yamlnode.Set(spec, "instanceProfile", yamlnode.Scalar(yamlnode.Text(profile)))
	}
	r.tags(o, spec)
}

// amiFamily turns a family into an alias where the terms do not select AMIs.
func (r *converter) amiFamily(o *object, spec *yaml.Node) {
	family, terms := yamlnode.Text(yamlnode.Get(spec, "amiFamily")), yamlnode.Get(spec, "amiSelectorTerms")
	line := yamlnode.LineOf(spec, "amiFamily")
	if strings.HasPrefix(family, "Ubuntu") {
		r.ubuntu(o, spec)
		return
	}
	if family == "Custom" {
		r.requireReview(o, line, "amiFamily Custom: the user data must register nodes with the taint karpenter.sh/unregistered:NoExecute, which v1 requires; check that it does")
	}
	if !yamlnode.Absent(terms) && r.unknown(yamlnode.Get(spec, "amiFamily")) {
		r.requireReview(o, line, "amiFamily %s is kept as it is written: where its value is Ubuntu, make that AL2, and where it is Custom, the user data must register nodes with the taint karpenter.sh/unregistered:NoExecute, both of which v1 requires", family)
	}
	alias := r.table.Aliases[family]
	if alias == "" && yamlnode.HasVariable(yamlnode.Get(spec, "amiFamily")) {
		alias = family // of a draft alone
	}
	if alias == "" || !yamlnode.Absent(terms) {
		return
	}
	yamlnode.RemoveEntry(spec, "amiSelectorTerms")
	r.reportAt(o, Lossless, line, "amiFamily %s is the alias %s@latest now", family, alias)
	k, _, i := yamlnode.RemoveEntry(spec, "amiFamily")
	k.Value = "amiSelectorTerms"
	yamlnode.Put(spec, i, k, yamlnode.List(yamlnode.Mapping(yamlnode.Scalar("alias"), yamlnode.Scalar(alias+"@latest"))))
}

// ubuntu keeps Ubuntu's AMIs, which v1 starts as those of AL2.
func (r *converter) ubuntu(o *object, spec *yaml.Node) {
	family := yamlnode.Get(spec, "amiFamily")
	r.reportAt(o, Lossless, yamlnode.LineOf(spec, "amiFamily"), "amiFamily %s is AL2 now, which starts such nodes in the same way", yamlnode.Text(family))
	family.Value = "AL2"
	if yamlnode.Absent(yamlnode.Get(spec, "blockDeviceMappings")) {
		yamlnode.RemoveEntry(spec, "blockDeviceMappings")
		r.report(o, Default, "spec", "blockDeviceMappings: /dev/sda1 with 20Gi, encrypted, gp3, the default of Ubuntu")
		yamlnode.Set(spec, "blockDeviceMappings", yamlnode.List(yamlnode.Mapping(
			yamlnode.Scalar("deviceName"), yamlnode.Scalar("/dev/sda1"),
			yamlnode.Scalar("rootVolume"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"},
			yamlnode.Scalar("ebs"), yamlnode.Mapping(yamlnode.Scalar("encrypted"), &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: "true"},
				yamlnode.Scalar("volumeType"), yamlnode.Scalar("gp3"), yamlnode.Scalar("volumeSize"), yamlnode.Scalar("20Gi")),
		)))
	}
}

// tags drops those that Karpenter sets itself.
func (r *converter) tags(o *object, spec *yaml.Node) {
	tags := yamlnode.Get(spec, "tags")
	if tags == nil || tags.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(tags.Content); {
		key := tags.Content[i].Value
		if !slices.ContainsFunc(r.table.OwnTags, func(own string) bool {
			return key == own || strings.HasSuffix(own, "/") && strings.HasPrefix(key, own)
		}) {
			i += 2
			continue
		}
		r.reportAt(o, Lossless, tags.Content[i].Line, "tag %s is dropped: Karpenter sets it itself", key)
		tags.Content = slices.Delete(tags.Content, i, i+2)
	}
	if len(tags.Content) == 0 {
		yamlnode.RemoveEntry(spec, "tags")
	}
}

// inlineProvider moves the provider in a Provisioner to a class of its own.
func (r *converter) inlineProvider(o *object, spec *yaml.Node) {
	k, provider, i := yamlnode.RemoveEntry(spec, "provider")
	if k == nil || yamlnode.Absent(provider) {
		return
	}
	r.reportAt(o, Lossless, k.Line, "spec.provider is the EC2NodeClass %s now", o.name())
	k.Value = "providerRef"
	yamlnode.Put(spec, i, k, yamlnode.Mapping(yamlnode.Scalar("name"), yamlnode.Scalar(o.name())))
	yamlnode.RemoveEntry(provider, "apiVersion")
	yamlnode.RemoveEntry(provider, "kind")
	n := r.beside(o, yamlnode.Mapping(yamlnode.Scalar("apiVersion"), yamlnode.Scalar("karpenter.k8s.aws/v1"), yamlnode.Scalar("kind"), yamlnode.Scalar("EC2NodeClass"),
		yamlnode.Scalar("metadata"), yamlnode.Mapping(yamlnode.Scalar("name"), yamlnode.Scalar(o.name())), yamlnode.Scalar("spec"), provider))
	r.identify(n)
	n.rules = r.table.Rules("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate")
	r.template(n)
}

// beside adds a new object next to another, in its file.
func (r *converter) beside(o *object, node *yaml.Node) *object {
	n := &object{file: o.file, line: o.line, node: node, objectPosition: objectPosition{o.page, node, o.items}, item: -1}
	switch {
	case o.items != nil:
		i := slices.Index(o.items.Content, o.node)
		o.items.Content = slices.Insert(o.items.Content, i+1, node)
		n.root = o.root
	case o.page != nil:
		o.page.Add(o.root, node)
	}
	r.objects = append(r.objects, n)
	return n
}
