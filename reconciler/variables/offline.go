package variables

import (
	"cmp"
	"context"
	"crypto/rand"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// randomKey is for a command without a cluster: nothing that it masks outlives it.
func randomKey(context.Context) ([]byte, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never fails: the process would end.
	return key, nil
}

// Offline are the values of the variables of an Input, without a cluster and without AWS.
// Where the Input has values, what else a Sync takes variables from may be missing: a
// variable without a value is reported with its line. SSM parameters whose values the file
// does not have are Unknown, and their variables stay in the text as they are written.
func Offline(ctx context.Context, in Input) (values substitute.Values, left Unknown, err error) {
	file, err := in.Read()
	if err != nil {
		return substitute.Values{}, nil, err
	}
	sync := in.Apply(&v1alpha1.Sync{}, file)
	left = UnknownOf(sync)
	lookup := file.Lookup(nil)
	values, err = Values(ctx, sync, func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		if isParameter(ref) {
			return substitute.Public(parameterSource(ref.Name), map[string]string{ref.Variable: cmp.Or(ssmversion.Pinned(sync).Values()[ref.Variable], "${"+ref.Variable+"}")}), true, nil
		}
		source, found, err := lookup(ctx, ref)
		if found || err != nil || ref.Optional {
			return source, found, err
		}
		if len(in.Values) > 0 {
			return substitute.Public(ref.Kind+" "+ref.Name, nil), true, nil
		}
		return source, false, state.Failf(state.Stalled, "VariablesNotFound", "the Sync takes variables from %s %s, which is not in %s: put it there, or give its variables with --substitute NAME=VALUE",
			ref.Kind, ref.Name, in.SyncFile)
	}, randomKey)
	return values, left, err
}

// Unknown are the names of the SSM parameters whose values are not known here, by variable.
type Unknown map[string]string

// UnknownOf are those of a Sync: its status has no value of them, nor has
// spec.substitute one of their variables.
func UnknownOf(sync *v1alpha1.Sync) Unknown {
	pinned, out := ssmversion.Pinned(sync).Values(), Unknown{}
	for _, ref := range sync.Spec.SubstituteFrom {
		_, known := pinned[ref.Variable]
		if _, given := sync.Spec.Substitute[ref.Variable]; isParameter(ref) && !known && !given {
			out[ref.Variable] = ref.Name
		}
	}
	return out
}

// Warning is the warning about a variable that is one of them.
func (u Unknown) Warning(variable string) finding.Finding {
	return finding.New(codeParameterUnknown,
		"${%s} is the value of SSM parameter %s, which is not read here, and fields that contain it are not validated; give it one with --substitute %s=VALUE",
		finding.NewFact("variable", variable), finding.NewFact("parameter", u[variable]), variable)
}
