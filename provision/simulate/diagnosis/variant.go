package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// mostVariants bounds the alternatives that are compared with each pool.
const mostVariants = 64

// variant is one alternative of what a pod requires of its node's labels.
type variant struct {
	// own are the pod's requirements, volumes those of its volumes.
	own     scheduling.Requirements
	volumes []claimRequirements
	// terms are the parts of it as node affinity has them.
	terms []corev1.NodeSelectorRequirement
}

// claimRequirements are what the volume of a PersistentVolumeClaim requires.
type claimRequirements struct {
	name     string
	requires scheduling.Requirements
}

// all are the requirements of the pod and its volumes together.
func (v variant) all() scheduling.Requirements {
	out := scheduling.NewRequirements(v.own.Values()...)
	for _, c := range v.volumes {
		out.Add(c.requires.Values()...)
	}
	return out
}

// variants are the alternatives of a pod: one of the terms of its node affinity with one of each volume's. Complete is false
// where there are more.
func variants(pod *corev1.Pod, volumes []Volume) (out []variant, complete bool) {
	terms := []corev1.NodeSelectorTerm{{}}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if given := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(given) > 0 {
			terms = given
		}
	}
	for _, term := range terms {
		own := scheduling.NewLabelRequirements(pod.Spec.NodeSelector)
		own.Add(scheduling.NewNodeSelectorRequirements(term.MatchExpressions...).Values()...)
		out = append(out, variant{own: own, terms: term.MatchExpressions})
	}
	complete = len(out) <= mostVariants
	for _, volume := range volumes {
		if len(volume.Terms) == 0 {
			continue
		}
		next := withVolume(out, volume)
		complete = complete && len(next) <= mostVariants
		out = next[:min(len(next), mostVariants)]
	}
	return out[:min(len(out), mostVariants)], complete
}

// withVolume are the alternatives each with each of a volume's. As Karpenter's scheduler does, it leaves out those that
// contradict themselves, unless all do.
func withVolume(all []variant, volume Volume) []variant {
	var out, contradictory []variant
	for _, v := range all {
		given := v.all()
		for _, term := range volume.Terms {
			requires := scheduling.NewNodeSelectorRequirements(term.MatchExpressions...)
			next := variant{
				own: v.own, volumes: append(slices.Clone(v.volumes), claimRequirements{volume.Claim, requires}),
				terms: slices.Concat(v.terms, term.MatchExpressions),
			}
			if given.Intersects(requires) == nil {
				out = append(out, next)
			} else {
				contradictory = append(contradictory, next)
			}
		}
	}
	if len(out) == 0 {
		return contradictory
	}
	return out
}

// constrained is the pod, as one that is pending, with the requirements of its volumes in its node affinity.
func constrained(pod *corev1.Pod, all []variant) *corev1.Pod {
	out := snapshot.Unbound(pod.DeepCopy())
	if !slices.ContainsFunc(all, func(v variant) bool { return len(v.volumes) > 0 }) {
		return out
	}
	if out.Spec.Affinity == nil {
		out.Spec.Affinity = &corev1.Affinity{}
	}
	if out.Spec.Affinity.NodeAffinity == nil {
		out.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := &corev1.NodeSelector{}
	for _, v := range all {
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: v.terms})
	}
	out.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	return out
}

// joined are both requirements.
func joined(a, b scheduling.Requirements) scheduling.Requirements {
	out := scheduling.NewRequirements(a.Values()...)
	out.Add(b.Values()...)
	return out
}

// sorted are the keys of requirements.
func sorted(r scheduling.Requirements) []string {
	out := r.Keys().UnsortedList()
	slices.Sort(out)
	return out
}
