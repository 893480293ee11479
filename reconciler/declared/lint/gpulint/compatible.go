package gpulint

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/poolwright/poolwright/provision/catalog"
)

func isNVIDIA(resource string) bool { return strings.HasPrefix(resource, "nvidia.com/") }

// compatiblePool is a pool that a workload's pods can run in, with the types of it that
// have GPUs and that they can run on.
type compatiblePool struct {
	*pool
	on []instanceType
}

// compatiblePools are the declared pools whose GPU nodes the pods can run on, by labels
// and taints, in the order in which Karpenter tries them.
func (r *repository) compatiblePools(w workload) []compatiblePool {
	if w.pod.NodeName != "" {
		return nil
	}
	var out []compatiblePool
	choices := alternatives(w.pod)
	for _, p := range r.pools {
		if !r.toleratesAll(w.pod.Tolerations, p.taintList()) {
			continue
		}
		on := p.reachable(choices)
		if len(on) > 0 {
			out = append(out, compatiblePool{p, on})
		}
	}
	slices.SortStableFunc(out, func(a, b compatiblePool) int {
		if a.Spec.Weight != b.Spec.Weight {
			return int(max(-1, min(1, b.Spec.Weight-a.Spec.Weight)))
		}
		return strings.Compare(b.name, a.name)
	})
	return out
}

// reachable are the pool's types with GPUs that meet one of several lists of
// requirements.
func (p *pool) reachable(choices [][]catalog.Requirement) []instanceType {
	var byType [][]catalog.Requirement
	for _, r := range choices {
		switch {
		case !p.mayHave(r):
		case !slices.ContainsFunc(r, catalog.Requirement.ByType):
			return p.gpus
		default:
			byType = append(byType, r)
		}
	}
	if len(byType) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.gpus), func(t instanceType) bool { return !slices.ContainsFunc(byType, t.satisfies) })
}

// alternatives are the requirements of a pod on its node, of which one list must
// be met.
func alternatives(pod corev1.PodSpec) [][]catalog.Requirement {
	var always []catalog.Requirement
	for _, key := range slices.Sorted(maps.Keys(pod.NodeSelector)) {
		always = append(always, catalog.Requirement{Key: current(key), Operator: "In", Values: []string{pod.NodeSelector[key]}})
	}
	if pod.Affinity == nil || pod.Affinity.NodeAffinity == nil || pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return [][]catalog.Requirement{always}
	}
	var out [][]catalog.Requirement
	for _, term := range pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		one := slices.Clone(always)
		for _, e := range term.MatchExpressions {
			one = append(one, catalog.Requirement{Key: current(e.Key), Operator: string(e.Operator), Values: e.Values})
		}
		out = append(out, one)
	}
	return out
}

// current is the name of today for labels that have an old one.
func current(key string) string {
	switch key {
	case "beta.kubernetes.io/arch":
		return "kubernetes.io/arch"
	case "beta.kubernetes.io/os":
		return "kubernetes.io/os"
	case "beta.kubernetes.io/instance-type":
		return "node.kubernetes.io/instance-type"
	case "failure-domain.beta.kubernetes.io/zone":
		return "topology.kubernetes.io/zone"
	case "failure-domain.beta.kubernetes.io/region":
		return "topology.kubernetes.io/region"
	}
	return key
}

// mayHave reports whether a node of the pool can meet requirements by labels that
// the type does not decide.
func (p *pool) mayHave(requirements []catalog.Requirement) bool {
	return !slices.ContainsFunc(requirements, func(r catalog.Requirement) bool { return !r.ByType() && !p.mayHaveLabel(r) })
}

func (p *pool) mayHaveLabel(r catalog.Requirement) bool {
	if r.Key == "karpenter.sh/nodepool" {
		return r.Met(map[string]string{r.Key: p.name})
	}
	if value, has := p.labels()[r.Key]; has {
		return r.Met(map[string]string{r.Key: value})
	}
	var own []catalog.Requirement
	var values []string
	for _, o := range p.Spec.Template.Spec.Requirements {
		if o.Key == r.Key {
			own = append(own, o)
			if o.Operator == "In" {
				values = append(values, o.Values...)
			}
		}
	}
	switch {
	case len(values) > 0:
		return slices.ContainsFunc(values, func(v string) bool {
			labels := map[string]string{r.Key: v}
			return r.Met(labels) && !slices.ContainsFunc(own, func(o catalog.Requirement) bool { return !o.Met(labels) })
		})
	case len(own) > 0 || knownLabel(r.Key):
		// A node has the label, with whatever value the pod needs.
		return r.Operator != "DoesNotExist"
	}
	// A label that nobody declares: nodes have it by other means, if at all, and
	// Karpenter launches none for a pod that needs it.
	return r.Met(nil)
}

// knownLabel reports whether every node has the label, and the pool does not set its
// value.
func knownLabel(key string) bool {
	return strings.HasPrefix(key, "topology.kubernetes.io/") || strings.HasPrefix(key, "topology.k8s.aws/") ||
		strings.HasPrefix(key, "karpenter.k8s.aws/") || key == "karpenter.sh/capacity-type" ||
		key == "kubernetes.io/os" || key == "kubernetes.io/hostname"
}

// toleratesAll reports whether pods with these tolerations can run on nodes with
// these taints. One that only makes the scheduler hesitate keeps nobody away.
func (r *repository) toleratesAll(tolerations []corev1.Toleration, taints []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerated(tolerations, t)
	})
}

func tolerated(tolerations []corev1.Toleration, t corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(o corev1.Toleration) bool {
		return o.ToleratesTaint(klog.Background(), &t, false)
	})
}
