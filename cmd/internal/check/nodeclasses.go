package check

import (
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/awslabs/operatorpkg/status"

	"github.com/poolwright/poolwright/provision/engine/preflight"
)

// nodeClasses are the results of EC2NodeClasses. Before Karpenter reports one as ready it makes
// dry runs of ec2:RunInstances, ec2:CreateFleet and ec2:CreateLaunchTemplate with the controller's role: that is
// the test of the permissions to launch, by who needs them.
func nodeClasses(classes []awsv1.EC2NodeClass) []Result {
	if len(classes) == 0 {
		return one(skipped("there is no EC2NodeClass, so that no permissions to launch were tested", ""))
	}
	var out []Result
	ready := 0
	for i := range classes {
		r := nodeClass(&classes[i])
		if r.Status == OK {
			ready++
			continue
		}
		r.Object = "EC2NodeClass " + classes[i].Name
		out = append(out, r)
	}
	if ready > 0 {
		out = append([]Result{ok("%d of %d are ready: EC2 allows the controller's role to launch, by its dry runs", ready, len(classes))}, out...)
	}
	return out
}

// nodeClass reports on one EC2NodeClass.
func nodeClass(class *awsv1.EC2NodeClass) Result {
	conditions := class.StatusConditions()
	validated := ""
	if condition := conditions.Get(awsv1.ConditionTypeValidationSucceeded); condition != nil {
		validated = condition.Reason
	}
	switch {
	case conditions.Root().IsTrue() && validated == preflight.DryRunDisabled:
		return warning("", "it is ready, and the permissions to launch were not tested, since dry runs are switched off")
	case conditions.Root().IsTrue():
		return ok("it is ready")
	}
	waits, refused := notTrue(conditions)
	if !refused {
		return warning("wait a moment; where it stays, read the logs of the controller", "it is not ready yet%s", waits)
	}
	if preflight.LaunchRefused(validated) {
		return failed("attach the policies of config/iam to the controller's role", "EC2 refuses the dry run of a launch%s", waits)
	}
	return failed("correct its spec, or what it names in AWS", "it is not ready%s", waits)
}

// notTrue lists the conditions of a class that are not true, and reports whether one of them is false.
func notTrue(conditions status.ConditionSet) (text string, refused bool) {
	var waits []string
	for _, condition := range conditions.List() {
		if condition.IsTrue() || !conditions.IsDependentCondition(condition.Type) {
			continue
		}
		refused = refused || condition.IsFalse()
		waits = append(waits, strings.TrimSuffix(condition.Type+"="+string(condition.Status)+" "+condition.Reason+": "+condition.Message, ": "))
	}
	if len(waits) == 0 {
		return "", refused
	}
	return ": " + strings.Join(waits, "; "), refused
}
