package wire

import (
	"cmp"
	"context"
	"crypto/rand"

	"github.com/poolwright/poolwright/cmd/internal/given"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
)

// ownKey is for a command without a cluster: nothing that it makes outlives it.
func ownKey(context.Context) ([]byte, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never fails: the process would end.
	return key, nil
}

// offlineValues are those of the variables that a person gives, and of no other. Where
// some are named, what else a Sync takes them from may be missing: a variable without a
// value is told with its line. Nobody asks AWS: variables whose SSM parameters have no
// value here are unread, and stay in the text as they are written.
func offlineValues(ctx context.Context, g given.Variables) (values substitute.Values, left unread, err error) {
	file, err := g.Read()
	if err != nil {
		return substitute.Values{}, nil, err
	}
	sync := g.As(&v1alpha1.Sync{}, file)
	left = unreadOf(sync)
	from := file.Supply(nil)
	values, err = valuesOf(ctx, sync, func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		if isParameter(ref) {
			return substitute.Plain(parameterSource(ref.Name), map[string]string{ref.As: cmp.Or(ssmversion.Pinned(sync).Values()[ref.As], "${"+ref.As+"}")}), true, nil
		}
		source, found, err := from(ctx, ref)
		if found || err != nil || ref.Optional {
			return source, found, err
		}
		if len(g.Values) > 0 {
			return substitute.Plain(ref.Kind+" "+ref.Name, nil), true, nil
		}
		return source, false, state.Failf(state.Fix, "VariablesNotFound", "the Sync takes variables from %s %s, which is not in %s: put it there, or give its variables with --substitute NAME=VALUE",
			ref.Kind, ref.Name, g.SyncFile)
	}, ownKey)
	return values, left, err
}

// GivenValues are the values of the variables that a person gives, for a command without a
// cluster. Those of SSM parameters that nobody knows here stay in the text as written.
func GivenValues(ctx context.Context, g given.Variables) (substitute.Values, error) {
	values, _, err := offlineValues(ctx, g)
	return values, err
}

// unread are the names of SSM parameters whose values nobody here knows, by variable.
type unread map[string]string

// unreadOf are those of a Sync: its status has no value of them, nor has
// spec.substitute one of their variables.
func unreadOf(sync *v1alpha1.Sync) unread {
	pinned, out := ssmversion.Pinned(sync).Values(), unread{}
	for _, ref := range sync.Spec.SubstituteFrom {
		_, known := pinned[ref.As]
		if _, given := sync.Spec.Substitute[ref.As]; isParameter(ref) && !known && !given {
			out[ref.As] = ref.Name
		}
	}
	return out
}

// LoadGiven reads a folder of a working copy with the variables that a person gives, for
// a command without a cluster: as GivenValues has them. What is wrong in the folder are
// the Problems of what is declared, and no error.
func LoadGiven(ctx context.Context, folder string, g given.Variables) (declared.Declared, error) {
	values, left, err := offlineValues(ctx, g)
	if err != nil {
		return declared.Declared{}, err
	}
	return loadWith(ctx, folder, declared.Options{Values: values, Draft: len(left) > 0})
}

// settle makes the request's Sync what the given variables make of it, with the values
// that its SSM parameters have, and finds out where its variables come from.
func (r *PlanRequest) settle(ctx context.Context) error {
	file, err := r.Variables.Read()
	if err != nil {
		return err
	}
	r.Sync = r.Variables.As(r.Sync, file)
	if r.REST == nil {
		return nil
	}
	live, err := DirectClient(r.REST)
	if err != nil {
		return err
	}
	r.Sync.Namespace = r.Namespace
	if r.Sync, err = lookedUp(ctx, live, r.Sync, ""); err != nil {
		return err
	}
	parameters, err := pinned(r.Sync)
	r.supply = file.Supply(withParameters(parameters, inCluster(live, r.Namespace)))
	return err
}
