package causes

import (
	"cmp"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/events"
)

// Pool is what keeps Karpenter from launching a node of a NodePool. There is always a cause, if only that none was found.
func Pool(o Objects, pool *karpv1.NodePool) []Cause {
	object := "NodePool/" + pool.Name
	var out []Cause
	if !pool.DeletionTimestamp.IsZero() {
		out = append(out, Cause{Reason: reasonPoolNotReady, NodePool: pool.Name, ConditionReason: string(reasonTerminating)})
	}
	for _, c := range pool.Status.Conditions {
		if c.Type != status.ConditionReady || c.IsTrue() || !pool.DeletionTimestamp.IsZero() {
			continue
		}
		out = append(out, Cause{Reason: reasonPoolNotReady, NodePool: pool.Name, ConditionReason: c.Reason, Message: c.Message, Changes: []Remedy{{Command: "kubectl describe nodepool " + pool.Name}}})
	}
	if c, not := o.engine(); not {
		out = append(out, c)
	}
	if n := pool.Spec.Replicas; n != nil {
		out = append(out, Cause{Reason: reasonStaticPool, NodePool: pool.Name, Disruption: &Disruption{Replicas: *n}, Changes: []Remedy{{Object: object, Field: "spec.replicas"}}})
	}
	if c, is := o.backOff(pool.Name); is {
		out = append(out, c)
	}
	out = append(out, o.reached(pool)...)
	if e := o.ofPool(events.InsufficientCapacityError, pool.Name); e != nil {
		out = append(out, Cause{Reason: reasonInsufficientCapacity, Possible: true, NodePool: pool.Name, Message: e.Message, Changes: []Remedy{{Object: object, Field: "spec.template.spec.requirements"}, {Command: "poolwright get quota"}}})
	}
	out = append(out, o.held(pool.Name, true)...)
	if len(out) == 0 {
		out = append(out, Cause{Reason: reasonLaunchable, NodePool: pool.Name})
	}
	return out
}

// reached are the limits of a pool that its nodes have reached.
func (o Objects) reached(pool *karpv1.NodePool) []Cause {
	used := corev1.ResourceList{}
	count := int64(0)
	for _, claim := range o.Claims {
		if claim.Labels[karpv1.NodePoolLabelKey] != pool.Name {
			continue
		}
		count++
		for name, quantity := range claim.Status.Capacity {
			sum := used[name]
			sum.Add(quantity)
			used[name] = sum
		}
	}
	used["nodes"] = *resource.NewQuantity(count, resource.DecimalSI)
	var out []Cause
	for name, limit := range pool.Spec.Limits {
		if has := used[name]; has.Cmp(limit) >= 0 {
			out = append(out, Cause{
				Reason: reasonAtLimit, NodePool: pool.Name, Shortage: &Shortage{Resource: string(name), Limit: limit.String(), Used: has.String()},
				Changes: []Remedy{{Object: "NodePool/" + pool.Name, Field: limitField(string(name))}},
			})
		}
	}
	slices.SortFunc(out, func(a, b Cause) int { return cmp.Compare(a.Shortage.Resource, b.Shortage.Resource) })
	return out
}
