package losses

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
)

// isRBAC reports whether an object grants permissions.
func isRBAC(k state.Key) bool { return k.Group == rbacv1.GroupName }

// grants reports whether the controller has the permissions of a role or binding: by bindings whose
// subjects are ServiceAccounts of its namespace, whatever their labels. Whoever may not list
// bindings goes by the label of the installation.
func (c Counter) grants(ctx context.Context, k state.Key, object map[string]any) (bool, error) {
	if strings.HasSuffix(k.Kind, "Binding") {
		return c.binds(object), nil
	}
	granted := false
	for _, resource := range []string{"clusterrolebindings", "rolebindings"} {
		of := api.Ref{Resource: rbacv1.SchemeGroupVersion.WithResource(resource)}
		_, err := c.API.List(ctx, of, "", func(u *unstructured.Unstructured) {
			ref, _, _ := unstructured.NestedStringMap(u.Object, "roleRef")
			refers := ref["kind"] == k.Kind && ref["name"] == k.Name && (k.Namespace == "" || k.Namespace == u.GetNamespace())
			granted = granted || refers && c.binds(u.Object)
		})
		if apierrors.IsForbidden(err) {
			granted = granted || c.installed(k, object)
			continue
		}
		if err != nil {
			return false, api.Refused("listing "+resource, err, false)
		}
	}
	return granted, nil
}

// binds reports whether a subject of a binding is a ServiceAccount of the controller's namespace.
func (c Counter) binds(binding map[string]any) bool { return len(c.boundBy(binding)) > 0 }

// boundBy are the subjects of a binding that are ServiceAccounts of the controller's namespace.
func (c Counter) boundBy(binding map[string]any) []any {
	subjects, _, _ := unstructured.NestedSlice(binding, "subjects")
	return slices.DeleteFunc(subjects, func(subject any) bool { return !c.isOwn(subject) })
}

func (c Counter) isOwn(subject any) bool {
	fields, _ := subject.(map[string]any)
	name, _ := fields["name"].(string)
	switch fields["kind"] {
	case rbacv1.ServiceAccountKind:
		return fields["namespace"] == c.Namespace
	case rbacv1.UserKind:
		return strings.HasPrefix(name, "system:serviceaccount:"+c.Namespace+":")
	case rbacv1.GroupKind:
		return name == "system:authenticated" || name == "system:serviceaccounts" || name == "system:serviceaccounts:"+c.Namespace
	}
	return false
}

// sameSubject compares subjects but for the API group, which the API server completes.
func sameSubject(a, b any) bool {
	one, _ := a.(map[string]any)
	other, _ := b.(map[string]any)
	return one["kind"] == other["kind"] && one["name"] == other["name"] && one["namespace"] == other["namespace"]
}

// lostSubjects is what goes with a binding that loses a ServiceAccount of the controller's namespace: the engine.
func lostSubjects(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	stay := c.boundBy(u.After)
	lost := func(subject any) bool {
		return !slices.ContainsFunc(stay, func(other any) bool { return sameSubject(subject, other) })
	}
	if !slices.ContainsFunc(c.boundBy(u.Live.Object), lost) {
		return loss.DeletionImpact{}, nil
	}
	return c.lostWithController(ctx, u.Key, u.Live)
}

// lostRules is what goes with a role of the controller that grants less: it comes after the nodes,
// since the engine may need what is taken away to terminate them.
func lostRules(ctx context.Context, c Counter, u Update) (loss.DeletionImpact, error) {
	unknown := loss.DeletionImpact{AfterNodes: true}
	granted, err := c.grants(ctx, u.Key, u.Live.Object)
	if err != nil {
		return unknown, err
	}
	if !granted {
		return loss.DeletionImpact{}, nil
	}
	before, err := rulesOf(u.Live.Object)
	if err != nil {
		return unknown, err
	}
	after, err := rulesOf(u.After)
	if err != nil {
		return unknown, err
	}
	lost, err := uncovered(after, before)
	if err != nil {
		return unknown, err
	}
	if len(lost) == 0 {
		return loss.DeletionImpact{}, nil
	}
	runs, err := karpenter.EngineRuns(ctx, c.API)
	return loss.DeletionImpact{Impact: "the controller loses permissions that it has by it, such as " + described(lost[0]), AfterNodes: runs || err != nil}, err
}

// maxComparisons bounds how much is compared for one role: a few kilobytes of YAML stand for
// millions of combinations of verb, group and resource.
const maxComparisons = 1_000_000

// uncovered lists what the rules before grant and those after do not.
func uncovered(after, before []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	combinations, against := 0, 1
	for _, r := range before {
		n := max(len(r.Verbs), 1)
		for _, of := range [][]string{r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs} {
			n = min(n*max(len(of), 1), maxComparisons+1)
		}
		combinations = min(combinations+n, maxComparisons+1)
	}
	for _, r := range after {
		against += len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	if combinations*against > maxComparisons {
		return nil, fmt.Errorf("the rules of the role have too many combinations to compare (%d at most)", maxComparisons)
	}
	_, lost := validation.Covers(after, before)
	return lost, nil
}

func rulesOf(role map[string]any) ([]rbacv1.PolicyRule, error) {
	var out rbacv1.ClusterRole
	only := map[string]any{"rules": role["rules"]}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(only, &out); err != nil {
		return nil, fmt.Errorf("reading the rules of the role: %w", err)
	}
	return out.Rules, nil
}

// described is a rule of one verb and one resource, as kubectl auth can-i has it.
func described(rule rbacv1.PolicyRule) string {
	permissions := append(slices.Clone(rule.Verbs), rule.NonResourceURLs...)
	for i, resource := range rule.Resources {
		if i < len(rule.APIGroups) && rule.APIGroups[i] != "" {
			resource += "." + rule.APIGroups[i]
		}
		permissions = append(permissions, resource)
	}
	return quoted(strings.Join(append(permissions, rule.ResourceNames...), " "))
}
