package wire

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/reconciler/admission"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// parameterValues are the values of a Sync's SSM parameters, by variable.
type parameterValues func(ctx context.Context, sync *v1alpha1.Sync) (map[string]string, error)

// kubernetesTarget makes the cluster's target for a Sync, and the values of the Sync's
// variables. One for pull requests has a limiter; it does not unmask Secrets, and reads
// only what the Sync manages.
func (a *app) kubernetesTarget(sync *v1alpha1.Sync, log logr.Logger, parameters parameterValues, pullRequests flowcontrol.RateLimiter) (*kubernetes.Target, *variables.Current, error) {
	vars, review := &variables.Current{}, pullRequests != nil
	kubeTarget, err := connect.Kubernetes(kubernetes.Config{
		REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace, Log: log, OnlyManaged: review, Limiter: pullRequests,
	}, vars, review)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting Sync %s to the cluster: %w", sync.Name, err)
	}
	reader := variables.Reader{Live: a.direct, Parameters: parameters, Key: kubeTarget.Key}
	vars.Read = func(ctx context.Context) (substitute.Values, error) {
		return reader.Read(ctx, client.ObjectKeyFromObject(sync))
	}
	return kubeTarget, vars, nil
}

// pinnedParameters are the values of a Sync's SSM parameters for a reader that does not
// change its status.
func pinnedParameters(_ context.Context, sync *v1alpha1.Sync) (map[string]string, error) {
	return variables.Pinned(sync)
}

// awsTarget is the AWS target of a Sync, fenced like the rest of our writes.
func (a *app) awsTarget(sync *v1alpha1.Sync, refusals *admission.Refusals) (*aws.Target, error) {
	return aws.New(aws.Config{
		AWS: engine.LoadAWS, REST: a.cfg.REST, Sync: sync.Name, Namespace: a.cfg.Namespace,
		Begin: a.fence.Begin, Check: refusals.Of,
		OnStatus: func(s aws.Status) { a.cluster.AWS.Report(sync.Name, s.Cluster, s.AWS) },
		Live:     connect.LiveCluster(a.direct),
		Log:      a.cfg.Logger.WithName("aws").WithValues("sync", sync.Name),
	})
}
