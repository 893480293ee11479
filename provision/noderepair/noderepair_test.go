package noderepair

import (
	"testing"

	awscloudprovider "github.com/aws/karpenter-provider-aws/pkg/cloudprovider"
	corev1 "k8s.io/api/core/v1"
)

func TestTheConditionsAreThoseOfKarpentersRepairPolicies(t *testing.T) {
	known := map[corev1.NodeConditionType]bool{}
	for _, p := range (&awscloudprovider.CloudProvider{}).RepairPolicies() {
		if p.ConditionType == corev1.NodeReady {
			continue
		}
		known[p.ConditionType] = true
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}, {Type: p.ConditionType, Status: p.ConditionStatus}}}}
		if c, found := UnhealthyCondition(node); !found || c.Type != p.ConditionType {
			t.Errorf("%s=%s is not found", p.ConditionType, p.ConditionStatus)
		}
		node.Status.Conditions[1].Status = corev1.ConditionTrue
		if c, found := UnhealthyCondition(node); found {
			t.Errorf("%s=%s is found", c.Type, c.Status)
		}
	}
	if len(known) != len(conditions) {
		t.Errorf("Karpenter repairs nodes by %v, and %v are known", known, conditions)
	}
}
