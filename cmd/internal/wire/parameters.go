package wire

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// parameters are the values of the SSM parameters of a Sync that was just read, by
// variable. They stand in its status before this returns, so that no crash lets
// anything be applied twice with two values.
func (a *attempt) parameters(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	return a.pins.Values(ctx, sync)
}

// pinned are the values of the Sync's SSM parameters as its status has them, for who
// must not change it.
func pinned(sync *v1alpha1.Sync) (map[string]string, error) {
	found := ssmversion.Pinned(sync)
	if len(found.Missing) > 0 {
		return nil, state.Failf(state.Retry, "ParametersPending",
			"Sync %s has no value of SSM parameter %s yet: it takes one when it next reads its repository", sync.Name, strings.Join(found.Missing, ", "))
	}
	return found.Values(), nil
}

// lookedUp is a Sync of a file, which may be new or differ from the live one, with the
// values that its SSM parameters would have: those of the live one, and as SSM says now
// where it has none, in a region; where that is empty, as a controller chooses it. Its
// status is made up.
func lookedUp(ctx context.Context, live client.Client, sync *v1alpha1.Sync, region string) (*v1alpha1.Sync, error) {
	if len(ssmversion.Names(sync)) == 0 {
		return sync, nil
	}
	now, err := LiveSync(ctx, live, sync.Namespace, sync.Name)
	if err != nil {
		return nil, err
	}
	out := sync.DeepCopy()
	out.Status.Parameters = now.Status.Parameters
	found := ssmversion.Pinned(out)
	if len(found.Missing) > 0 {
		if region == "" {
			region, err = regionOf(ctx, live)
		}
		var read map[string]ssmversion.Reading
		if err == nil {
			read, err = askIn(ctx, region, found.Missing)
		}
		if err != nil {
			return nil, fmt.Errorf("looking up the variables of Sync %s: %w", sync.Name, err)
		}
		found = ssmversion.Resolve(out, read, time.Time{})
	}
	out.Status.Parameters = found.Pins
	return out, nil
}

// ParameterValues are the values of the SSM parameters of a Sync of a file, by variable:
// those that the live Sync of its name has, and where that has none, as SSM says now in a
// region; an empty one is chosen as a controller does it. A parameter without a value is
// an error. Nothing is written.
func ParameterValues(ctx context.Context, live client.Client, sync *v1alpha1.Sync, region string) (map[string]string, error) {
	found, err := lookedUp(ctx, live, sync, region)
	if err != nil {
		return nil, err
	}
	return pinned(found)
}

// LiveSync reads a Sync; one that does not exist, or whose kind does not, is
// empty, and no error.
func LiveSync(ctx context.Context, c client.Client, namespace, name string) (*v1alpha1.Sync, error) {
	var sync v1alpha1.Sync
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &sync)
	if err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("reading Sync %s: %w", name, err)
	}
	return &sync, nil
}

// parameterNotes say which variable has which value of which parameter, by the status
// of the Sync, and which has none. The values tell where another source wins.
func parameterNotes(sync *v1alpha1.Sync, values substitute.Values) []plan.Note {
	key := state.Key{Target: kubernetes.Name, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name}
	var out []plan.Note
	for _, p := range ssmversion.Pinned(sync).Pins {
		text := fmt.Sprintf("${%s} is %s, from SSM parameter %s", p.Variable, p.Value, p.Name)
		other := elsewhere(values, p.Variable, p.Name)
		switch {
		case other != "":
			text = fmt.Sprintf("${%s} comes from %s: SSM parameter %s, of which the Sync has the value %s, is not used", p.Variable, other, p.Name, p.Value)
		case p.PinnedAt.IsZero():
			text += ", and stays that once the Sync has read it"
		case p.Latest != "":
			text += fmt.Sprintf(" on %s; the newest is %s: poolwright reconcile %s --update-parameters takes it", p.PinnedAt.UTC().Format(time.DateOnly), p.Latest, sync.Name)
		default:
			text += " on " + p.PinnedAt.UTC().Format(time.DateOnly)
		}
		out = append(out, plan.Note{Key: key, Text: text})
	}
	left := unreadOf(sync)
	for _, variable := range slices.Sorted(maps.Keys(left)) {
		if elsewhere(values, variable, left[variable]) != "" {
			continue
		}
		out = append(out, plan.Note{Key: key, Text: "Warning: " + left.says(variable)})
	}
	return out
}

// elsewhere is what a variable gets its value from where that is not the SSM parameter.
func elsewhere(values substitute.Values, variable, parameter string) string {
	if from := values.From(variable); from != parameterSource(parameter) {
		return from
	}
	return ""
}

// parameterSource is what an SSM parameter is called as a source of variables.
func parameterSource(name string) string { return "SSM parameter " + name }
