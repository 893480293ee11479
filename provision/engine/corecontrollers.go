package engine

import (
	"context"
	"slices"

	"github.com/aws/karpenter-provider-aws/pkg/cloudprovider/registrationhooks"
	"github.com/awslabs/operatorpkg/controller"
	"github.com/awslabs/operatorpkg/object"
	"github.com/awslabs/operatorpkg/option"
	"github.com/awslabs/operatorpkg/status"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	autoscalingv1beta1 "sigs.k8s.io/karpenter/pkg/apis/autoscaling/v1beta1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/capacitybuffer"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/dynamicresources/deviceallocation"
	metricsnode "sigs.k8s.io/karpenter/pkg/controllers/metrics/node"
	metricsnodepool "sigs.k8s.io/karpenter/pkg/controllers/metrics/nodepool"
	metricspod "sigs.k8s.io/karpenter/pkg/controllers/metrics/pod"
	nodehydration "sigs.k8s.io/karpenter/pkg/controllers/node/hydration"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/consistency"
	claimdisruption "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/disruption"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/expiration"
	claimcollection "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/garbagecollection"
	claimhydration "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/hydration"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/lifecycle"
	karppodevents "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/podevents"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/reboot"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/counter"
	poolhash "sigs.k8s.io/karpenter/pkg/controllers/nodepool/hash"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/readiness"
	"sigs.k8s.io/karpenter/pkg/controllers/nodepool/registrationhealth"
	poolvalidation "sigs.k8s.io/karpenter/pkg/controllers/nodepool/validation"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/controllers/state/informer"
	"sigs.k8s.io/karpenter/pkg/controllers/state/nodeclaimgc"
	staticdeprovisioning "sigs.k8s.io/karpenter/pkg/controllers/static/deprovisioning"
	staticprovisioning "sigs.k8s.io/karpenter/pkg/controllers/static/provisioning"
	coreoptions "sigs.k8s.io/karpenter/pkg/operator/options"
	"sigs.k8s.io/karpenter/pkg/state/cost"
	"sigs.k8s.io/karpenter/pkg/state/nodepoolhealth"
	"sigs.k8s.io/karpenter/pkg/state/virtualpods"

	"github.com/poolwright/poolwright/provision/engine/batcher"
	"github.com/poolwright/poolwright/provision/engine/emptiness"
	"github.com/poolwright/poolwright/provision/engine/instancetypes"
	"github.com/poolwright/poolwright/provision/engine/podevents"
	"github.com/poolwright/poolwright/provision/engine/repairbackoff"
)

// coreControllers are the controllers of Karpenter's core for the gates in the
// context. A test compares the list with Karpenter's own, so that an upgrade
// cannot add or drop one undetected. Calling it registers metrics: once per process.
func coreControllers(ctx context.Context, p *parts) []controller.Controller {
	devices := deviceallocation.NewController(p.client)
	buffers := virtualpods.NewVirtualPodCache(p.client)
	lock, creates := emptiness.NewLock(p.client, p.cluster.Synced), p.client
	if p.settings.Pace != PaceStock {
		creates = batcher.FinalizedClient(lock.Client(p.client))
	}
	provisioner := provisioning.NewProvisioner(creates, p.recorder, p.cloud, p.cluster, p.clock, devices, buffers)
	costs := cost.NewClusterCost(ctx, p.cloud, p.client)
	opts := coreoptions.FromContext(ctx)

	// It evaluates overlays, so it must get instance types without them.
	evaluation := batcher.NewEvaluation(nodeoverlay.NewController(p.clock, p.client, p.undecorated, p.store, p.cluster), p.client, p.undecorated)
	provisioners, trigger := provisioningControllers(p, provisioner, lock, evaluation)
	all := slices.Concat(
		provisioners,
		stateControllers(p, costs),
		removalControllers(ctx, p, provisioner, costs, lock),
		poolControllers(p),
		claimControllers(p),
	)
	if !opts.IgnoreDRARequests {
		all = append(all, devices)
	}
	if !opts.DisableClusterStateObservability {
		all = append(all, observers(p, costs)...)
	}
	if opts.FeatureGates.StaticCapacity {
		// Static capacity takes nodes away too, so it writes through the same guard as
		// disruption does.
		careful := guardedClient{p.client, p.synced}
		all = append(all,
			staticprovisioning.NewController(p.client, p.cluster, p.recorder, p.cloud, provisioner, p.clock, devices, buffers),
			staticdeprovisioning.NewController(careful, p.cluster, p.cloud, p.clock, p.recorder))
	}
	if opts.FeatureGates.NodeOverlay {
		all = append(all, evaluation)
	}
	if opts.FeatureGates.CapacityBuffer {
		all = append(all, capacitybuffer.NewController(p.client, trigger, buffers))
		if !opts.DisableClusterStateObservability {
			all = append(all, status.NewGenericObjectController[*autoscalingv1beta1.CapacityBuffer](
				p.client, eventRecorder(p.mgr), status.EmitDeprecatedMetrics, conditionBuckets()))
		}
	}
	return all
}

// provisioningControllers turn pending pods into NodeClaims. The second result triggers them.
func provisioningControllers(p *parts, provisioner *provisioning.Provisioner, lock *emptiness.Lock, evaluation *batcher.Evaluation) ([]controller.Controller, capacitybuffer.ProvisionerTrigger) {
	if p.settings.Pace == PaceStock {
		return []controller.Controller{
			provisioner,
			provisioning.NewPodController(p.client, provisioner, p.cluster),
			provisioning.NewNodeController(p.client, provisioner),
		}, provisioner
	}
	windows := batcher.NewWindows(p.settings.Batch.Idle, PaceFast.BatchIdle(), p.settings.Batch.Max)
	batch := batcher.New(p.clock, windows, batcher.NewOwners(p.clock, p.client, p.live))
	pools := batcher.NewEvaluatedPools(p.clock, p.client, p.cloud)
	overlays := batcher.NewEvaluatedOverlays(p.clock, p.client, evaluation.Finished)
	synced := func(ctx context.Context) bool {
		// Each counts its own time, so that none begins when another has given up.
		evaluated, overlaid := pools.All(ctx), !coreoptions.FromContext(ctx).FeatureGates.NodeOverlay || overlays.All(ctx)
		return p.cluster.Synced(ctx) && evaluated && overlaid
	}
	return []controller.Controller{
		batcher.NewProvisioner(provisioner, batch, p.client, synced, lock.LaunchLocker()),
		batcher.NewPodTrigger(p.client, batch, p.cluster),
		batcher.NewNodeTrigger(p.client, batch),
	}, batch
}

// stateControllers keep the in-memory cluster state.
func stateControllers(p *parts, costs *cost.ClusterCost) []controller.Controller {
	return []controller.Controller{
		informer.NewDaemonSetController(p.client, p.cluster),
		informer.NewNodeController(p.client, p.cluster),
		informer.NewPodController(p.client, p.cluster),
		informer.NewNodePoolController(p.client, p.cloud, p.cluster, costs),
		informer.NewNodeClaimController(p.client, p.cloud, p.cluster, costs),
		informer.NewPricingController(p.client, p.cloud, costs),
		nodeclaimgc.NewController(p.client, p.cluster),
	}
}

// removalControllers decide which nodes go and empty those that do, and those that are rebooted.
func removalControllers(ctx context.Context, p *parts, provisioner *provisioning.Provisioner, costs *cost.ClusterCost, lock *emptiness.Lock) []controller.Controller {
	evictions := terminator.NewQueue(p.clock, p.client, p.recorder)
	drain := terminator.NewTerminator(p.clock, p.client, evictions, p.recorder)
	return append(disruptionControllers(ctx, p, provisioner, costs, lock),
		evictions,
		termination.NewController(p.clock, p.client, p.cloud, drain, p.recorder),
		// It finishes the reboots that an existing Karpenter began: none begins here.
		reboot.NewController(p.clock, guardedClient{p.client, p.synced}, p.cloud, drain, p.recorder),
		expiration.NewController(p.clock, p.client, p.cloud),
	)
}

// disruptionControllers decide which nodes are disrupted. The decision is guarded twice:
// before it is made, and at each write that carries it out.
func disruptionControllers(ctx context.Context, p *parts, provisioner *provisioning.Provisioner, costs *cost.ClusterCost, lock *emptiness.Lock) []controller.Controller {
	careful := guardedClient{p.client, p.synced}
	if p.settings.Pace == PaceStock {
		queue := disruption.NewQueue(careful, p.recorder, p.cluster, p.clock, provisioner)
		methods := disruption.NewMethods(ctx, p.clock, p.cluster, p.client, provisioner, p.cloud, p.recorder, queue)
		for i, m := range methods {
			if m.Reason() == karpv1.DisruptionReasonUnhealthy {
				methods[i] = boundedRepair(p, m)
			}
		}
		decide := disruption.NewController(ctx, p.clock, p.client, provisioner, p.cloud, p.recorder, p.cluster, queue, costs, disruption.WithMethods(methods...))
		return []controller.Controller{
			queue,
			&gatedController{name: decide.Name(), inner: decide, allowed: p.synced, retryAfter: disruptionRetry},
		}
	}
	var queue *disruption.Queue
	queue = disruption.NewQueue(emptiness.NewClient(careful, p.live, p.clock, emptiness.Reasons(&queue)), p.recorder, p.cluster, p.clock, provisioner)
	consolidation := disruption.MakeConsolidation(p.clock, p.cluster, p.client, provisioner, p.cloud, p.recorder, queue)
	controllerOf := func(methods ...disruption.Method) *disruption.Controller {
		return disruption.NewController(ctx, p.clock, p.client, provisioner, p.cloud, p.recorder, p.cluster, queue, costs, disruption.WithMethods(methods...))
	}
	lock.SetReleaseFunc(p.cluster.NodePoolState.ReleaseNodeCount)
	var methods []disruption.Method
	if coreoptions.FromContext(ctx).FeatureGates.NodeRepair {
		methods = append(methods, lock.Decorate(boundedRepair(p, disruption.NewRepair(consolidation))))
	}
	others := controllerOf(append(methods,
		lock.Decorate(disruption.NewStaticDrift(p.cluster, provisioner, p.cloud, p.recorder)),
		lock.Decorate(disruption.NewDrift(p.client, p.cluster, provisioner, p.recorder, p.clock)),
		lock.Decorate(disruption.NewMultiNodeConsolidation(consolidation)),
		lock.Decorate(disruption.NewSingleNodeConsolidation(consolidation)),
	)...)
	empty := controllerOf(emptiness.NewMethod(disruption.NewEmptiness(consolidation), lock))
	watch := emptiness.NewWatch(p.client, p.cluster)
	return []controller.Controller{
		queue,
		watch,
		&gatedController{name: others.Name(), inner: lock.Reconciler(others), allowed: p.synced, retryAfter: disruptionRetry},
		&gatedController{name: others.Name() + ".emptiness", inner: lock.Reconciler(empty), allowed: p.synced, retryAfter: disruptionRetry, trigger: watch.Source()},
	}
}

// boundedRepair is Karpenter's method for unhealthy nodes, with a bound over time.
func boundedRepair(p *parts, repair disruption.Method) disruption.Method {
	return repairbackoff.Decorate(repair, repairbackoff.Config{
		Live: p.live, Writer: guardedClient{p.client, p.synced}, Clock: p.clock, Recorder: p.recorder, Release: p.cluster.NodePoolState.ReleaseNodeCount,
	})
}

// poolControllers keep NodePools' hashes, counters and conditions, and the
// NodeClaims' registration in step with them.
func poolControllers(p *parts) []controller.Controller {
	outcomes := nodepoolhealth.NewState()
	hooks := append([]cloudprovider.NodeLifecycleHook{
		registrationhooks.NewPlacementGroupRegistrationHook(p.providers.instances.instances),
	}, p.hooks...)
	return []controller.Controller{
		poolhash.NewController(p.client, p.cloud),
		readiness.NewController(p.clock, p.client, p.cloud),
		registrationhealth.NewController(p.clock, p.client, p.cloud, outcomes),
		counter.NewController(p.client, p.cloud, p.cluster),
		poolvalidation.NewController(p.clock, p.client, p.cloud),
		lifecycle.NewController(p.clock, p.client, p.cloud, p.recorder, p.cluster, outcomes, hooks),
	}
}

// claimControllers reconcile NodeClaims and their Nodes once they exist.
func claimControllers(p *parts) []controller.Controller {
	return []controller.Controller{
		podEvents(p),
		consistency.NewController(p.clock, p.client, p.cloud, p.recorder),
		claimcollection.NewController(p.clock, p.client, instancetypes.Without{CloudProvider: p.cloud}),
		claimdisruption.NewController(p.clock, p.client, p.cloud),
		claimhydration.NewController(p.client, p.cloud),
		nodehydration.NewController(p.client, p.cloud),
	}
}

// podEvents stores when pods came to nodes and left them.
func podEvents(p *parts) controller.Controller {
	if p.settings.Pace == PaceStock {
		return karppodevents.NewController(p.clock, p.client, p.cloud)
	}
	return podevents.NewController(p.clock, p.client, p.cloud)
}

// observers only measure: pods, nodes, pools and the conditions of each kind.
func observers(p *parts, costs *cost.ClusterCost) []controller.Controller {
	var labels []string
	for _, class := range p.cloud.GetSupportedNodeClasses() {
		labels = append(labels, karpv1.NodeClassLabelKey(object.GVK(class).GroupKind()))
	}
	labels = append(labels, karpv1.NodePoolLabelKey)
	return []controller.Controller{
		metricspod.NewController(p.client, p.cluster),
		metricsnodepool.NewController(p.client, p.cloud, costs),
		metricsnode.NewController(p.cluster),
		status.NewController[*karpv1.NodeClaim](p.client, eventRecorder(p.mgr),
			status.EmitDeprecatedMetrics, conditionBuckets(), status.WithLabels(labels...)),
		status.NewController[*karpv1.NodePool](p.client, eventRecorder(p.mgr),
			status.EmitDeprecatedMetrics, conditionBuckets()),
		status.NewGenericObjectController[*corev1.Node](p.client, eventRecorder(p.mgr),
			conditionBuckets(), status.WithLabels(append(slices.Clone(labels), karpv1.NodeInitializedLabelKey)...)),
	}
}

// conditionBuckets are half a second to two hours and a quarter, doubling.
func conditionBuckets() option.Function[status.Option] {
	return status.WithHistogramBuckets(prometheus.ExponentialBuckets(0.5, 2, 15))
}
