package operator

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/events"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/forgeclient"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/timeout"
)

// addPullRequests puts the controller that comments on pull requests on the manager.
func (a *app) addPullRequests(mgr manager.Manager) error {
	metrics, err := pullrequest.NewMetrics(crmetrics.Registry)
	if err != nil {
		return err
	}
	r := &pullrequest.Reconciler{
		Client: mgr.GetClient(), AllSyncs: a.allSyncs(mgr.GetClient()), Namespace: a.cfg.Namespace, Build: a.reviews(),
		Recorder: events.Sanitize(a.notifier.Record(eventRecorder(mgr))),
		Metrics:  metrics, Clock: clock.RealClock{}, Jitter: spread,
	}
	return r.SetupWithManager(mgr)
}

// allSyncs lists all Syncs: by the manager's cache, or past it where the cache has only those with
// the labels of --watch-label-selector.
func (a *app) allSyncs(cached client.Reader) client.Reader {
	if a.cfg.watched.Empty() {
		return cached
	}
	return a.direct
}

// reviews connects a Sync with its forge, with the revisions that pull requests lie
// between, and with targets of its own: those of the Git loop keep what it read last.
func (a *app) reviews() pullrequest.Builder {
	slow := unmetered{flowcontrol.NewTokenBucketRateLimiter(reviewQPS, reviewBurst)}
	return func(ctx context.Context, sync *v1alpha1.Sync) (pullrequest.ForgeAccess, error) {
		reader, err := limitedReader(a.cfg.REST, slow)
		if err != nil {
			return pullrequest.ForgeAccess{}, err
		}
		secret, err := a.forgeSecret(ctx, sync)
		if err != nil {
			return pullrequest.ForgeAccess{}, err
		}
		identity, name, err := a.identity(ctx)
		if err != nil {
			return pullrequest.ForgeAccess{}, err
		}
		at, err := forgeclient.New(sync, secret.Data, time.Now, a.fence.Transport)
		if err != nil {
			return pullrequest.ForgeAccess{}, state.Fail(state.Stalled, "InvalidPullRequests", err)
		}
		config := a.gitConfig(sync)
		config.Dir, config.Disk = a.cfg.caches.pullRequestsDir(sync), a.cfg.caches.pullRequests
		observedAt := &preview.ObservedAt{}
		targets, vars, refusals, err := a.readOnlyTargets(sync, observedAt, slow)
		if err != nil {
			return pullrequest.ForgeAccess{}, err
		}
		repository, err := gogit.Open(config)
		if err != nil {
			return pullrequest.ForgeAccess{}, state.Fail(state.Stalled, "InvalidSource", err)
		}
		proposed := a.children.forPullRequests(pullrequest.Address(sync))
		p := &preview.Planner{
			Revisions: repository, Sync: sync.DeepCopy(), Live: a.direct, Clock: clock.RealClock{}, Cluster: cluster.Live(a.direct), Drifted: connect.Drifted, PoolCosts: connect.PoolCosts(a.engine),
			Previewer: &preview.Previewer{
				Renderer: proposed, Cache: a.renders, SyncKey: connect.SyncKey(sync), Variables: vars, SchemaErrors: refusals, Targets: targets, Now: time.Now, ObservedAt: observedAt, MaxChanges: maxChangedObjects,
				Forecast: connect.Forecast(reader, &forecasting.SnapshotReader{Reader: reader, MaxAge: snapshotMaxAge, Observed: observedAt.Add, Sync: kubernetes.LabelValue(sync.Name)}, proposed, connect.EngineAWS(a.engine)),
			},
		}
		outdated := func(ctx context.Context) bool {
			now, err := a.forgeSecret(ctx, sync)
			if err == nil && now.ResourceVersion != secret.ResourceVersion {
				return true
			}
			_, called, err := a.identity(ctx)
			return err == nil && called != name
		}
		leave := func() { a.removeCache(sync, config.Dir) }
		return pullrequest.ForgeAccess{Forge: at, Planner: p, Cluster: name, Identity: identity, Outdated: outdated, Close: leave}, nil
	}
}

// forgeSecret reads the credential for the forge.
func (a *app) forgeSecret(ctx context.Context, sync *v1alpha1.Sync) (*corev1.Secret, error) {
	name := sync.Spec.PullRequests.SecretRef.Name
	var secret corev1.Secret
	err := a.direct.Get(ctx, client.ObjectKey{Namespace: sync.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, state.Failf(state.Wait, "SecretNotFound", "spec.pullRequests.secretRef names Secret %s, which is not in namespace %s; create it there", name, sync.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return &secret, nil
}

// identity are the cluster's identity, which no other has, and its name, where an
// object has it.
func (a *app) identity(ctx context.Context) (identity, name string, err error) {
	var system corev1.Namespace
	if err := a.direct.Get(ctx, client.ObjectKey{Name: "kube-system"}, &system); err != nil {
		return "", "", fmt.Errorf("reading namespace kube-system: %w", err)
	}
	now, err := cluster.ReadDesired(ctx, a.direct)
	if err != nil {
		return "", "", err
	}
	if now.Cluster != nil {
		name = now.Cluster.Spec.Name
	}
	return string(system.UID), name, nil
}

// removeCache removes the copy of a repository, which may be private, once the Sync has
// nothing to do with pull requests any more. A session that is only built anew, or ends
// with the process, leaves it to the next.
func (a *app) removeCache(sync *v1alpha1.Sync, dir string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var now v1alpha1.Sync
	if err := a.direct.Get(ctx, client.ObjectKeyFromObject(sync), &now); err != nil || now.Spec.PullRequests != nil {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		a.cfg.Logger.Error(err, "Removing the cache for pull requests", "sync", sync.Name)
	}
}

// snapshotMaxAge is how long the plans of pull requests use one snapshot of the cluster: it is of
// all pods and nodes, and plans come in numbers.
const snapshotMaxAge = 10 * time.Second

// maxChangedObjects is how many objects a pull request may change to be planned.
const maxChangedObjects = 1000

// The requests that the plans of all pull requests together send to the API server, in a
// second and at once: the Git loop and the engine, which have the same user there, need the
// rest of its share of priority and fairness.
const (
	reviewQPS   = 50
	reviewBurst = 100
)

// unmetered is a limiter that others share: the time that it lets somebody wait is not
// their work, as by [timeout.Pause].
type unmetered struct{ flowcontrol.RateLimiter }

// Wait implements flowcontrol.RateLimiter.
func (u unmetered) Wait(ctx context.Context) error {
	defer timeout.Pause(ctx)()
	return u.RateLimiter.Wait(ctx)
}

// limitedReader reads without a cache, as fast as the limiter lets it.
func limitedReader(config *rest.Config, limiter flowcontrol.RateLimiter) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = limiter
	return connect.DirectClient(config)
}
