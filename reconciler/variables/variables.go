// Package variables finds the values of a Sync's variables: those of spec.substitute,
// and those that its ConfigMaps, Secrets and SSM parameters have, in a cluster or in the
// files that a person names on the command line.
//
// It refuses to call AWS: the values of SSM parameters come from a function that it is
// given. It never prints what a Secret holds. Start reading at Values.
package variables

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Lookup finds what a Sync takes variables from. It reports false for what does not exist.
type Lookup func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error)

// Values are the values of a Sync's variables. Those of Secrets are masked with the key,
// which is only requested where a Secret is named. An error is classified
// ([state.Classify]) and names what to change.
func Values(ctx context.Context, sync *v1alpha1.Sync, lookup Lookup, key func(context.Context) ([]byte, error)) (substitute.Values, error) {
	var sources []substitute.Source
	var secret []byte
	for _, ref := range sync.Spec.SubstituteFrom {
		source, found, err := lookup(ctx, ref)
		switch {
		case err != nil:
			return substitute.Values{}, err
		case found:
			sources = append(sources, source)
		case !ref.Optional:
			return substitute.Values{}, state.Failf(state.Wait, "VariablesNotFound",
				"spec.substituteFrom names %s %s, which is not in namespace %s; create it there, or set optional: true", ref.Kind, ref.Name, sync.Namespace)
		}
		if ref.Kind == v1alpha1.SubstituteSecret && secret == nil {
			if secret, err = key(ctx); err != nil {
				return substitute.Values{}, err
			}
		}
	}
	sources = append(sources, substitute.Public("spec.substitute", sync.Spec.Substitute))
	return substitute.NewValues(fluxexpr.Parse, secret, sources...)
}

// Used reports whether a Sync has variables, or had SSM parameters, whose values its
// status still holds.
func Used(sync *v1alpha1.Sync) bool {
	return len(sync.Spec.Substitute) > 0 || len(sync.Spec.SubstituteFrom) > 0 || len(sync.Status.Parameters) > 0
}

// InCluster finds ConfigMaps and Secrets of a namespace, and no others.
func InCluster(reader client.Reader, namespace string) Lookup {
	return func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
		name := ref.Kind + " " + key.String()
		var source substitute.Source
		var err error
		switch ref.Kind {
		case v1alpha1.SubstituteConfigMap:
			var found corev1.ConfigMap
			err = reader.Get(ctx, key, &found)
			source = substitute.Public(name, found.Data)
		case v1alpha1.SubstituteSecret:
			var found corev1.Secret
			err = reader.Get(ctx, key, &found)
			source = substitute.Secret(name, found.Data)
		default:
			err = state.Failf(state.Stalled, "InvalidVariable", "spec.substituteFrom: there is no kind %s", ref.Kind)
		}
		switch {
		case apierrors.IsNotFound(err):
			return source, false, nil
		case err != nil:
			return source, false, fmt.Errorf("reading variables from %s: %w", name, err)
		}
		return source, true, nil
	}
}

// WithParameters finds SSM parameters among values, which are by variable, and all else
// with another Lookup.
func WithParameters(values map[string]string, other Lookup) Lookup {
	return func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		if !isParameter(ref) {
			return other(ctx, ref)
		}
		value, known := values[ref.Variable]
		if !known {
			return substitute.Source{}, false, state.Failf(state.Wait, "VariablesNotFound", "the SSM parameter %s has no value yet for the variable %s", ref.Name, ref.Variable)
		}
		return substitute.Public(parameterSource(ref.Name), map[string]string{ref.Variable: value}), true, nil
	}
}

func isParameter(ref v1alpha1.SubstituteReference) bool {
	return ref.Kind == v1alpha1.SubstituteSSMParameter
}

// Reader reads the values of the variables of a Sync in a cluster.
type Reader struct {
	// Live reads Syncs, ConfigMaps and Secrets without a cache.
	Live client.Reader
	// Parameters are the values of a Sync's SSM parameters, by variable.
	Parameters func(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error)
	// Key masks the values of Secrets.
	Key func(context.Context) ([]byte, error)
	// Sync is the Sync's name.
	Sync client.ObjectKey
}

// Read reads the values of the variables of the Sync as it is now.
func (r Reader) Read(ctx context.Context) (substitute.Values, error) {
	var now v1alpha1.Sync
	if err := r.Live.Get(ctx, r.Sync, &now); err != nil {
		return substitute.Values{}, fmt.Errorf("reading Sync %s: %w", r.Sync.Name, err)
	}
	lookup := InCluster(r.Live, now.Namespace)
	// Without any, those that it had are dropped.
	if slices.ContainsFunc(now.Spec.SubstituteFrom, isParameter) || len(now.Status.Parameters) > 0 {
		found, err := r.Parameters(ctx, &now)
		if err != nil {
			return substitute.Values{}, err
		}
		lookup = WithParameters(found, lookup)
	}
	return Values(ctx, &now, lookup, r.Key)
}
