package planning

import (
	"context"
	"slices"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/lint/gpulint"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// planFolder renders a folder in this process, which is a command that a person started on a folder
// of theirs.
type planFolder struct {
	path         string
	vars         *variables.Current
	schemaErrors *validation.Errors
	// loaded is what was loaded last.
	loaded declared.Declared
}

// load is a reconciler.Loader with the newest values of the variables. What all schemas refuse
// is among the problems.
func (f *planFolder) load(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
	values := f.vars.Newest()
	d, err := declared.Load(s.FS, f.path, declared.Options{Values: values})
	if err != nil {
		return d, err
	}
	f.vars.SetLoaded(values)
	schemas, err := crds.Known()
	if err != nil {
		return d, err
	}
	refused := lint.Refused(d, schemas)
	problems := slices.Clone(d.Problems)
	for key, of := range refused {
		// The AWS target reports those of Clusters.
		if item, _ := d.Set.Get(key); !validation.IsCluster(item) {
			problems = append(problems, of...)
		}
	}
	d.Problems = lint.Sorted(problems)
	f.schemaErrors.Set(refused, nil)
	f.loaded = d
	return d, nil
}

// gpuProblems divides the findings about GPUs into problems and warnings.
// Neither blocks anything: the cluster takes all of it.
func gpuProblems(d declared.Declared) ([]state.Problem, []plan.Note, error) {
	types, err := catalog.Load()
	if err != nil {
		return nil, nil, err
	}
	var problems []state.Problem
	var notes []plan.Note
	for _, f := range gpulint.Check(d, types) {
		if f.Severity == finding.Warning {
			notes = append(notes, plan.Note{Key: f.Key, Origin: f.Origin, Severity: finding.Warning, Code: f.Code, Facts: f.Facts, Text: f.Text})
		} else {
			problems = append(problems, f.Problem())
		}
	}
	return problems, notes, nil
}
