package dependency

import (
	"context"
	"fmt"
	"strings"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/cel"
	"github.com/fluxcd/pkg/runtime/conditions"
	celtypes "github.com/google/cel-go/common/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/poolwright/poolwright/internal/plural"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// The reasons of a Sync whose dependencies only a change of a Sync can fulfil.
const (
	// circularDependency is that of one whose dependencies lead back to it.
	circularDependency = "CircularDependency"
	// invalidDependency is that of one which depends on a Sync of another namespace.
	invalidDependency = "InvalidDependency"
)

// namedDependencies bounds how many dependencies a message names.
const namedDependencies = 5

// result is what was found of the dependencies of a Sync.
type result struct {
	// stalled is the reason for which only a change of a Sync helps, and message what there is to
	// be changed; else empty.
	stalled, message string
	found            []checkedDependency
}

// checkedDependency is what was found of one dependency.
type checkedDependency struct {
	name string
	// unready is why it is not ready; empty where it is.
	unready string
	// same is true where it is of the same source, so that it must have applied the same revision,
	// and applied is which it has applied, treeID the id of the files of that; may be empty.
	same            bool
	applied, treeID string
}

// check checks the dependencies of a Sync, by the rules of Flux's Kustomization.
func (s syncs) check(ctx context.Context, sync *v1alpha1.Sync) result {
	if path := s.cycle(sync); path != nil {
		return result{stalled: circularDependency, message: "dependsOn leads back to the Sync itself: " + strings.Join(path, " -> ") + "; take one of them out of spec.dependsOn of the one before"}
	}
	var out result
	for _, d := range sync.Spec.DependsOn {
		if foreign(sync, d) {
			return result{stalled: invalidDependency, message: fmt.Sprintf("dependsOn names Sync %s/%s, and only Syncs of namespace %s are reconciled", d.Namespace, d.Name, sync.Namespace)}
		}
		found := checkedDependency{name: d.Name}
		dep := s[d.Name]
		switch {
		case dep == nil:
			found.unready = "it does not exist in namespace " + sync.Namespace
		case d.ReadyExpr != "":
			ready, err := compile(d.ReadyExpr)
			if err != nil {
				return result{stalled: fluxmeta.InvalidCELExpressionReason, message: fmt.Sprintf("readyExpr of Sync %s in dependsOn: %s", d.Name, err)}
			}
			found.unready = evaluate(ctx, ready, sync, dep)
		default:
			found.unready = unready(dep)
			found.same, found.applied, found.treeID = sameSource(sync, dep), dep.Status.LastAppliedRevision, dep.Status.LastAppliedTreeID
		}
		out.found = append(out.found, found)
	}
	return out
}

// unready is why a Sync is not ready for its present spec; empty where it is.
func unready(dep *v1alpha1.Sync) string {
	ready := conditions.Get(dep, fluxmeta.ReadyCondition)
	switch {
	case !dep.DeletionTimestamp.IsZero():
		return "it is being deleted"
	case ready != nil && ready.Status == metav1.ConditionFalse && ready.ObservedGeneration == dep.Generation:
		return "it is not ready, with reason " + ready.Reason
	case ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == dep.Generation && dep.Status.ObservedGeneration == dep.Generation:
		return ""
	case dep.Spec.Suspend:
		return "it is suspended"
	}
	return "it is not reconciled yet as its spec is now"
}

// sameSource reports whether two Syncs follow the same branch, tag or commit of one repository, be it with
// other credentials, or the same source of Flux.
func sameSource(a, b *v1alpha1.Sync) bool {
	type followed struct{ address, branch, tag, commit string }
	of := func(sync *v1alpha1.Sync) followed {
		ref := sync.Spec.Source.Git.Ref
		return followed{sync.Address(), ref.FollowedBranch(), ref.Tag, ref.Commit}
	}
	return of(a) == of(b)
}

// commitOf is a revision without the name of its branch or tag, by which that of a Sync that is rolled back
// to the commit of a tag differs: sha1:commit, or the digest of an artifact.
func commitOf(revision string) string { return revision[strings.LastIndexByte(revision, '@')+1:] }

// evaluationTimeout bounds the evaluation of an expression, which events of other Syncs wait for.
const evaluationTimeout = 100 * time.Millisecond

// The variables of an expression, as in Flux.
const (
	selfVariable = "self"
	depVariable  = "dep"
)

func compile(expr string) (*cel.Expression, error) {
	out, err := cel.NewExpression(expr, cel.WithCompile(), cel.WithOutputType(celtypes.BoolType), cel.WithStructVariables(selfVariable, depVariable))
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	return out, nil
}

// evaluate is why a Sync is not ready by an expression; empty where it is.
func evaluate(ctx context.Context, ready *cel.Expression, sync, dep *v1alpha1.Sync) string {
	ctx, cancel := context.WithTimeout(ctx, evaluationTimeout)
	defer cancel()
	variables := map[string]any{}
	for name, of := range map[string]*v1alpha1.Sync{selfVariable: sync, depVariable: dep} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(of)
		if err != nil {
			return "its readyExpr cannot be evaluated: " + err.Error()
		}
		variables[name] = object
	}
	ok, err := ready.EvaluateBoolean(ctx, variables)
	switch {
	case err != nil:
		return "its readyExpr cannot be evaluated: " + err.Error()
	case !ok:
		return "its readyExpr is not true"
	}
	return ""
}

// reason is why a revision of the Sync must not be applied yet; nil where it may.
func (r result) reason(sync *v1alpha1.Sync, revision, treeID string) error {
	if r.stalled != "" {
		return state.Failf(state.Stalled, r.stalled, "%s", r.message)
	}
	var waits []string
	for _, f := range r.found {
		switch {
		case f.unready != "":
			waits = append(waits, fmt.Sprintf("Sync %s: %s", f.name, f.unready))
		case f.same && commitOf(f.applied) != commitOf(revision):
			waits = append(waits, fmt.Sprintf("Sync %s: it has not applied revision %s", f.name, revision))
		case f.same && f.treeID != "" && treeID != "" && f.treeID != treeID:
			waits = append(waits, fmt.Sprintf("Sync %s: it has applied other files of revision %s", f.name, revision))
		}
	}
	if len(waits) == 0 {
		return nil
	}
	// A watch reports when it may; until then only Git can have anything new.
	return state.WaitFor(sync.Spec.Interval.Duration, fluxmeta.DependencyNotReadyReason, fmt.Errorf("waiting for %s", plural.FirstOf(waits, namedDependencies, "; ")))
}

// fingerprint is all of it.
func (r result) fingerprint() string {
	out := []string{r.stalled, r.message}
	for _, f := range r.found {
		out = append(out, f.name, f.unready)
		if f.same {
			out = append(out, f.applied, f.treeID)
		}
	}
	return strings.Join(out, "\x00")
}
