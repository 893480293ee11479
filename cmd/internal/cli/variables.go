package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// variableFlags are the variables that a command is given.
type variableFlags struct {
	values []string
	file   string
}

func (f *variableFlags) addTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.values, "substitute", nil, "NAME=VALUE: the value of the variable ${NAME}, over all others; may be repeated; no secrets, which other processes could read")
	flags.StringVar(&f.file, "sync-file", "", "file with the Sync's manifest, for its variables, optionally with the ConfigMaps and Secrets that they come from")
}

// input are the variables, once each is of the right form.
func (f *variableFlags) input() (variables.Input, error) {
	out := variables.Input{SyncFile: f.file}
	for _, one := range f.values {
		name, value, ok := strings.Cut(one, "=")
		if !ok || name == "" {
			return out, fmt.Errorf("--substitute %q is not of the form NAME=VALUE", one)
		}
		if out.Values == nil {
			out.Values = map[string]string{}
		}
		out.Values[name] = value
	}
	return out, nil
}

// updateParameters requests of the controller the newest values of the Sync's SSM
// parameters, follows it, and prints which values changed.
func updateParameters(ctx context.Context, cl client.WithWatch, sync *v1alpha1.Sync, wait waitFlags, progress io.Writer) error {
	if !slices.ContainsFunc(sync.Spec.SubstituteFrom, func(s v1alpha1.SubstituteReference) bool { return s.Kind == v1alpha1.SubstituteSSMParameter }) {
		return fmt.Errorf("Sync %s has no SSM parameter in spec.substituteFrom to update", sync.Name)
	}
	was := slices.Clone(sync.Status.Parameters)
	token := time.Now().Format(time.RFC3339Nano)
	failed := request(ctx, cl, sync, wait, progress, func(s *v1alpha1.Sync) { s.Annotations[v1alpha1.UpdateParametersAnnotation] = token })
	if !wait.wait || ctx.Err() != nil {
		return failed
	}
	var now v1alpha1.Sync
	if err := cl.Get(ctx, client.ObjectKeyFromObject(sync), &now); err != nil {
		return fmt.Errorf("reading Sync %s: %w", sync.Name, err)
	}
	switch {
	case now.Status.LastHandledUpdateParameters != token && failed == nil:
		return fmt.Errorf("the values in use stay until all parameters can be read; for the reasons run: kubectl -n %s get events --field-selector reason=ParametersUnreadable", now.Namespace)
	case now.Status.LastHandledUpdateParameters == token:
		printParameters(progress, was, now.Status.Parameters)
	}
	return failed
}

// printParameters prints which SSM parameters of a Sync have other values than they had.
func printParameters(progress io.Writer, was, is []v1alpha1.PinnedParameter) {
	changed := 0
	for _, p := range is {
		at := slices.IndexFunc(was, func(o v1alpha1.PinnedParameter) bool { return o.Variable == p.Variable })
		switch {
		case at < 0:
			fmt.Fprintf(progress, "${%s} is %s\n", p.Variable, p.Value)
		case was[at].Value != p.Value:
			fmt.Fprintf(progress, "${%s} is %s now, it was %s\n", p.Variable, p.Value, was[at].Value)
		default:
			continue
		}
		changed++
	}
	if changed == 0 {
		fmt.Fprintln(progress, "the parameters have the newest values already")
	}
}
