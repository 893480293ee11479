package engine

import (
	"context"

	awsoptions "github.com/aws/karpenter-provider-aws/pkg/operator/options"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
)

// options are the two structs that Karpenter's code reads from its context.
type options struct {
	core     *coreoptions.Options
	provider *awsoptions.Options
}

// newOptions fills every field that is read after a start. Ports, leases, logs
// and the memory limit stay out: they are the manager's and the process's.
func newOptions(s Settings) options {
	on := resolveGates(s.FeatureGates)
	return options{
		core: &coreoptions.Options{
			KubeClientQPS:                    s.Kubernetes.QPS,
			KubeClientBurst:                  s.Kubernetes.Burst,
			DisableControllerWarmup:          s.Kubernetes.DisableControllerWarmup,
			DisableClusterStateObservability: s.Kubernetes.DisableClusterStateObservability,
			MemoryLimit:                      -1,
			CPURequests:                      s.Scheduling.CPURequests,
			LogLevel:                         "info",
			LogOutputPaths:                   "stdout",
			LogErrorOutputPaths:              "stderr",
			BatchMaxDuration:                 s.Batch.Max,
			BatchIdleDuration:                s.Batch.Idle,
			PreferencePolicy:                 coreoptions.PreferencePolicy(s.Scheduling.PreferencePolicy),
			MinValuesPolicy:                  coreoptions.MinValuesPolicy(s.Scheduling.MinValuesPolicy),
			IgnoreDRARequests:                !on.aws.DRANVIDIAGPU,
			FeatureGates:                     on.core,
		},
		provider: &awsoptions.Options{
			ClusterCABundle:              s.Nodes.CABundle,
			ClusterName:                  s.Cluster,
			ClusterEndpoint:              s.Nodes.Endpoint,
			IsolatedVPC:                  s.AWS.IsolatedVPC,
			EKSControlPlane:              s.AWS.EKSControlPlane,
			VMMemoryOverheadPercent:      s.Nodes.VMMemoryOverheadPercent,
			InterruptionQueue:            s.InterruptionQueue,
			ReservedENIs:                 s.Nodes.ReservedENIs,
			DisableDryRun:                s.AWS.DisableDryRun,
			EnableZonalShift:             s.AWS.ZonalShift,
			AMIRefreshInterval:           s.AWS.AMIRefreshInterval,
			SubnetRefreshInterval:        s.AWS.SubnetRefreshInterval,
			SecurityGroupRefreshInterval: s.AWS.SecurityGroupRefreshInterval,
			FeatureGates:                 on.aws,
		},
	}
}

// into returns a context in which Karpenter's code finds its options and logger.
func (o options) into(ctx context.Context, logger logr.Logger) context.Context {
	ctx = coreoptions.ToContext(ctx, o.core)
	ctx = awsoptions.ToContext(ctx, o.provider)
	return log.IntoContext(ctx, logger)
}

// Offline returns a context in which Karpenter's code can compute what it would do,
// with the options that an engine of these settings would have, but for resource claims: a
// simulation has no devices to allocate, and Karpenter's scheduler would place pods without
// what they claim. It logs nothing: what a
// simulation tries is no event. What Karpenter counts of it carries the controller name
// "whatif", apart from what the engine does.
func Offline(ctx context.Context, s Settings) context.Context {
	o := newOptions(s)
	o.core.IgnoreDRARequests = true
	return injection.WithControllerName(o.into(ctx, logr.Discard()), "whatif")
}
