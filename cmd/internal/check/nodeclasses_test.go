package check

import (
	"testing"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/aws/karpenter-provider-aws/pkg/controllers/nodeclass"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/engine/preflight"
)

// nodeClassWith is one of which all conditions are true, but those that are changed.
func nodeClassWith(name string, change func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	conditions := class.StatusConditions()
	for _, one := range conditions.List() {
		if conditions.IsDependentCondition(one.Type) {
			conditions.SetTrue(one.Type)
		}
	}
	change(class)
	return class
}

func TestNodeClassesReportWhatEC2RefusesTheController(t *testing.T) {
	refusedBy := func(reason string) func(*awsv1.EC2NodeClass) {
		return func(c *awsv1.EC2NodeClass) {
			c.StatusConditions().SetFalse(awsv1.ConditionTypeValidationSucceeded, reason, "UnauthorizedOperation")
		}
	}
	ready := func(*awsv1.EC2NodeClass) {}
	for name, c := range map[string]struct {
		has  []client.Object
		want []expected
	}{
		"there is none": {nil, []expected{{Skipped, "", "no permissions to launch were tested", ""}}},
		"one is ready":  {[]client.Object{nodeClassWith("a", ready)}, []expected{{OK, "", "1 of 1", ""}}},
		"a launch is refused": {[]client.Object{nodeClassWith("a", ready), nodeClassWith("b", refusedBy(nodeclass.ConditionReasonRunInstancesAuthFailed))},
			[]expected{{OK, "", "1 of 2", ""}, {Failed, "EC2NodeClass b", "ValidationSucceeded=False RunInstancesAuthCheckFailed: UnauthorizedOperation", "config/iam"}}},
		"a template is refused": {[]client.Object{nodeClassWith("b", refusedBy(nodeclass.ConditionReasonCreateLaunchTemplateAuthFailed))},
			[]expected{{Failed, "EC2NodeClass b", "CreateLaunchTemplateAuthCheckFailed", "config/iam"}}},
		"a fleet is refused": {[]client.Object{nodeClassWith("b", refusedBy(nodeclass.ConditionReasonCreateFleetAuthFailed))},
			[]expected{{Failed, "EC2NodeClass b", "CreateFleetAuthCheckFailed", "config/iam"}}},
		"nothing is found": {[]client.Object{nodeClassWith("b", func(c *awsv1.EC2NodeClass) {
			c.StatusConditions().SetFalse(awsv1.ConditionTypeSubnetsReady, "SubnetsNotFound", "no subnet")
			c.StatusConditions().SetUnknownWithReason(awsv1.ConditionTypeValidationSucceeded, nodeclass.ConditionReasonDependenciesNotReady, "")
		})}, []expected{{Failed, "EC2NodeClass b", "SubnetsReady=False SubnetsNotFound: no subnet", "correct its spec"}}},
		"a new one": {[]client.Object{&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "b"}}}, []expected{{Warning, "EC2NodeClass b", "not ready yet", "logs"}}},
		"without dry runs": {[]client.Object{nodeClassWith("b", func(c *awsv1.EC2NodeClass) {
			c.StatusConditions().SetTrueWithReason(awsv1.ConditionTypeValidationSucceeded, preflight.DryRunDisabled, "off")
		})}, []expected{{Warning, "EC2NodeClass b", "were not tested", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, c.want, fixture{objects: c.has}.checker(t).nodeClasses(t.Context()))
		})
	}
}
