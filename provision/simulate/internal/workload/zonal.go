package workload

import (
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// Zonal reports whether the number or the names of zones decide about a pod.
func Zonal(pod *corev1.Pod) bool {
	desired := scheduling.NewStrictPodRequirements(pod)
	if desired.Has(corev1.LabelTopologyZone) || desired.Has(awsv1.LabelTopologyZoneID) {
		return true
	}
	for _, spread := range pod.Spec.TopologySpreadConstraints {
		if spread.TopologyKey == corev1.LabelTopologyZone && spread.MinDomains != nil && spread.WhenUnsatisfiable == corev1.DoNotSchedule {
			return true
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		func(t corev1.PodAffinityTerm) bool { return t.TopologyKey == corev1.LabelTopologyZone })
}
