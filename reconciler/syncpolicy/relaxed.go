package syncpolicy

import (
	"maps"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
)

// protectedField is a field of a Sync that keeps something from being deleted, replaced or
// written to, or that decides what is followed and reviewed.
type protectedField struct {
	// path has the field's names, with dots between.
	path string
	// absent is what the API makes of a Sync without the field; nil for nothing.
	absent any
	// isRelaxed reports whether the second value lets pass what the first does not.
	isRelaxed func(before, after any) bool
}

// protectedFields are all there are. What moves a Sync to other content, or gives it other
// values, is among them: reviewers of the change were not shown what that does. So is the
// end of a suspension, which lets everything pass.
func protectedFields() []protectedField {
	return []protectedField{
		{"spec.source", nil, from},
		{"spec.source.git.fastForwardOnly", true, relaxedFrom(true)},
		{"spec.sourceRef", nil, changed},
		{"spec.path", ".", changed},
		{"spec.substitute", nil, changed},
		{"spec.substituteFrom", nil, changed},
		{"spec.suspend", false, relaxedFrom(true)},
		{"spec.drift", string(v1alpha1.DriftCorrect), relaxedFrom(string(v1alpha1.DriftReport))},
		{"spec.prune", true, relaxedFrom(false)},
		{"spec.guard.maxPrunePercent", int64(50), above},
		{"spec.guard.maxNodesReplaced", nil, above},
		{"spec.guard.quota", string(v1alpha1.QuotaWarn), relaxedFrom(string(v1alpha1.QuotaHold))},
		{"spec.deletionPolicy", string(v1alpha1.DeletionPolicyOrphan), relaxedFrom(string(v1alpha1.DeletionPolicyOrphan))},
		{"spec.pullRequests", nil, reviewedElsewhere},
		{"spec.dependsOn", nil, lacks},
		{"spec.ignore", nil, ignoresMore},
	}
}

// relaxed names the protected fields that an update of a Sync makes less strict.
func relaxed(c plan.Change) []string {
	if c.Key.Group != v1alpha1.GroupVersion.Group || c.Key.Kind != "Sync" {
		return nil
	}
	var out []string
	for _, f := range protectedFields() {
		if f.isRelaxed(f.of(c.Before.Object), f.of(c.After.Object)) {
			out = append(out, f.path)
		}
	}
	return out
}

// of is the field's value, or what stands for one that is absent. Null is absent: the
// API server drops it.
func (f protectedField) of(object map[string]any) any {
	var value any = object
	for name := range strings.SplitSeq(f.path, ".") {
		m, _ := value.(map[string]any)
		value = m[name]
	}
	if value == nil {
		return f.absent
	}
	return value
}

func changed(before, after any) bool { return !state.Equal(before, after) }

// from is true for another place that declarations come from. How its branch is followed
// is a field of its own.
func from(before, after any) bool { return changed(origin(before), origin(after)) }

func origin(source any) any {
	s, _ := source.(map[string]any)
	git, _ := s["git"].(map[string]any)
	git = maps.Clone(git)
	delete(git, "fastForwardOnly")
	return git
}

// reviewedElsewhere is true for a Sync whose reviews are given up, or left to another
// forge, or of strangers too: they are what a merge is measured by.
func reviewedElsewhere(before, after any) bool {
	b, _ := before.(map[string]any)
	a, _ := after.(map[string]any)
	if b == nil {
		return false
	}
	return a == nil || changed(b["provider"], a["provider"]) || changed(b["url"], a["url"]) ||
		changed(b["secretRef"], a["secretRef"]) || relaxedFrom(false)(b["forks"] == true, a["forks"] == true)
}

// lacks is true for a list in which an entry of before is not as it was.
func lacks(before, after any) bool {
	b, _ := before.([]any)
	a, _ := after.([]any)
	return slices.ContainsFunc(b, func(entry any) bool {
		return !slices.ContainsFunc(a, func(other any) bool { return state.Equal(entry, other) })
	})
}

// ignoresMore is true for rules by which a path is ignored that was not, in the same objects.
func ignoresMore(before, after any) bool { return lacks(ignored(after), ignored(before)) }

// ignored are the paths of rules, each with the target of its rule.
func ignored(rules any) any {
	var out []any
	list, _ := rules.([]any)
	for _, entry := range list {
		rule, _ := entry.(map[string]any)
		paths, _ := rule["paths"].([]any)
		for _, path := range paths {
			out = append(out, []any{path, rule["target"]})
		}
	}
	return out
}

// relaxedFrom is true for a value that is not the strict one any more.
func relaxedFrom(strict any) func(before, after any) bool {
	return func(before, after any) bool { return state.Equal(before, strict) && changed(before, after) }
}

// above is true for a greater number, and for no limit. What is no number is not
// known to be as strict.
func above(before, after any) bool {
	if before == nil || state.Equal(before, after) {
		return false
	}
	b, okB := number(before)
	a, okA := number(after)
	return !okB || !okA || a > b
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
