package gpulint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// images finds classes of GPU pools whose AMIs have no NVIDIA driver. An AMI whose name
// does not show it passes; so does everything where the repository itself installs
// drivers.
func (c *linter) images() {
	if c.installs("gpu-operator", "nvidia/driver") {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		k := c.classes[name]
		var pools []string
		for _, p := range c.pools {
			if p.forGPUs() && p.Spec.Template.Spec.Class.Name == name {
				pools = append(pools, p.name)
			}
		}
		if len(pools) == 0 || len(k.Spec.Terms) == 0 {
			continue
		}
		var found []string
		for _, t := range k.Spec.Terms {
			if what := t.withoutDriver(); what != "" {
				found = append(found, what)
			}
		}
		if len(found) == len(k.Spec.Terms) {
			c.problem(k.item, "spec.amiSelectorTerms[0]", codeAMIWithoutDriver, "selects %s, without NVIDIA's driver, so that no node of NodePool %s ever advertises a GPU: %s",
				finding.NewFact("ami", found[0]), finding.As("nodePools", pools, strings.Join(pools, ", ")), k.Spec.Terms[0].remedy())
		}
	}
}

// unregisteredTaint is what the kubelet must put on a node that Karpenter launched
// until Karpenter has taken it in. On images that Karpenter supports, it does that
// itself.
const unregisteredTaint = "karpenter.sh/unregistered"

// registration finds classes of GPU pools whose nodes are open to pods before
// Karpenter, and we, observe them. Nothing of the user data is repeated.
func (c *linter) registration() {
	for _, name := range slices.Sorted(maps.Keys(c.classes)) {
		k := c.classes[name]
		if !strings.EqualFold(k.Spec.Family, "Custom") || strings.Contains(k.Spec.UserData, unregisteredTaint) {
			continue
		}
		at := slices.IndexFunc(c.pools, func(p *pool) bool {
			return p.served && p.forGPUs() && p.Spec.Template.Spec.Class.Name == name
		})
		if at >= 0 {
			c.warn(k.item, "spec.userData", codeUnregisteredTaintMissing, "does not have the kubelet register with the taint %s, so that pods may come to nodes of NodePool %s before their GPUs are what they should be, and be refused: let the kubelet register with %s:NoExecute, which Karpenter takes off, unless the image does so itself",
				finding.NewFact("taint", unregisteredTaint), finding.NewFact("nodePool", c.pools[at].called()), unregisteredTaint)
		}
	}
}

// withoutDriver names the kind of AMI that a term selects, if that visibly has no
// NVIDIA driver.
func (t amiTerm) withoutDriver() string {
	alias, _, _ := strings.Cut(strings.ToLower(t.Alias), "@")
	if strings.HasPrefix(alias, "windows") {
		return "a Windows AMI"
	}
	if what := byPath(strings.ToLower(t.Parameter)); what != "" {
		return what
	}
	texts := []string{t.Name}
	for _, key := range slices.Sorted(maps.Keys(t.Tags)) {
		texts = append(texts, t.Tags[key])
	}
	for _, text := range texts {
		if what := byName(strings.ToLower(text)); what != "" {
			return what
		}
	}
	return ""
}

// byPath has the public parameters of AWS.
func byPath(path string) string {
	has := func(part string) bool { return strings.Contains(path, part) }
	switch {
	case has("nvidia") || has("gpu"):
		return ""
	case has("/aws/service/eks/optimized-ami/") && has("/neuron/"):
		return "the Neuron variant of an EKS AMI"
	case has("/aws/service/eks/optimized-ami/") && has("/standard/"):
		return "the standard variant of an EKS AMI"
	case has("/aws/service/eks/optimized-ami/") && (has("/amazon-linux-2/") || has("/amazon-linux-2-arm64/")):
		return "the standard variant of an EKS AMI"
	case has("/aws/service/bottlerocket/aws-k8s-"):
		return "the plain Bottlerocket AMI"
	case has("/aws/service/ami-windows-latest/"):
		return "a Windows AMI"
	}
	return ""
}

// byName has the names of AWS's AMIs. A pattern that also fits a name with a driver
// passes.
func byName(name string) string {
	has := func(part string) bool { return strings.Contains(name, part) }
	switch {
	case has("nvidia") || has("gpu"):
		return ""
	case strings.HasPrefix(name, "amazon-eks-node-al2023-") && has("-neuron-"):
		return "the Neuron variant of an EKS AMI"
	case strings.HasPrefix(name, "amazon-eks-node-al2023-") && has("-standard-"):
		return "the standard variant of an EKS AMI"
	case strings.HasPrefix(name, "amazon-eks-node-1.") || strings.HasPrefix(name, "amazon-eks-arm64-node-"):
		return "the standard variant of an EKS AMI"
	case strings.HasPrefix(name, "bottlerocket-aws-k8s-") && lacksNVIDIA(name):
		return "the plain Bottlerocket AMI"
	case strings.HasPrefix(name, "windows_server-"):
		return "a Windows AMI"
	}
	return ""
}

// lacksNVIDIA reports whether a Bottlerocket name has the architecture right
// behind the version, where the NVIDIA variant has its mark.
func lacksNVIDIA(name string) bool {
	version, _, ok := strings.Cut(strings.TrimPrefix(name, "bottlerocket-aws-k8s-"), "-")
	return ok && !strings.ContainsAny(version, "*?[") && (strings.HasPrefix(name, "bottlerocket-aws-k8s-"+version+"-x86_64") || strings.HasPrefix(name, "bottlerocket-aws-k8s-"+version+"-aarch64"))
}

// remedy is how to select an AMI with the driver.
func (t amiTerm) remedy() string {
	const alias = "the alias al2023@latest, or bottlerocket@latest, picks the NVIDIA variant for GPU nodes by itself"
	switch {
	case strings.Contains(t.Parameter, "/standard/"):
		return fmt.Sprintf("write nvidia for standard in the parameter; %s", alias)
	case strings.Contains(t.Name, "-standard-"):
		return fmt.Sprintf("write nvidia for standard in the name; %s", alias)
	}
	return alias
}
