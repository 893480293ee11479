package wire

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/crds"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// parameterValues are the values of a Sync's SSM parameters, by variable.
type parameterValues func(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error)

// kubernetesTarget makes the cluster's target for a Sync, and the values of the Sync's
// variables. One for pull requests has a limiter; it does not unmask Secrets, and reads
// only what the Sync manages.
func (a *attempt) kubernetesTarget(sync *v1alpha1.Sync, log logr.Logger, parameters parameterValues, pullRequests flowcontrol.RateLimiter) (*kubernetes.Target, *variables.Current, error) {
	vars, review := &variables.Current{}, pullRequests != nil
	world, err := newKubernetes(kubernetes.Config{
		REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace, Log: log, OnlyManaged: review, Limiter: pullRequests,
	}, vars, review)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting Sync %s to the cluster: %w", sync.Name, err)
	}
	reader := variables.Reader{Live: a.direct, Parameters: parameters, Key: world.Key}
	vars.Read = func(ctx context.Context) (substitute.Values, error) {
		return reader.Read(ctx, client.ObjectKeyFromObject(sync))
	}
	return world, vars, nil
}

// newKubernetes makes a target of the cluster with variables.
func newKubernetes(config kubernetes.Config, vars *variables.Current, review bool) (*kubernetes.Target, error) {
	if config.Review = review; !review {
		config.Reveal = vars.Unmask
	}
	world, err := kubernetes.New(config)
	if err == nil && review {
		vars.Loaded = world.StartReview
	}
	return world, err
}

// newestOf refreshes the values for a Loader that takes the newest: see reconciler.Loop.LoadsWith.
func newestOf(vars *variables.Current) func(context.Context) (string, reconciler.Loader, error) {
	return func(ctx context.Context) (string, reconciler.Loader, error) {
		digest, err := vars.Refresh(ctx)
		return digest, nil, err
	}
}

// pinnedParameters are the values of a Sync's SSM parameters for a reader that does not
// change its status.
func pinnedParameters(_ context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	return variables.Pinned(sync)
}

// syncKey is the key of a Sync among the cluster's objects.
func syncKey(sync *v1alpha1.Sync) state.Key {
	return state.Key{Target: kubernetes.Name, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name}
}

// admitted is a cluster's target that is not given what was refused.
type admitted struct {
	*kubernetes.Target
	refusals *admission.Refusals
	// live reads the cluster's definitions.
	live client.Reader
}

// Want implements targets.Target.
func (a admitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return a.refusals.Want(ctx, a.Target, crds.Live(ctx, a.live), declared)
}

// unadmitted is the same where there is no cluster.
type unadmitted struct {
	targets.Target
	refusals *admission.Refusals
}

// Want implements targets.Target.
func (u unadmitted) Want(ctx context.Context, declared state.Set) (state.Set, error) {
	return u.refusals.Want(ctx, u.Target, crds.Live(ctx, nil), declared)
}

// cachedTargets are the targets of a Sync for previews, which observe less often.
func cachedTargets(sky, earth targets.Target, at *preview.ObservedAt) []reconciler.NamedTarget {
	return []reconciler.NamedTarget{
		{Name: aws.Name, Target: preview.Cached(sky, time.Minute, at, time.Now)},
		{Name: kubernetes.Name, Target: preview.Cached(earth, 5*time.Second, at, time.Now)},
	}
}

// awsTarget is the AWS target of a Sync, fenced like the rest of our writes.
func (a *attempt) awsTarget(sync *v1alpha1.Sync, refusals *admission.Refusals) (*aws.Target, error) {
	return aws.New(aws.Config{
		AWS: engine.LoadAWS, REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace,
		Begin: a.fence.Begin, Check: refusals.Of,
		OnStatus: func(s aws.Status) { a.cluster.AWS.Report(sync.Name, s.Cluster, s.AWS) },
		Live:     LiveCluster(a.direct),
		Log:      a.cfg.Logger.WithName("aws").WithValues("sync", sync.Name),
	})
}

// LiveCluster returns a function that reads which Cluster decides and what its status states of
// AWS, for aws.Config.
func LiveCluster(reader client.Reader) func(ctx context.Context) (aws.Status, error) {
	return func(ctx context.Context) (aws.Status, error) {
		all, err := cluster.Clusters(ctx, reader)
		if err != nil || len(all) == 0 {
			return aws.Status{}, err
		}
		out := aws.Status{Cluster: all[0].Name}
		if status := all[0].Status.AWS; status != nil {
			out.AWS = *status
		}
		return out, nil
	}
}
