package wire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/impact"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// PlanRequest says what to compare with what.
type PlanRequest struct {
	// REST reaches the live cluster; nil asks none, which needs Base.
	REST *rest.Config
	// Dir is the folder to plan, anywhere in a working copy.
	Dir string
	// Sync is the one as which to plan: its name decides what is ours, its
	// policies what would be held.
	Sync *v1alpha1.Sync
	// Namespace holds the Sync's inventory.
	Namespace string
	// Base is the revision from which on the step is told; empty compares Dir with
	// what is live. Head is the revision that the step leads to; empty for Dir as it is.
	Base, Head string
	// Variables are given beside those of the Sync, and win over them. A Sync's manifest
	// in a file takes the place of Sync.
	Variables variables.Input

	// lookup finds what variables come from in a live cluster.
	lookup variables.Lookup
}

// Plan says what applying a folder would change in the live cluster and in AWS,
// which is asked with the user's own credentials; or, from a base on, what the step
// does. It writes nothing. The mistakes that Lint finds without a cluster are problems
// of the report; of its advice, that about GPUs is among the warnings.
func Plan(ctx context.Context, req PlanRequest) (report.Report, error) {
	if err := req.setVariables(ctx); err != nil {
		return report.Report{}, err
	}
	if req.Base != "" {
		return planStep(ctx, req)
	}
	root, path, err := dir.Locate(req.Dir)
	if err != nil {
		return report.Report{}, err
	}
	said := &admission.Refusals{}
	sky, earth, vars, err := req.worlds(said)
	if err != nil {
		return report.Report{}, err
	}
	live, err := DirectClient(req.REST)
	if err != nil {
		return report.Report{}, err
	}
	children := &child.Runner{}
	var loaded declared.Declared
	loop := reconciler.NewLoop(dir.New(root, dir.Limits{}), remembering(withSchemas(said, loadInProcess(path, vars)), &loaded),
		reconciler.NamedTarget{Name: aws.Name, Target: sky}, reconciler.NamedTarget{Name: kubernetes.Name, Target: earth})
	forecast := liveForecast(live, &impact.Fleet{Reader: live}, children)
	guards := impact.Guard(forecast)
	result, err := loop.LoadsWith(newestOf(vars)).Plan(ctx, reconciler.Options{
		Policies: syncpolicy.ForRun(req.Sync),
		Consider: func(ctx context.Context, p plan.Plan) plan.Plan { return guards(ctx, req.Sync, p) },
	})
	if err != nil {
		return report.Report{}, fmt.Errorf("planning %s: %w", req.Dir, err)
	}
	problems, notes, err := aboutGPUs(loaded)
	if err != nil {
		return report.Report{}, err
	}
	old, err := checked.Upgrades(loaded, req.Dir)
	if err != nil {
		return report.Report{}, err
	}
	result.Plan.Notes = slices.Concat(result.Plan.Notes, old, notes, variables.Notes(syncKey(req.Sync), req.Sync, vars.Newest()))
	slices.SortStableFunc(result.Plan.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	out := report.New(result.Plan, lint.Sorted(slices.Concat(result.Problems, problems, preview.MovedClusters(result.Plan.Changes))))
	out.Sync, out.SyncState = req.Namespace+"/"+req.Sync.Name, stateOf(req.Sync)
	if !asks(req.Sync, out.ConfirmationToken) {
		out.ConfirmationToken = ""
	}
	out.Forecast = impact.OrUnknown(forecast(ctx, impact.Change{Before: before(loaded.Set, result.Plan.Changes), After: loaded.Set, Changes: result.Plan.Changes}))
	return out, nil
}

// setVariables makes the request's Sync what its Variables make of it, with the values that
// its SSM parameters have, and sets where its variables come from.
func (r *PlanRequest) setVariables(ctx context.Context) error {
	file, err := r.Variables.Read()
	if err != nil {
		return err
	}
	r.Sync = r.Variables.Apply(r.Sync, file)
	if r.REST == nil {
		return nil
	}
	live, err := DirectClient(r.REST)
	if err != nil {
		return err
	}
	r.Sync.Namespace = r.Namespace
	if r.Sync, err = withParameters(ctx, live, r.Sync, ""); err != nil {
		return err
	}
	parameters, err := variables.Pinned(r.Sync)
	r.lookup = file.Lookup(variables.WithParameters(parameters, variables.InCluster(live, r.Namespace)))
	return err
}

// before is what is declared as it is now, as far as the changes show that: what they
// make is not there yet, and what they change is otherwise.
func before(declared state.Set, changes []plan.Change) state.Set {
	was := map[state.Key]*state.Item{}
	for _, c := range changes {
		was[c.Key] = c.Before
		// Worlds put things into namespaces.
		if k := c.Key; k.Namespace == "default" {
			k.Namespace = ""
			was[k] = c.Before
		}
	}
	var items []state.Item
	for _, item := range declared.Items() {
		old, changes := was[item.Key]
		switch {
		case !changes:
			items = append(items, item)
		case old != nil && old.Object != nil:
			item.Object = old.Object
			items = append(items, item)
		}
	}
	return state.NewSet(items...)
}

// worlds are those of the request's Sync, with its variables.
func (r PlanRequest) worlds(said *admission.Refusals) (sky, earth targets.Target, vars *variables.Current, err error) {
	vars = &variables.Current{}
	if r.REST == nil {
		vars.Read = func(ctx context.Context) (substitute.Values, error) {
			values, _, err := variables.Offline(ctx, r.Variables)
			return values, err
		}
		return aws.Offline(said.Of), unadmitted{kubernetes.Offline(r.Sync.Name), said}, vars, nil
	}
	world, err := newKubernetes(kubernetes.Config{REST: r.REST, Sync: r.Sync.Name, Namespace: r.Namespace}, vars, r.Base != "")
	if err != nil {
		return nil, nil, nil, err
	}
	vars.Read = func(ctx context.Context) (substitute.Values, error) {
		return variables.Values(ctx, r.Sync, r.lookup, world.Key)
	}
	live, err := DirectClient(r.REST)
	if err != nil {
		return nil, nil, nil, err
	}
	sky, err = aws.New(aws.Config{AWS: engine.LoadAWS, REST: r.REST, Sync: r.Sync.Name, Namespace: r.Namespace, Check: said.Of, Live: LiveCluster(live)})
	return sky, admitted{world, said, live}, vars, err
}

// planStep tells what the step between two revisions does, as the comment of a pull
// request does.
func planStep(ctx context.Context, req PlanRequest) (report.Report, error) {
	root, path, err := dir.Locate(req.Dir)
	if err != nil {
		return report.Report{}, err
	}
	repository, err := gogit.OpenLocal(root)
	if err != nil {
		return report.Report{}, err
	}
	between, err := repository.Compare(ctx, req.Base, cmp.Or(req.Head, "HEAD"))
	if err != nil {
		return report.Report{}, err
	}
	if req.Head == "" {
		if between.Head, err = dir.New(root, dir.Limits{}).Fetch(ctx); err != nil {
			return report.Report{}, err
		}
	}
	said := &admission.Refusals{}
	sky, earth, vars, err := req.worlds(said)
	if err != nil {
		return report.Report{}, err
	}
	children := &child.Runner{}
	seen := &preview.ObservedAt{}
	p := &preview.Previewer{Renderer: renderer{children}, SyncKey: syncKey(req.Sync), Cache: &rendercache.Cache{}, Variables: vars, Refusals: said, Targets: cachedTargets(sky, earth, seen), Offline: req.REST == nil, Now: time.Now, ObservedAt: seen}
	if p.Offline {
		p.Forecast = impact.Declared(earth.Want, simulateIn(children))
	} else {
		live, err := DirectClient(req.REST)
		if err != nil {
			return report.Report{}, err
		}
		p.Forecast = liveForecast(live, &impact.Fleet{Reader: live, Observed: seen.Add}, children)
	}
	out, err := p.Preview(ctx, preview.Step{Comparison: between, BaseName: req.Base, Path: path, Sync: req.Sync})
	out.Report.Sync, out.Report.SyncState = req.Namespace+"/"+req.Sync.Name, stateOf(req.Sync)
	return out.Report, err
}

// stateOf is why a Sync applies no newer revision, by its spec and what its status says.
func stateOf(sync *v1alpha1.Sync) string {
	if sync.Spec.Suspend {
		return "Suspended"
	}
	stalled := meta.FindStatusCondition(sync.Status.Conditions, "Stalled")
	if stalled == nil || stalled.Status != metav1.ConditionTrue {
		return ""
	}
	if slices.Contains([]string{"NotFastForward", "LimitExceeded"}, stalled.Reason) {
		return stalled.Reason
	}
	return ""
}

// asks reports whether the controller waits for all that a confirmation quotes: before a change
// is pushed it knows nothing of it, and a confirmation would fit nothing.
func asks(sync *v1alpha1.Sync, confirmation string) bool {
	waits := confirm.Tokens(sync.Status.ConfirmationToken)
	return !slices.ContainsFunc(confirm.Tokens(confirmation), func(token string) bool { return !slices.Contains(waits, token) })
}

// loadInProcess renders a snapshot's folder with the newest values of the variables in this
// process, which is a command that a person started on a folder of its own.
func loadInProcess(path string, vars *variables.Current) reconciler.Loader {
	return func(_ context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		values := vars.Newest()
		d, err := declared.Load(s.FS, path, declared.Options{Values: values})
		if err == nil {
			vars.SetLoaded(values)
		}
		return d, err
	}
}

// LoadOffline reads a folder of a working copy for a command without a cluster, with the
// values that variables.Offline finds. What is wrong in the folder are
// the Problems of what is declared, and no error.
func LoadOffline(ctx context.Context, folder string, in variables.Input) (declared.Declared, error) {
	values, left, err := variables.Offline(ctx, in)
	if err != nil {
		return declared.Declared{}, err
	}
	return loadWith(ctx, folder, declared.Options{Values: values, Draft: len(left) > 0})
}

// load reads a folder of a working copy without a cluster and without variables.
func load(ctx context.Context, folder string) (declared.Declared, error) {
	return loadWith(ctx, folder, declared.Options{})
}

// loadWith is load with options.
func loadWith(ctx context.Context, folder string, options declared.Options) (declared.Declared, error) {
	root, path, err := dir.Locate(folder)
	if err != nil {
		return declared.Declared{}, err
	}
	snapshot, err := dir.New(root, dir.Limits{}).Fetch(ctx)
	if err != nil {
		return declared.Declared{}, err
	}
	return declared.Load(snapshot.FS, path, options)
}

// withSchemas loads as load does, in a command that a person started, and adds what all
// schemas refuse to the problems.
func withSchemas(refusals *admission.Refusals, load reconciler.Loader) reconciler.Loader {
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
			// The AWS target reports those of Clusters.
			if item, _ := d.Set.Get(key); !admission.IsCluster(item) {
				problems = append(problems, of...)
			}
		}
		d.Problems = lint.Sorted(problems)
		refusals.Set(found, nil)
		return d, nil
	}
}
