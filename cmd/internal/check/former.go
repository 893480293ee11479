package check

import (
	"context"
	"strings"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	iampolicy "github.com/poolwright/poolwright/config/iam"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// formerNames reports objects of names that earlier releases gave: nothing deletes them, and roles among them go on
// to grant what they did.
func (c *checker) formerNames(ctx context.Context) []Result {
	found, err := installation.FormerObjects(ctx, c.Kube)
	if err != nil {
		return c.unreadable(err)
	}
	if len(found) == 0 {
		return one(ok("no object of an earlier release is left"))
	}
	out := one(warning("once your overlay patches the new name (docs/howto/narrow-permissions.md), run: kubectl delete clusterrolebinding,clusterrole "+installation.FormerClusterReconciler,
		"%s of an earlier release grant the controller what they did, whatever the roles of this one were narrowed to", strings.Join(found, " and ")))
	var clusters v1alpha1.ClusterList
	if err := c.Kube.List(ctx, &clusters); err != nil {
		return append(out, c.unreadable(err)...)
	}
	for i := range clusters.Items {
		spec := clusters.Items[i].Spec
		if spec.ControllerRole == nil {
			continue
		}
		policies := iampolicy.FormerPolicies(spec.Name, spec.Region)
		r := skipped("whether IAM still has the policies of that release is not read: "+strings.Join(policies, " and "),
			"run poolwright bootstrap, which detaches them, then delete each: aws iam delete-policy --policy-arn arn:aws:iam::"+spec.Account+":policy/NAME")
		r.Object = "Cluster " + clusters.Items[i].Name
		out = append(out, r)
	}
	return out
}
