package engine

import (
	"github.com/awslabs/operatorpkg/controller"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
	karppodevents "sigs.k8s.io/karpenter/pkg/controllers/nodeclaim/podevents"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning"
	"sigs.k8s.io/karpenter/pkg/state/cost"

	"github.com/poolwright/poolwright/provision/engine/emptiness"
	"github.com/poolwright/poolwright/provision/engine/podevents"
)

// disruptionControllers decide which nodes are disrupted. The decision is guarded twice:
// before it is made, and at each write that carries it out.
func disruptionControllers(p *parts, provisioner *provisioning.Provisioner, costs *cost.ClusterCost) []controller.Controller {
	careful := guardedClient{p.client, p.fresh}
	if p.pace == PaceStock {
		queue := disruption.NewQueue(careful, p.recorder, p.cluster, p.clock, provisioner)
		decide := disruption.NewController(p.clock, p.client, provisioner, p.cloud, p.recorder, p.cluster, queue, costs)
		return []controller.Controller{
			queue,
			&guarded{name: decide.Name(), inner: decide, allowed: p.fresh, retryAfter: disruptionRetry},
		}
	}
	queue := disruption.NewQueue(emptiness.NewClient(careful, p.live, p.clock), p.recorder, p.cluster, p.clock, provisioner)
	consolidation := disruption.MakeConsolidation(p.clock, p.cluster, p.client, provisioner, p.cloud, p.recorder, queue)
	lock := &emptiness.Lock{}
	controllerOf := func(methods ...disruption.Method) *disruption.Controller {
		return disruption.NewController(p.clock, p.client, provisioner, p.cloud, p.recorder, p.cluster, queue, costs, disruption.WithMethods(methods...))
	}
	others := controllerOf(
		lock.Unlocked(disruption.NewStaticDrift(p.cluster, provisioner, p.cloud)),
		lock.Unlocked(disruption.NewDrift(p.client, p.cluster, provisioner, p.recorder, p.clock)),
		lock.Unlocked(disruption.NewMultiNodeConsolidation(consolidation)),
		lock.Unlocked(disruption.NewSingleNodeConsolidation(consolidation)),
	)
	empty := controllerOf(emptiness.NewMethod(disruption.NewEmptiness(consolidation), lock))
	watch := emptiness.NewWatch(p.client, p.cluster)
	return []controller.Controller{
		queue,
		watch,
		&guarded{name: others.Name(), inner: lock.Reconciler(others), allowed: p.fresh, retryAfter: disruptionRetry},
		&guarded{name: others.Name() + ".emptiness", inner: lock.Reconciler(empty), allowed: p.fresh, retryAfter: disruptionRetry, woken: watch.Source()},
	}
}

// podEvents stores when pods came to nodes and left them.
func podEvents(p *parts) controller.Controller {
	if p.pace == PaceStock {
		return karppodevents.NewController(p.clock, p.client, p.cloud)
	}
	return podevents.NewController(p.clock, p.client, p.cloud)
}
