package wire

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/declared/substitute/fluxexpr"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// variables are the values of one Sync's variables over the life of a session: the
// newest, and those of the revision that was loaded last, which alone may be revealed.
// The zero value has none.
type variables struct {
	// read reads them anew; nil where the Sync has none.
	read func(ctx context.Context) (substitute.Values, error)
	// begin is nil, or tells a world that looks at strangers' revisions that the next
	// comparison starts; nothing is revealed to that one.
	begin func()

	mu             sync.Mutex
	newest, loaded substitute.Values
}

// beside refreshes the values for a Loader that takes the newest: see reconciler.Loop.LoadsWith.
func (v *variables) beside(ctx context.Context) (string, reconciler.Loader, error) {
	digest, err := v.refresh(ctx)
	return digest, nil, err
}

// refresh reads the values, and returns their digest.
func (v *variables) refresh(ctx context.Context) (string, error) {
	if v.read == nil {
		return "", nil
	}
	values, err := v.read(ctx)
	if err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.newest = values
	return values.Digest(), nil
}

// take are the values to load with.
func (v *variables) take() substitute.Values {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.newest
}

// use makes values those of what is applied.
func (v *variables) use(values substitute.Values) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.loaded = values
	if v.begin != nil {
		v.begin()
	}
}

// reveal puts the values of Secrets into a declared Secret.
func (v *variables) reveal(object map[string]any) (map[string]any, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return substitute.Reveal(object, v.loaded)
}

// supply finds what a Sync takes variables from. It reports false for what is not there.
type supply func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error)

// valuesOf are the values of a Sync's variables. Secrets' values get tickets under the
// key, which is asked for where a Secret is named. The errors name what to mend.
func valuesOf(ctx context.Context, sync *v1alpha1.Sync, from supply, key func(context.Context) ([]byte, error)) (substitute.Values, error) {
	var sources []substitute.Source
	var secret []byte
	for _, ref := range sync.Spec.SubstituteFrom {
		source, found, err := from(ctx, ref)
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
	sources = append(sources, substitute.Plain("spec.substitute", sync.Spec.Substitute))
	return substitute.NewValues(fluxexpr.Parse, secret, sources...)
}

// substitutes reports whether a Sync has variables, or had parameters.
func substitutes(sync *v1alpha1.Sync) bool {
	return len(sync.Spec.Substitute) > 0 || len(sync.Spec.SubstituteFrom) > 0 || len(sync.Status.Parameters) > 0
}

// inCluster finds ConfigMaps and Secrets of a namespace, and no other.
func inCluster(reader client.Reader, namespace string) supply {
	return func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
		called := ref.Kind + " " + key.String()
		var source substitute.Source
		var err error
		switch ref.Kind {
		case v1alpha1.SubstituteConfigMap:
			var found corev1.ConfigMap
			err = reader.Get(ctx, key, &found)
			source = substitute.Plain(called, found.Data)
		case v1alpha1.SubstituteSecret:
			var found corev1.Secret
			err = reader.Get(ctx, key, &found)
			source = substitute.Secret(called, found.Data)
		default:
			err = state.Failf(state.Fix, "InvalidVariable", "spec.substituteFrom: there is no kind %s", ref.Kind)
		}
		switch {
		case apierrors.IsNotFound(err):
			return source, false, nil
		case err != nil:
			return source, false, fmt.Errorf("reading variables from %s: %w", called, err)
		}
		return source, true, nil
	}
}

// parametersOf are the values of a Sync's SSM parameters, by variable.
type parametersOf func(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error)

// readVariables reads the values of a Sync's variables from the cluster, as the Sync is
// then. The key is for what must stay secret.
func (a *attempt) readVariables(name client.ObjectKey, parameters parametersOf, key func(context.Context) ([]byte, error)) func(context.Context) (substitute.Values, error) {
	return func(ctx context.Context) (substitute.Values, error) {
		var now v1alpha1.Sync
		if err := a.direct.Get(ctx, name, &now); err != nil {
			return substitute.Values{}, fmt.Errorf("reading Sync %s: %w", name.Name, err)
		}
		from := inCluster(a.direct, now.Namespace)
		// Without any, those that it had are forgotten.
		if slices.ContainsFunc(now.Spec.SubstituteFrom, isParameter) || len(now.Status.Parameters) > 0 {
			found, err := parameters(ctx, &now)
			if err != nil {
				return substitute.Values{}, err
			}
			from = withParameters(found, from)
		}
		return valuesOf(ctx, &now, from, key)
	}
}

func isParameter(ref v1alpha1.SubstituteReference) bool {
	return ref.Kind == v1alpha1.SubstituteSSMParameter
}

// withParameters takes SSM parameters from the values at hand, by variable, and all
// else from elsewhere.
func withParameters(values map[string]string, other supply) supply {
	return func(ctx context.Context, ref v1alpha1.SubstituteReference) (substitute.Source, bool, error) {
		if !isParameter(ref) {
			return other(ctx, ref)
		}
		value, known := values[ref.As]
		if !known {
			return substitute.Source{}, false, state.Failf(state.Wait, "VariablesNotFound", "the SSM parameter %s has no value yet for the variable %s", ref.Name, ref.As)
		}
		return substitute.Plain(parameterSource(ref.Name), map[string]string{ref.As: value}), true, nil
	}
}

// inhabited makes the world of a Sync in the cluster, and gives it the Sync's variables.
// One for reviews of what strangers propose has a limiter; it never gets to know what is
// secret of the variables, and looks at nothing but what the Sync manages.
func (a *attempt) inhabited(sync *v1alpha1.Sync, log logr.Logger, parameters parametersOf, reviews flowcontrol.RateLimiter) (*kubernetes.World, *variables, error) {
	vars, review := &variables{}, reviews != nil
	world, err := connected(kubernetes.Config{
		REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace, Log: log, OnlyManaged: review, Limiter: reviews,
	}, vars, review)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting Sync %s to the cluster: %w", sync.Name, err)
	}
	vars.read = a.readVariables(client.ObjectKeyFromObject(sync), parameters, world.Key)
	return world, vars, nil
}

// connected makes a world in the cluster with variables.
func connected(config kubernetes.Config, vars *variables, review bool) (*kubernetes.World, error) {
	if config.Review = review; !review {
		config.Reveal = vars.reveal
	}
	world, err := kubernetes.New(config)
	if err == nil && review {
		vars.begin = world.StartReview
	}
	return world, err
}

// pinnedParameters are the values of a Sync's SSM parameters for who only looks.
func (a *attempt) pinnedParameters(_ context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	return pinned(sync)
}
