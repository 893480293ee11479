package losses

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// A few kilobytes of YAML must not exhaust the process that runs the engine.
func TestRulesOfTooManyCombinationsAreNotCompared(t *testing.T) {
	rule := func(n int) []rbacv1.PolicyRule {
		var texts []string
		for i := range n {
			texts = append(texts, fmt.Sprint("w", i))
		}
		return []rbacv1.PolicyRule{{Verbs: texts, APIGroups: texts, Resources: texts}}
	}
	if lost, err := uncovered(rule(9), rule(10)); err != nil || len(lost) != 10*10*10-9*9*9 {
		t.Errorf("%d are lost: %v", len(lost), err)
	}
	if lost, err := uncovered(rule(10), rule(10)); err != nil || len(lost) > 0 {
		t.Errorf("%d are lost of equal rules: %v", len(lost), err)
	}
	for name, rules := range map[string][2][]rbacv1.PolicyRule{
		"before": {rule(1), rule(1000)}, "after": {rule(10_000), rule(10)}, "both": {rule(100), rule(100)},
	} {
		if lost, err := uncovered(rules[0], rules[1]); err == nil {
			t.Errorf("%s: %d are lost", name, len(lost))
		}
	}
}
