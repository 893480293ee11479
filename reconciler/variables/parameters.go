package variables

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/ssmversion"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
)

// Pinned are the values of the Sync's SSM parameters as its status has them, by variable;
// without one of them it is an error that may be retried. Nothing is read or changed.
func Pinned(sync *v1alpha1.Sync) (map[string]string, error) {
	found := ssmversion.Pinned(sync)
	if len(found.Missing) > 0 {
		return nil, state.Failf(state.Retry, "ParametersPending",
			"Sync %s has no value of SSM parameter %s yet: it takes one when it next reads its repository", sync.Name, strings.Join(found.Missing, ", "))
	}
	return found.Values(), nil
}

// ReadParameters reads the newest values of SSM parameters by their names.
type ReadParameters func(ctx context.Context, names []string) (map[string]ssmversion.Reading, error)

// WithValues is a Sync of a file, which may be new or differ from the live one, with the
// values that its SSM parameters would have in status: those of the live one, and the
// newest where that has none.
func WithValues(ctx context.Context, sync, live *v1alpha1.Sync, read ReadParameters) (*v1alpha1.Sync, error) {
	if len(ssmversion.Names(sync)) == 0 {
		return sync, nil
	}
	out := sync.DeepCopy()
	out.Status.Parameters = live.Status.Parameters
	found := ssmversion.Pinned(out)
	if len(found.Missing) > 0 {
		newest, err := read(ctx, found.Missing)
		if err != nil {
			return nil, fmt.Errorf("reading the SSM parameters of Sync %s: %w", sync.Name, err)
		}
		found = ssmversion.Resolve(out, newest, time.Time{})
	}
	out.Status.Parameters = found.Pins
	return out, nil
}

// Notes state which variable has which value of which SSM parameter, by the status of the
// Sync, whose key is given, and which has none. The values show where another source wins.
func Notes(key state.Key, sync *v1alpha1.Sync, values substitute.Values) []plan.Note {
	var out []plan.Note
	for _, p := range ssmversion.Pinned(sync).Pins {
		variable, parameter, value := finding.NewFact("variable", p.Variable), finding.NewFact("parameter", p.Name), finding.NewFact("value", p.Value)
		found := finding.New(codeParameterValue, "${%s} is %s, from SSM parameter %s", variable, value, parameter)
		other := elsewhere(values, p.Variable, p.Name)
		switch {
		case other != "":
			found = finding.New(codeParameterOverridden, "${%s} comes from %s: SSM parameter %s, of which the Sync has the value %s, is not used",
				variable, finding.NewFact("source", other), parameter, value)
		case p.PinnedAt.IsZero():
			found.Text += ", and stays that once the Sync has read it"
		case p.Latest != "":
			found.Code = codeParameterOutdated
			found = found.With(finding.NewFact("newest", p.Latest))
			found.Text += fmt.Sprintf(" on %s; the newest is %s: poolwright reconcile %s --update-parameters takes it", p.PinnedAt.UTC().Format(time.DateOnly), p.Latest, sync.Name)
		default:
			found.Text += " on " + p.PinnedAt.UTC().Format(time.DateOnly)
		}
		out = append(out, plan.NewNote(key, state.Origin{}, found))
	}
	left := UnknownOf(sync)
	for _, variable := range slices.Sorted(maps.Keys(left)) {
		if elsewhere(values, variable, left[variable]) != "" {
			continue
		}
		warning := plan.NewNote(key, state.Origin{}, left.Warning(variable))
		warning.Severity = finding.Warning
		out = append(out, warning)
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
