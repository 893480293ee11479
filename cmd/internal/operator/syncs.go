package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/artifact"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/controller/metrics"
	"github.com/poolwright/poolwright/reconciler/controller/rollout"
	"github.com/poolwright/poolwright/reconciler/declared"
	"github.com/poolwright/poolwright/reconciler/events"
	"github.com/poolwright/poolwright/reconciler/fluxsource"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/gitcredentials"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/rollback"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// addSyncs puts the Git loop on the manager.
func (a *app) addSyncs(mgr manager.Manager) error {
	series, err := metrics.New(crmetrics.Registry)
	if err != nil {
		return err
	}
	r := &controller.SyncReconciler{
		Client:    mgr.GetClient(),
		Live:      a.direct,
		Namespace: a.cfg.Namespace,
		Build:     a.builder(),
		Recorder:  events.Escape(a.notifier.Record(eventRecorder(mgr))),
		Metrics:   series,
		Clock:     clock.RealClock{},
		Jitter:    spread,
		RollOut: rollout.NewPoller(rollout.Config{
			Cluster: cluster.Live(a.direct), Snapshot: &forecasting.SnapshotReader{Reader: a.direct}, Drifted: connect.Drifted,
			LabelValue: kubernetes.LabelValue, Clock: clock.RealClock{}, Log: a.cfg.Logger.WithName("rollout"),
		}),
	}
	return r.SetupWithManager(mgr)
}

// spread varies an interval by up to a tenth. Each time it makes a generator of 5 KiB: one that
// jitter.Percent keeps must not be used by several workers at a time.
func spread(interval time.Duration) time.Duration { return jitter.Percent(0.1, nil)(interval) }

// recorder records events whose messages may repeat what others wrote.
func recorder(mgr manager.Manager) record.EventRecorder { return events.Sanitize(eventRecorder(mgr)) }

// eventRecorder records events under our name. The newer events API drops repeated
// notes into one series, which hides that something happens again.
func eventRecorder(mgr manager.Manager) record.EventRecorder {
	return mgr.GetEventRecorderFor("poolwright") //nolint:staticcheck // The newer API hides repetitions.
}

// builder assembles Git, the renderer and the cluster for a Sync.
func (a *app) builder() controller.Builder {
	return func(_ context.Context, sync *v1alpha1.Sync) (controller.SyncRuntime, error) {
		source, watchSource, err := a.source(sync)
		if err != nil {
			// The Sync must still be suspended, repaired or deleted like any other.
			source = unusable{state.Fail(state.Stalled, "InvalidSource", err)}
		}
		kubeTarget, vars, err := a.kubernetesTarget(sync, a.cfg.Logger.WithName("kubernetes").WithValues("sync", sync.Name), a.parameters.Values, nil)
		if err != nil {
			return controller.SyncRuntime{}, err
		}
		refusals := &validation.Errors{}
		awsTarget, err := a.awsTarget(sync, refusals)
		if err != nil {
			return controller.SyncRuntime{}, fmt.Errorf("connecting Sync %s to AWS: %w", sync.Name, err)
		}
		// AWS first: the engine needs its queue, and nodes their role.
		load := func() reconciler.Loader { return a.loader(a.children.forSync(sync), sync.Spec.Path, vars, refusals) }
		loop := reconciler.NewLoop(source, load(),
			reconciler.NamedTarget{Name: aws.Name, Target: awsTarget}, reconciler.NamedTarget{Name: kubernetes.Name, Target: connect.ValidatedTarget{Target: kubeTarget, Errors: refusals, Live: a.direct}}).
			WithRevisionCache(a.children.revisions).ResumesFrom(sync.Status.LastAppliedRevision, sync.Status.LastAppliedTreeID)
		if a.history != nil {
			loop.WithRecord(a.history.RunObserver(sync.Name))
		}
		watches := []watchFunc{kubeTarget.Watch, awsTarget.Watch}
		if watchSource != nil {
			watches = append(watches, watchSource)
		}
		if variables.Used(sync) {
			loop.WithInputs(vars.Inputs(load))
			for _, watch := range variables.Watch(a.cfg.REST, sync) {
				watches = append(watches, watch)
			}
		}
		forecast := connect.Forecast(a.direct, &forecasting.SnapshotReader{Reader: a.direct}, a.children.ahead, connect.EngineAWS(a.engine))
		return controller.SyncRuntime{
			Loop: loop, Watch: together(watches...), Health: kubeTarget, Orphan: a.orphan(sync, kubeTarget, awsTarget),
			Guard: func(ctx context.Context, sync *v1alpha1.Sync, p plan.Plan) plan.Plan {
				return forecasting.Guard(ctx, sync, p, forecast)
			},
		}, nil
	}
}

// parameterValues are the values of a Sync's SSM parameters, by variable.
type parameterValues func(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error)

// kubernetesTarget makes the cluster's target for a Sync, and the values of the Sync's
// variables. One for pull requests has a limiter; it does not unmask Secrets, and reads
// only what the Sync manages.
func (a *app) kubernetesTarget(sync *v1alpha1.Sync, log logr.Logger, parameters parameterValues, pullRequests flowcontrol.RateLimiter) (*kubernetes.Target, *variables.Current, error) {
	vars, review := &variables.Current{}, pullRequests != nil
	kubeTarget, err := connect.Kubernetes(kubernetes.Config{
		REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace, Ignore: sync.Spec.Ignore, Log: log, OnlyManaged: review, Limiter: pullRequests,
	}, vars, review)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting Sync %s to the cluster: %w", sync.Name, err)
	}
	vars.Read = variables.Reader{Live: a.direct, Parameters: parameters, Key: kubeTarget.Key, Sync: client.ObjectKeyFromObject(sync)}.Read
	return kubeTarget, vars, nil
}

// pinnedParameters are the values of a Sync's SSM parameters for a reader that does not
// change its status.
func pinnedParameters(_ context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	return variables.Pinned(sync)
}

// readOnlyTargets are the targets of a Sync for who only reads them, its variables, and what
// is refused of the revision that they are used for.
func (a *app) readOnlyTargets(sync *v1alpha1.Sync, observedAt *preview.ObservedAt, slow flowcontrol.RateLimiter) ([]reconciler.NamedTarget, *variables.Current, *validation.Errors, error) {
	log := a.cfg.Logger.WithName("review").WithValues("sync", sync.Name)
	kubeTarget, vars, err := a.kubernetesTarget(sync, log, pinnedParameters, slow)
	if err != nil {
		return nil, nil, nil, err
	}
	refusals := &validation.Errors{}
	awsTarget, err := aws.NewPreview(aws.Config{AWS: engine.LoadAWS, REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace, Check: refusals.Of, Live: connect.LiveCluster(a.direct), Log: log})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("connecting the pull requests of Sync %s to AWS: %w", sync.Name, err)
	}
	vars.Loaded = func() {
		kubeTarget.StartPreview()
		awsTarget.StartPreview()
	}
	return connect.CachedTargets(awsTarget, connect.ValidatedTarget{Target: kubeTarget, Errors: refusals, Live: a.direct}, observedAt), vars, refusals, nil
}

// awsTarget is the AWS target of a Sync, fenced like the rest of our writes.
func (a *app) awsTarget(sync *v1alpha1.Sync, refusals *validation.Errors) (*aws.Target, error) {
	return aws.New(aws.Config{
		AWS: engine.LoadAWS, REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace,
		Begin: a.fence.Begin, Check: refusals.Of,
		OnStatus: func(s aws.Status) { a.cluster.AWS.Report(sync.Name, s.Cluster, s.AWS) },
		Live:     connect.LiveCluster(a.direct),
		Log:      a.cfg.Logger.WithName("aws").WithValues("sync", sync.Name),
	})
}

// loader renders a snapshot's folder with the values of the variables that are the newest
// now, in a child process: this one also is Karpenter. What schemas refuse of Clusters, and
// of other objects for a field that they do not have, goes to refusals.
func (a *app) loader(in *child.Runner, path string, vars *variables.Current, refusals *validation.Errors) reconciler.Loader {
	values := vars.Newest()
	return func(ctx context.Context, s gitsource.Snapshot) (declared.Declared, error) {
		loaded, err := a.renders.Load(ctx, in, s, path, values)
		if err != nil {
			return declared.Declared{}, err
		}
		loaded.BeforeDesired = func() {
			vars.SetLoaded(values)
			refusals.Set(loaded.Clusters, loaded.UnknownFields)
		}
		return loaded.Declared, nil
	}
}

// watchFunc reports drift until its context ends.
type watchFunc func(ctx context.Context, drifted func([]state.Key)) error

// together watches several targets, and ends when one of them does.
func together(all ...watchFunc) watchFunc {
	return func(ctx context.Context, drifted func([]state.Key)) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := make(chan error, len(all))
		for _, watch := range all {
			go func() { ended <- watch(ctx, drifted) }()
		}
		var errs []error
		for range all {
			err := <-ended
			cancel()
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
}

// orphan gives up what is kept of a Sync: its inventories in the cluster and its copy
// of the repository, which may be private, on disk.
func (a *app) orphan(sync *v1alpha1.Sync, kubeTarget *kubernetes.Target, awsTarget *aws.Target) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := errors.Join(kubeTarget.Orphan(ctx), awsTarget.Orphan(ctx)); err != nil {
			return err
		}
		if err := a.cluster.RemoveAWSStatus(ctx, sync.Name); err != nil {
			return err
		}
		caches := a.cfg.caches
		if err := errors.Join(os.RemoveAll(caches.sourceDir(sync)), os.RemoveAll(caches.artifactsDir(sync)), os.RemoveAll(caches.pullRequestsDir(sync))); err != nil {
			return fmt.Errorf("removing the caches of Sync %s: %w", sync.Name, err)
		}
		return nil
	}
}

// unusable is a source that its configuration rules out.
type unusable struct{ err error }

// Fetch implements gitsource.Source.
func (u unusable) Fetch(context.Context) (gitsource.Snapshot, error) {
	return gitsource.Snapshot{}, u.err
}

// source is where the Sync's files come from, and what watches that; nil where only polling finds what is new.
// What the other kind of source has left on disk is removed.
func (a *app) source(sync *v1alpha1.Sync) (gitsource.Source, watchFunc, error) {
	unused := a.cfg.caches.artifactsDir(sync)
	if sync.Spec.SourceRef != nil {
		unused = a.cfg.caches.sourceDir(sync)
	}
	if err := os.RemoveAll(unused); err != nil {
		a.cfg.Logger.Error(err, "Removing what another source has left", "sync", sync.Name)
	}
	if sync.Spec.SourceRef == nil {
		source, err := a.gitSource(sync)
		return source, nil, err
	}
	ref, err := fluxsource.New(a.cfg.REST, sync, a.cfg.NoCrossNamespaceRefs)
	if err != nil {
		return nil, nil, err
	}
	dir := a.cfg.caches.artifactsDir(sync)
	return artifact.New(artifact.Config{
		Name: ref.Name(), Resolve: ref.Artifact, LastRevisions: a.lastRevisions(sync), Dir: dir, Disk: a.cfg.caches.all.CacheBudget(dir),
	}), ref.Watch, nil
}

// gitSource follows the Sync's repository. The Secret is read at each fetch, so
// that a rotated token works at once.
func (a *app) gitSource(sync *v1alpha1.Sync) (gitsource.Source, error) {
	return gogit.New(a.gitConfig(sync))
}

// gitConfig is how the Sync's repository is read.
func (a *app) gitConfig(sync *v1alpha1.Sync) gogit.Config {
	git, ref := sync.Spec.Source.Git, rollback.Ref(sync)
	cfg := gogit.Config{
		URL: git.URL,
		Ref: gogit.Ref{Branch: ref.Branch, Tag: ref.Tag, Commit: ref.Commit},
		Dir: a.cfg.caches.sourceDir(sync), Disk: a.cfg.caches.all.CacheBudget(a.cfg.caches.sourceDir(sync)),
		BranchState: a.branchState(sync), Verification: a.verification(sync),
	}
	if git.SecretRef != nil || git.ProxySecretRef != nil {
		credentials := gitcredentials.New(a.direct, sync, time.Now)
		cfg.Credentials, cfg.CredentialsRefused = credentials.Read, credentials.Invalidate
	}
	return cfg
}
