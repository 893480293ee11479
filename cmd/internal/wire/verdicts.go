package wire

import (
	"context"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target"
	"github.com/poolwright/poolwright/reconciler/target/cluster"
)

// verdicts are what schemas say of the revision that was loaded last. The AWS
// world asks for them before it takes a Cluster's values to AWS: it has no
// schema, and the API server's refusal comes too late and names no line.
type verdicts struct {
	// schemas are the definitions to judge by, judged the items to look at.
	schemas func() ([]*apiextensionsv1.CustomResourceDefinition, error)
	judged  func(state.Item) bool

	mu    sync.Mutex
	found map[state.Key][]state.Problem
}

// onClusters judges Clusters alone: of all else the API server, which may know
// a newer form of it, has the word.
func onClusters() *verdicts { return &verdicts{schemas: ownCRDs, judged: isCluster} }

// onAll judges everything that lint has a schema for.
func onAll() *verdicts {
	return &verdicts{schemas: knownCRDs, judged: func(state.Item) bool { return true }}
}

// isCluster reports whether an item is a Cluster.
func isCluster(item state.Item) bool {
	return item.Key.Group == v1alpha1.GroupVersion.Group && item.Key.Kind == "Cluster"
}

// listening loads as load does and adds the verdicts to the problems.
func (v *verdicts) listening(load reconciler.Loader) reconciler.Loader {
	return func(ctx context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		d, err := load(ctx, s)
		if err != nil {
			return d, err
		}
		found, err := v.judge(d)
		if err != nil {
			return d, err
		}
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

// set makes verdicts those of the revision that was loaded last.
func (v *verdicts) set(found map[state.Key][]state.Problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found = found
}

// judge says what is refused. Without anything to judge it reads no schema:
// compiled, they are most of what a small controller would hold.
func (v *verdicts) judge(d declared.Declared) (map[state.Key][]state.Problem, error) {
	items := slices.DeleteFunc(d.Set.Items(), func(i state.Item) bool { return !v.judged(i) })
	if len(items) == 0 {
		return nil, nil
	}
	schemas, err := v.schemas()
	if err != nil {
		return nil, err
	}
	d.Set = state.NewSet(items...)
	return lint.Refused(d, schemas), nil
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
	*cluster.World
	verdicts *verdicts
}

// Want implements target.Target.
func (a admitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return a.World.Want(ctx, admit(declared, a.verdicts.of))
}

// unadmitted is the same where there is no cluster.
type unadmitted struct {
	target.Target
	verdicts *verdicts
}

// Want implements target.Target.
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
