// Package planning is the plan command: what applying a folder would change in a live cluster and
// in AWS, or what the merge of one revision into another would.
//
// It writes nothing, and renders in its own process: a person started it on a folder of theirs.
// Start reading at Plan.
package planning

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/prices"
	"github.com/poolwright/poolwright/gitsource/dir"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/checked"
	"github.com/poolwright/poolwright/reconciler/declared/lint"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// Request is what to compare with what.
type Request struct {
	// REST reaches the live cluster; nil reads none, which needs Base.
	REST *rest.Config
	// Dir is the folder to plan, anywhere in a working copy.
	Dir string
	// Sync is the one as which to plan: its name decides what is ours, its
	// policies what would be held.
	Sync *v1alpha1.Sync
	// Namespace holds the Sync's inventory.
	Namespace string
	// Base is the revision that is merged into; empty compares Dir with what is live. Head
	// is the revision that is merged; empty for Dir as it is.
	Base, Head string
	// Variables are given beside those of the Sync, and win over them. A Sync's manifest
	// in a file takes the place of Sync.
	Variables variables.Input
	// Prices is where prices and offerings are read; nil has the shipped catalog's.
	Prices *prices.Source

	// lookup finds what variables come from in a live cluster.
	lookup variables.Lookup
}

// Plan returns what applying a folder would change in the live cluster and in AWS,
// which is read with the user's own credentials; or, from a base on, what the merge
// does. It writes nothing. The problems that Lint finds without a cluster are those
// of the report; of its advice, that about GPUs is among the warnings.
func Plan(ctx context.Context, req Request) (report.Report, error) {
	if err := req.setVariables(ctx); err != nil {
		return report.Report{}, err
	}
	if req.Base != "" {
		return planRange(ctx, req)
	}
	root, path, err := dir.Locate(req.Dir)
	if err != nil {
		return report.Report{}, err
	}
	refusals := &validation.Errors{}
	awsTarget, kubeTarget, vars, err := req.targets(refusals)
	if err != nil {
		return report.Report{}, err
	}
	live, err := connect.DirectClient(req.REST)
	if err != nil {
		return report.Report{}, err
	}
	children := &child.Runner{}
	folder := &planFolder{path: path, vars: vars, schemaErrors: refusals}
	loop := reconciler.NewLoop(dir.New(root, dir.Limits{}), folder.load,
		reconciler.NamedTarget{Name: aws.Name, Target: awsTarget}, reconciler.NamedTarget{Name: kubernetes.Name, Target: kubeTarget})
	forecast := connect.Forecast(live, &forecasting.SnapshotReader{Reader: live}, children, req.aws())
	result, err := loop.WithInputs(vars.Inputs(nil)).Plan(ctx, reconciler.Options{
		Policies: syncpolicy.ForRun(req.Sync, time.Now()),
		Guard:    func(ctx context.Context, p plan.Plan) plan.Plan { return forecasting.Guard(ctx, req.Sync, p, forecast) },
	})
	if err != nil {
		return report.Report{}, fmt.Errorf("planning %s: %w", req.Dir, err)
	}
	problems, notes, err := gpuProblems(folder.loaded)
	if err != nil {
		return report.Report{}, err
	}
	old, err := checked.Conversions(folder.loaded, req.Dir)
	if err != nil {
		return report.Report{}, err
	}
	result.Plan.Notes = slices.Concat(result.Plan.Notes, old, notes, variables.Notes(connect.SyncKey(req.Sync), req.Sync, vars.Newest()))
	slices.SortStableFunc(result.Plan.Notes, func(a, b plan.Note) int { return a.Key.Compare(b.Key) })
	out := report.New(result.Plan, lint.Sorted(slices.Concat(result.Problems, problems, preview.ClusterIdentityProblems(result.Plan.Changes))))
	out.Sync, out.SyncState = req.Namespace+"/"+req.Sync.Name, syncState(req.Sync)
	if !waitsFor(req.Sync, out.ConfirmationToken) {
		out.ConfirmationToken = ""
	}
	out.Forecast = forecasting.OrUnknown(forecast(ctx, liveBefore(folder.loaded.Set, result.Plan.Changes), folder.loaded.Set, result.Plan.Changes))
	return out, nil
}

// aws is what is known of AWS. Capacity reservations are read from the account only: a class's status has them
// otherwise, or without a cluster what a controller has published.
func (r *Request) aws() (out forecasting.AWSReader) {
	if r.Prices == nil {
		return out
	}
	out.Offerings, out.ClassReservations = r.Prices.Offerings, r.Prices.ClassReservations
	if r.Prices.Account {
		out.CapacityReservations = r.Prices.CapacityReservations
	}
	return out
}

// setVariables makes the request's Sync what its Variables make of it, with the values that
// its SSM parameters have, and sets where its variables come from.
func (r *Request) setVariables(ctx context.Context) error {
	file, err := r.Variables.Read()
	if err != nil {
		return err
	}
	r.Sync = r.Variables.Apply(r.Sync, file)
	if r.REST == nil {
		return nil
	}
	live, err := connect.DirectClient(r.REST)
	if err != nil {
		return err
	}
	r.Sync.Namespace = r.Namespace
	if r.Sync, err = connect.WithParameters(ctx, live, r.Sync, ""); err != nil {
		return err
	}
	parameters, err := variables.Pinned(r.Sync)
	r.lookup = file.Lookup(variables.WithParameters(parameters, variables.InCluster(live, r.Namespace)))
	return err
}

// liveBefore is what is declared as it is now, as far as the changes show that: what they
// make is not there yet, and what they change is otherwise.
func liveBefore(declared state.Set, changes []plan.Change) state.Set {
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

// targets are those of the request's Sync, with its variables.
func (r Request) targets(refusals *validation.Errors) (awsTarget, kubeTarget targets.Target, vars *variables.Current, err error) {
	vars = &variables.Current{}
	if r.REST == nil {
		vars.Read = func(ctx context.Context) (substitute.Values, error) {
			values, _, err := variables.Offline(ctx, r.Variables)
			return values, err
		}
		return aws.Offline(refusals.Of), connect.OfflineValidatedTarget{Target: kubernetes.Offline(r.Sync.Name, r.Sync.Spec.Ignore), Errors: refusals}, vars, nil
	}
	live, err := connect.Kubernetes(kubernetes.Config{REST: r.REST, Sync: r.Sync.Name, Namespace: r.Namespace, Ignore: r.Sync.Spec.Ignore}, vars, r.Base != "")
	if err != nil {
		return nil, nil, nil, err
	}
	vars.Read = func(ctx context.Context) (substitute.Values, error) {
		return variables.Values(ctx, r.Sync, r.lookup, live.Key)
	}
	reader, err := connect.DirectClient(r.REST)
	if err != nil {
		return nil, nil, nil, err
	}
	awsTarget, err = aws.New(aws.Config{AWS: engine.LoadAWS, REST: r.REST, Sync: r.Sync.Name, Namespace: r.Namespace, Check: refusals.Of, Live: connect.LiveCluster(reader)})
	return awsTarget, connect.ValidatedTarget{Target: live, Errors: refusals, Live: reader}, vars, err
}

// Revisions are the names of the branches and tags that a folder's repository has, or none where it cannot be read.
func Revisions(folder string) []string {
	repository, err := gogit.OpenLocal(folder)
	if err != nil {
		return nil
	}
	// Without a name there is nothing to complete.
	names, _ := repository.References()
	return names
}

// planRange plans the merge of one revision into another, as for the comment of a pull
// request.
func planRange(ctx context.Context, req Request) (report.Report, error) {
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
	refusals := &validation.Errors{}
	awsTarget, kubeTarget, vars, err := req.targets(refusals)
	if err != nil {
		return report.Report{}, err
	}
	children := &child.Runner{}
	observedAt := &preview.ObservedAt{}
	p := &preview.Previewer{Renderer: children, SyncKey: connect.SyncKey(req.Sync), Cache: &rendercache.Cache{}, Variables: vars, SchemaErrors: refusals, Targets: connect.CachedTargets(awsTarget, kubeTarget, observedAt), Offline: req.REST == nil, Now: time.Now, ObservedAt: observedAt}
	if p.Offline {
		p.Forecast = forecasting.Declared{Expand: kubeTarget.Desired, Simulate: connect.Simulate(children), AWSReader: req.aws()}.Forecast
	} else {
		live, err := connect.DirectClient(req.REST)
		if err != nil {
			return report.Report{}, err
		}
		p.Forecast = connect.Forecast(live, &forecasting.SnapshotReader{Reader: live, Observed: observedAt.Add}, children, req.aws())
	}
	out, _, err := p.Preview(ctx, preview.RevisionRange{Comparison: between, BaseName: req.Base, Path: path, Sync: req.Sync})
	out.Sync, out.SyncState = req.Namespace+"/"+req.Sync.Name, syncState(req.Sync)
	return out, err
}

// syncState is why a Sync applies no newer revision, by its metadata, its spec and its status.
func syncState(sync *v1alpha1.Sync) string {
	if !sync.DeletionTimestamp.IsZero() {
		return "Terminating"
	}
	if sync.Spec.Suspend {
		return fluxmeta.SuspendedReason
	}
	if rollback.Of(sync) != "" {
		return rollback.Condition
	}
	stalled := conditions.Get(sync, fluxmeta.StalledCondition)
	if stalled == nil || stalled.Status != metav1.ConditionTrue {
		return ""
	}
	if slices.Contains([]string{"NotFastForward", "LimitExceeded"}, stalled.Reason) {
		return stalled.Reason
	}
	return ""
}

// waitsFor reports whether the controller waits for all that a confirmation quotes: before a change
// is pushed it has not read it, and a confirmation would fit nothing.
func waitsFor(sync *v1alpha1.Sync, confirmation string) bool {
	waits := confirm.Tokens(sync.Status.ConfirmationToken)
	return !slices.ContainsFunc(confirm.Tokens(confirmation), func(token string) bool { return !slices.Contains(waits, token) })
}
