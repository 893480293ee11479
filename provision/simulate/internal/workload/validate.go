package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Validate returns why the API server would refuse a pod, as far as Karpenter's scheduler
// takes for granted that it has not: over some problems the scheduler ends the
// process.
func Validate(meta metav1.ObjectMeta, spec corev1.PodSpec) error {
	if len(spec.Containers) == 0 {
		return errors.New("it has no containers")
	}
	errs := []error{validateLabels(meta.Labels), validateLabels(spec.NodeSelector), validateQuantities(spec.Overhead), validateAffinity(spec.Affinity)}
	if spec.Resources != nil {
		errs = append(errs, validateQuantities(spec.Resources.Requests), validateQuantities(spec.Resources.Limits))
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		errs = append(errs, validateQuantities(c.Resources.Requests), validateQuantities(c.Resources.Limits))
		for _, port := range c.Ports {
			if port.HostPort < 0 || port.HostPort > 65535 {
				errs = append(errs, fmt.Errorf("%d is no port", port.HostPort))
			}
		}
	}
	for _, spread := range spec.TopologySpreadConstraints {
		errs = append(errs, validateSpread(spread))
	}
	for _, t := range spec.Tolerations {
		known := slices.Contains([]corev1.TolerationOperator{"", corev1.TolerationOpExists, corev1.TolerationOpEqual, corev1.TolerationOpLt, corev1.TolerationOpGt}, t.Operator) &&
			slices.Contains([]corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect)
		if !known || t.Key == "" && t.Operator != corev1.TolerationOpExists {
			errs = append(errs, fmt.Errorf("%q %q %q is no toleration", t.Key, t.Operator, t.Effect))
		}
	}
	return cmp.Or(errs...)
}

func validateLabels(set map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(set[key])) > 0 {
			return fmt.Errorf("%q is no label", key+"="+set[key])
		}
	}
	return nil
}

func validateQuantities(list corev1.ResourceList) error {
	for _, name := range SortedNames(list) {
		if quantity := list[name]; quantity.Sign() < 0 {
			return fmt.Errorf("%s of %s is less than nothing", quantity.String(), name)
		}
	}
	return nil
}

func validateSpread(spread corev1.TopologySpreadConstraint) error {
	known := spread.WhenUnsatisfiable == corev1.DoNotSchedule || spread.WhenUnsatisfiable == corev1.ScheduleAnyway
	if spread.MaxSkew < 1 || spread.MinDomains != nil && *spread.MinDomains < 1 || !known {
		return fmt.Errorf("maxSkew %d and whenUnsatisfiable %q make no spread", spread.MaxSkew, spread.WhenUnsatisfiable)
	}
	return validateTerm(spread.TopologyKey, spread.LabelSelector, spread.MatchLabelKeys)
}

func validateTerm(topology string, selector *metav1.LabelSelector, keys []string) error {
	for _, key := range append([]string{topology}, keys...) {
		if len(validation.IsQualifiedName(key)) > 0 {
			return fmt.Errorf("%q is no key of labels", key)
		}
	}
	_, err := metav1.LabelSelectorAsSelector(selector)
	return err
}

func validateAffinity(affinity *corev1.Affinity) error {
	if affinity == nil {
		return nil
	}
	var errs []error
	if near := affinity.NodeAffinity; near != nil {
		var terms []corev1.NodeSelectorTerm
		if required := near.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			if terms = required.NodeSelectorTerms; len(terms) == 0 {
				return errors.New("its required node affinity has no terms")
			}
		}
		for _, preferred := range near.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(slices.Clip(terms), preferred.Preference)
		}
		for _, term := range terms {
			for _, expression := range term.MatchExpressions {
				errs = append(errs, validateExpression(expression))
			}
		}
	}
	for _, term := range AffinityTerms(&corev1.Pod{Spec: corev1.PodSpec{Affinity: affinity}}) {
		errs = append(errs, validateTerm(term.TopologyKey, term.LabelSelector, slices.Concat(term.MatchLabelKeys, term.MismatchLabelKeys)))
		_, err := metav1.LabelSelectorAsSelector(term.NamespaceSelector)
		errs = append(errs, err)
	}
	return cmp.Or(errs...)
}

func validateExpression(e corev1.NodeSelectorRequirement) error {
	operator, ok := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
		corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
		corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
	}[e.Operator]
	if !ok {
		return fmt.Errorf("there is no operator %q", e.Operator)
	}
	_, err := labels.NewRequirement(e.Key, operator, e.Values)
	return err
}

// AffinityTerms are all terms by which a pod seeks or shuns others.
func AffinityTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if pod.Spec.Affinity == nil {
		return nil
	}
	var out []corev1.PodAffinityTerm
	var preferred []corev1.WeightedPodAffinityTerm
	if near := pod.Spec.Affinity.PodAffinity; near != nil {
		out = append(out, near.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, near.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if far := pod.Spec.Affinity.PodAntiAffinity; far != nil {
		out = append(out, far.RequiredDuringSchedulingIgnoredDuringExecution...)
		preferred = append(preferred, far.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, term := range preferred {
		out = append(out, term.PodAffinityTerm)
	}
	return out
}

// SortedNames are the names of the resources in order.
func SortedNames(list corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
