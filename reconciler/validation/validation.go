// Package validation keeps from targets what schemas refuse of a revision, as an API server's
// admission would, before anything of it is applied.
//
// It refuses to check schemas itself: package checked does, in a process for untrusted
// content, and Errors holds what it found. Start reading at Errors.Desired.
package validation

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
)

// Errors are what schemas refuse of the revision whose desired state targets expand. The
// AWS target reads them before it takes a Cluster's values to AWS: it has no schema, and
// the API server's refusal comes too late and names no line. The zero value refuses
// nothing. It is safe for concurrent use.
type Errors struct {
	mu      sync.Mutex
	refused map[state.Key][]state.Problem
	// unknown are the objects with a field that the embedded schemas do not have.
	unknown map[state.Key][]state.Problem
}

// IsCluster reports whether an item is a Cluster.
func IsCluster(item state.Item) bool {
	return item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster"
}

// Set replaces the refusals by those of another revision: what is refused of each object, and
// the objects with a field that the embedded schemas do not have.
func (r *Errors) Set(refused, unknown map[state.Key][]state.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused, r.unknown = refused, unknown
}

// Of is what is refused of an item; nothing where it is admitted.
func (r *Errors) Of(item state.Item) []state.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused[item.Key]
}

// unknownFields are the problems of the declared objects with a field that neither the embedded
// schema nor the cluster's has.
func (r *Errors) unknownFields(definitions lint.Definition, declared state.Set) (map[state.Key][]state.Problem, error) {
	r.mu.Lock()
	found := r.unknown
	r.mu.Unlock()
	if len(found) == 0 {
		return nil, nil
	}
	return lint.StillUnknown(found, declared, definitions)
}

// Desired is the result of a target's Desired for what is not refused; of several Clusters none is
// admitted, which the AWS target reports. What is refused for a field that the cluster's
// definitions do not have either is among the problems; where one has no definition, the
// embedded one decides.
func (r *Errors) Desired(ctx context.Context, target targets.Target, definitions lint.Definition, declared state.Set) (state.Set, error) {
	unknown, err := r.unknownFields(definitions, declared)
	if err != nil {
		return state.Set{}, err
	}
	desired, err := target.Desired(ctx, admit(declared, func(item state.Item) []state.Problem {
		return append(slices.Clip(r.Of(item)), unknown[item.Key]...)
	}))
	more, isProblems := errors.AsType[*targets.ProblemsError](err)
	if len(unknown) == 0 || err != nil && !isProblems {
		return desired, err
	}
	var problems []state.Problem
	for _, of := range unknown {
		problems = append(problems, of...)
	}
	if isProblems {
		problems = append(problems, more.Problems...)
	}
	return desired, &targets.ProblemsError{Problems: lint.Sorted(problems)}
}

// admit leaves out what was refused, and all Clusters but an only one.
func admit(declared state.Set, refused func(state.Item) []state.Problem) state.Set {
	items := declared.Items()
	if !slices.ContainsFunc(items, func(i state.Item) bool { return IsCluster(i) || len(refused(i)) > 0 }) {
		return declared
	}
	rest := slices.DeleteFunc(slices.Clone(items), IsCluster)
	if len(items)-len(rest) > 1 {
		items = rest
	}
	return state.NewSet(slices.DeleteFunc(items, func(i state.Item) bool { return len(refused(i)) > 0 })...)
}
