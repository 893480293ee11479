package wire

import (
	"context"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// verdicts are what schemas refuse of the revision that worlds are asked about. The AWS
// world asks for them before it takes a Cluster's values to AWS: it has no
// schema, and the API server's refusal comes too late and names no line. The zero value
// refuses nothing.
type verdicts struct {
	mu    sync.Mutex
	found map[state.Key][]state.Problem
}

// isCluster reports whether an item is a Cluster.
func isCluster(item state.Item) bool {
	return item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster"
}

// listening loads as load does, in a command that a person started, and adds what all
// schemas refuse to the problems.
func (v *verdicts) listening(load reconciler.Loader) reconciler.Loader {
	return func(ctx context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		d, err := load(ctx, s)
		if err != nil {
			return d, err
		}
		schemas, err := knownCRDs()
		if err != nil {
			return d, err
		}
		found := lint.Refused(d, schemas)
		problems := slices.Clone(d.Problems)
		for key, of := range found {
			// The AWS world tells of Clusters itself.
			if item, _ := d.Set.Get(key); !isCluster(item) {
				problems = append(problems, of...)
			}
		}
		d.Problems = lint.Sorted(problems)
		v.set(found)
		return d, nil
	}
}

// set makes verdicts those of the revision that worlds are asked about.
func (v *verdicts) set(found map[state.Key][]state.Problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found = found
}

// of is the verdict on an item: nothing where it may pass.
func (v *verdicts) of(item state.Item) []state.Problem {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.found[item.Key]
}

// admitted is a cluster's world that is not given what was refused, nor any
// Cluster where several are declared: the AWS world says so, and which of them
// is meant is nobody's to guess.
type admitted struct {
	*kubernetes.World
	verdicts *verdicts
}

// Want implements targets.Target.
func (a admitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return a.World.Want(ctx, admit(declared, a.verdicts.of))
}

// unadmitted is the same where there is no cluster.
type unadmitted struct {
	targets.Target
	verdicts *verdicts
}

// Want implements targets.Target.
func (u unadmitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.Target.Want(ctx, admit(declared, u.verdicts.of))
}

// admit leaves out what was refused, and all Clusters but an only one.
func admit(declared state.Set, refused func(state.Item) []state.Problem) state.Set {
	items := declared.Items()
	if !slices.ContainsFunc(items, func(i state.Item) bool { return isCluster(i) || len(refused(i)) > 0 }) {
		return declared
	}
	rest := slices.DeleteFunc(slices.Clone(items), isCluster)
	if len(items)-len(rest) > 1 {
		items = rest
	}
	return state.NewSet(slices.DeleteFunc(items, func(i state.Item) bool { return len(refused(i)) > 0 })...)
}
