package wire

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pin"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target/cluster"
)

// parameters are the values of the SSM parameters of a Sync that was just read, by
// variable. They stand in its status before this returns, so that no crash lets
// anything be applied twice with two values.
func (a *attempt) parameters(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	return a.pins.values(ctx, sync)
}

// pinned are the values of the Sync's SSM parameters as its status has them, for who
// must not change it; with what there is to know of them.
func pinned(sync *v1alpha1.Sync) (map[string]string, []plan.Note, error) {
	found := pin.Pinned(sync)
	if len(found.Missing) > 0 {
		return nil, nil, state.Failf(state.Retry, "ParametersPending",
			"the Sync has no value of SSM parameter %s yet: it takes one when it next reads its repository", strings.Join(found.Missing, ", "))
	}
	return found.Values(), parameterNotes(sync, found.Pins), nil
}

// lookedUp is pinned for a Sync that may be new, or changed in a file: what has no
// value yet is read as the Sync would read it.
func lookedUp(ctx context.Context, live client.Client, sync *v1alpha1.Sync) (map[string]string, []plan.Note, error) {
	if len(pin.Names(sync)) == 0 {
		return nil, nil, nil
	}
	now, err := liveSync(ctx, live, sync.Namespace, sync.Name)
	if err != nil {
		return nil, nil, err
	}
	as := sync.DeepCopy()
	as.Status, as.Annotations = now.Status, nil
	found := pin.Pinned(as)
	if len(found.Missing) > 0 {
		read, err := askParameters(ctx, live, found.Missing)
		if err != nil {
			return nil, nil, fmt.Errorf("looking up the variables of Sync %s: %w", sync.Name, err)
		}
		found = pin.Resolve(as, read, time.Time{})
	}
	return found.Values(), parameterNotes(sync, found.Pins), nil
}

// parameterNotes say which variable has which value of which parameter.
func parameterNotes(sync *v1alpha1.Sync, pins []v1alpha1.PinnedParameter) []plan.Note {
	key := state.Key{Target: cluster.Name, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name}
	var out []plan.Note
	for _, p := range pins {
		text := fmt.Sprintf("${%s} is %s, from SSM parameter %s", p.Variable, p.Value, p.Name)
		switch {
		case p.PinnedAt.IsZero():
			text += ", and stays that once the Sync has read it"
		case p.Latest != "":
			text += fmt.Sprintf(" on %s; the newest is %s: poolwright reconcile %s --update-parameters takes it", p.PinnedAt.UTC().Format(time.DateOnly), p.Latest, sync.Name)
		default:
			text += " on " + p.PinnedAt.UTC().Format(time.DateOnly)
		}
		out = append(out, plan.Note{Key: key, Text: text})
	}
	return out
}
