package wire

import (
	"context"
	"errors"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/crds"
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
	// unknown are the objects with a field that our schemas do not have, see admission.
	unknown map[state.Key][]state.Problem
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
		schemas, err := crds.Known()
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
		v.set(found, nil)
		return d, nil
	}
}

// set makes verdicts those of the revision that worlds are asked about.
func (v *verdicts) set(found, unknown map[state.Key][]state.Problem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.found, v.unknown = found, unknown
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
	// live reads the cluster's definitions.
	live client.Reader
}

// Want implements targets.Target.
func (a admitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return a.verdicts.want(ctx, a.World, a.live, declared)
}

// unadmitted is the same where there is no cluster.
type unadmitted struct {
	targets.Target
	verdicts *verdicts
}

// Want implements targets.Target.
func (u unadmitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.verdicts.want(ctx, u.Target, nil, declared)
}

// unknownFields are the problems of the declared objects with a field that neither our schema
// nor the cluster's has. Where there is no definition to read, ours decides.
func (v *verdicts) unknownFields(ctx context.Context, live client.Reader, declared state.Set) (map[state.Key][]state.Problem, error) {
	v.mu.Lock()
	found := v.unknown
	v.mu.Unlock()
	if len(found) == 0 {
		return nil, nil
	}
	return lint.StillUnknown(found, declared, crds.Live(ctx, live))
}

// want is what a world wants of what is not refused. What is refused for a field that the
// cluster does not have either is among the problems.
func (v *verdicts) want(ctx context.Context, world targets.Target, live client.Reader, declared state.Set) (state.Set, error) {
	unknown, err := v.unknownFields(ctx, live, declared)
	if err != nil {
		return state.Set{}, err
	}
	wanted, err := world.Want(ctx, admit(declared, func(item state.Item) []state.Problem {
		return append(slices.Clip(v.of(item)), unknown[item.Key]...)
	}))
	more, isMistake := errors.AsType[*targets.ProblemsError](err)
	if len(unknown) == 0 || err != nil && !isMistake {
		return wanted, err
	}
	var problems []state.Problem
	for _, of := range unknown {
		problems = append(problems, of...)
	}
	if isMistake {
		problems = append(problems, more.Problems...)
	}
	return wanted, &targets.ProblemsError{Problems: lint.Sorted(problems)}
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
