package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/poolwright/poolwright/reconciler/plan"
)

const (
	role = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $NS}
rules: [{apiGroups: [karpenter.sh], resources: [nodeclaims, nodepools], verbs: [get, patch]}]
`
	namespacedRole = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: $NS, namespace: $NS}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, patch]}]
`
	subjects = "subjects: [{kind: ServiceAccount, name: poolwright, namespace: $HOME}]\n"
	binding  = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $NS}
` + subjects
	namespacedBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: $NS, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: $NS}
` + subjects
)

// What the controller may do is known by whom bindings name, whatever a commit does to labels.
func TestThePermissionsOfTheControllerAreKnownByTheSubjectsOfBindings(t *testing.T) {
	other := strings.NewReplacer("namespace: $HOME", "namespace: $NS")
	group := strings.NewReplacer("{kind: ServiceAccount, name: poolwright, namespace: $HOME}", "{kind: Group, apiGroup: rbac.authorization.k8s.io, name: 'system:serviceaccounts:$HOME'}")
	user := strings.NewReplacer("{kind: ServiceAccount, name: poolwright, namespace: $HOME}", "{kind: User, apiGroup: rbac.authorization.k8s.io, name: 'system:serviceaccount:$HOME:poolwright'}")
	for _, tt := range []struct {
		name string
		// there is what is live beside it; after is empty for a deletion.
		there, before, after string
		// stops is whether the engine stops with it, later whether it comes after nodes.
		stops, later, held bool
	}{
		{"a binding is deleted", "", binding, "", true, true, true},
		{"a binding in a namespace is deleted", "", namespacedBinding, "", true, true, true},
		{"one by the group of the namespace", "", group.Replace(binding), "", true, true, true},
		{"one by the user's name", "", user.Replace(binding), "", true, true, true},
		{"one of whoever is authenticated", "", strings.ReplaceAll(group.Replace(binding), "system:serviceaccounts:$HOME", "system:authenticated"), "", true, true, true},
		{"another's binding is deleted", "", other.Replace(binding), "", false, false, false},
		{"a binding without subjects is deleted", "", strings.Replace(binding, subjects, "", 1), "", false, false, false},
		{"a bound role is deleted", binding, role, "", true, true, true},
		{"a role bound in a namespace is deleted", strings.Replace(namespacedBinding, "kind: Role,", "kind: ClusterRole,", 1), role, "", true, true, true},
		{"a bound role of a namespace is deleted", namespacedBinding, namespacedRole, "", true, true, true},
		{"a role of that name in another namespace is bound", strings.Replace(namespacedBinding, "namespace: $NS}", "namespace: $HOME}", 1), namespacedRole, "", false, false, false},
		{"a role that nothing binds is deleted", "", role, "", false, false, false},
		{"a role that is bound to another is deleted", other.Replace(binding), role, "", false, false, false},
		{"a binding loses the controller", "", binding, other.Replace(binding), true, true, true},
		{"a binding loses its subjects", "", binding, strings.Replace(binding, subjects, "subjects: []\n", 1), true, true, true},
		{"a binding has another account of the namespace", "", binding, strings.Replace(binding, "name: poolwright, namespace", "name: other, namespace", 1), true, true, true},
		{"a binding gets another", "", binding, strings.Replace(binding, "[{kind", "[{kind: ServiceAccount, name: x, namespace: $HOME}, {kind", 1), false, false, false},
		{"a binding loses another", "", strings.Replace(binding, "[{kind", "[{kind: ServiceAccount, name: x, namespace: $NS}, {kind", 1), binding, false, false, false},
		{"a bound role loses a verb", binding, role, strings.Replace(role, "[get, patch]", "[get]", 1), false, true, true},
		{"a bound role loses a resource", binding, role, strings.Replace(role, "nodeclaims, ", "", 1), false, true, true},
		{"a bound role of a namespace loses a verb", namespacedBinding, namespacedRole, strings.Replace(namespacedRole, "[get, patch]", "[get]", 1), false, true, true},
		{"a bound role is written otherwise", binding, role, strings.Replace(role, "[nodeclaims, nodepools], verbs: [get, patch]", "['*'], verbs: ['*']", 1), false, false, false},
		{"a role that nothing binds loses a verb", "", role, strings.Replace(role, "[get, patch]", "[get]", 1), false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := engineBench(t)
			b.reconcile(b.declare(config, web, tt.before))
			b.make(clusterOf("cluster", "Embedded"), "kubectl-create")
			b.make(tt.there+"---"+otherClaim, "kubectl-create")
			t.Cleanup(func() { b.removeAll(tt.there + "---" + otherClaim) })
			after := b.declare(config, web, tt.after)
			p := b.guarded(after, "")
			if len(p.Changes) != 1 || (p.Changes[0].Action == plan.Delete) != (tt.after == "") {
				t.Fatalf("planned %s", show(p))
			}
			c := p.Changes[0]
			if stops := c.Before.Losses["Engine"] > 0; stops != tt.stops || c.Before.AfterNodes != tt.later || !c.Admitted() != tt.held {
				t.Errorf("stops the engine: %v, after nodes: %v, held: %s (%s)", stops, c.Before.AfterNodes, c.Hold, c.Before.Impact)
			}
			confirmed := b.guarded(after, p.Confirmation())
			if errs := b.apply(confirmed); len(errs) > 0 {
				t.Fatal(errs)
			}
			b.converged(after)
		})
	}
}
