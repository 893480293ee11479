package check

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

func TestRolesOfEarlierReleasesAreReported(t *testing.T) {
	named := func(labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "poolwright-loop", Labels: labels}
	}
	ours := named(map[string]string{"app.kubernetes.io/part-of": "poolwright"})
	withRole := reconcilertest.Cluster(nil)
	withRole.Spec.ControllerRole = &v1alpha1.ControllerRole{}
	for name, c := range map[string]struct {
		has  []client.Object
		want []expected
	}{
		"none":                               {nil, []expected{{OK, "", "no object of an earlier release", ""}}},
		"another's ClusterRole of that name": {[]client.Object{&rbacv1.ClusterRole{ObjectMeta: named(nil)}}, []expected{{OK, "", "no object", ""}}},
		"the binding alone":                  {[]client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: ours}}, []expected{{Warning, "", "ClusterRoleBinding poolwright-loop of", "kubectl delete clusterrolebinding,clusterrole poolwright-loop"}}},
		"both, and the policies in IAM": {
			[]client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: ours}, &rbacv1.ClusterRole{ObjectMeta: ours}, withRole},
			[]expected{
				{Warning, "", "ClusterRoleBinding poolwright-loop and ClusterRole poolwright-loop", "narrow-permissions.md"},
				{Skipped, "Cluster " + withRole.Name, "poolwright-loop-dev-eu-west-1 and poolwright-limits-dev-eu-west-1", "arn:aws:iam::111122223333:policy/NAME"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, c.want, fixture{objects: c.has}.checker(t).formerNames(t.Context()))
		})
	}
}
