package connect

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/cluster"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// Kubernetes makes a target of the cluster with variables.
func Kubernetes(config kubernetes.Config, vars *variables.Current, forPreview bool) (*kubernetes.Target, error) {
	if config.Preview = forPreview; !forPreview {
		config.Reveal = vars.Unmask
	}
	kubeTarget, err := kubernetes.New(config)
	if err == nil && forPreview {
		vars.Loaded = kubeTarget.StartPreview
	}
	return kubeTarget, err
}

// LabelValue is the value of the label by which a Sync's objects are found, by the Sync's name.
func LabelValue(sync string) string { return kubernetes.LabelValue(sync) }

// SyncKey is the key of a Sync among the cluster's objects.
func SyncKey(sync *v1alpha1.Sync) state.Key {
	return state.Key{Target: kubernetes.Name, Group: v1alpha1.GroupVersion.Group, Kind: "Sync", Namespace: sync.Namespace, Name: sync.Name}
}

// CachedTargets are the targets of a Sync for previews, which observe less often.
func CachedTargets(awsTarget, kubeTarget targets.Target, at *preview.ObservedAt) []reconciler.NamedTarget {
	return []reconciler.NamedTarget{
		{Name: aws.Name, Target: preview.Cached(awsTarget, time.Minute, at, time.Now)},
		{Name: kubernetes.Name, Target: preview.Cached(kubeTarget, 5*time.Second, at, time.Now)},
	}
}

// LiveCluster returns a function that reads which Cluster decides and what its status states of
// AWS, for aws.Config.
func LiveCluster(reader client.Reader) func(ctx context.Context) (aws.Status, error) {
	live := cluster.Live(reader)
	return func(ctx context.Context) (aws.Status, error) {
		decides, err := live(ctx)
		if err != nil || decides == nil {
			return aws.Status{}, err
		}
		out := aws.Status{Cluster: decides.Name}
		if status := decides.Status.AWS; status != nil {
			out.AWS = *status
		}
		return out, nil
	}
}
