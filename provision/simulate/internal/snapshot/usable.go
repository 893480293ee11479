package snapshot

import (
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpv1alpha1 "sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// mostPrice bounds the price of an overlay, in USD per hour: the CRD allows hundreds of
// digits, whose sum is infinite and cannot be written as JSON.
const mostPrice = 1e9

// usablePrice reports whether the overlay's price is within mostPrice, and is none on
// which Karpenter's code panics.
func usablePrice(overlay *karpv1alpha1.NodeOverlay) (usable bool) {
	defer func() { _ = recover() }() // The zero value is then returned.
	return cloudprovider.AdjustedPrice(1, ptr.Deref(overlay.Spec.Price, "")) <= mostPrice &&
		cloudprovider.AdjustedPrice(1, ptr.Deref(overlay.Spec.PriceAdjustment, "")) <= mostPrice
}

// badAlias is the alias on which the provider would end the process, or nothing.
func badAlias(class *awsv1.EC2NodeClass) string {
	for _, term := range class.Spec.AMISelectorTerms {
		if term.Alias == "" {
			continue
		}
		name, version, ok := strings.Cut(term.Alias, "@")
		known := slices.ContainsFunc([]string{
			awsv1.AMIFamilyAL2, awsv1.AMIFamilyAL2023, awsv1.AMIFamilyBottlerocket,
			awsv1.AMIFamilyWindows2019, awsv1.AMIFamilyWindows2022, awsv1.AMIFamilyWindows2025,
		}, func(family string) bool { return strings.ToLower(family) == name })
		if !ok || !known || strings.Contains(version, "@") {
			return term.Alias
		}
	}
	return ""
}

// badRequirement is the first requirement on which Karpenter's code panics: one that compares
// numbers and has none. By the rules of the CRD it must have one value; nil is none such.
func badRequirement(pool *karpv1.NodePool) *karpv1.NodeSelectorRequirementWithMinValues {
	for i, r := range pool.Spec.Template.Spec.Requirements {
		compares := []corev1.NodeSelectorOperator{corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, karpv1.NodeSelectorOpGte, karpv1.NodeSelectorOpLte}
		if slices.Contains(compares, r.Operator) && len(r.Values) != 1 {
			return &pool.Spec.Template.Spec.Requirements[i]
		}
	}
	return nil
}
