// Package diagnosis finds what keeps a pod from having a node: of each NodePool the labels, resources, taints
// and limits that do not fit, as values.
//
// Whether the pod finds a node is decided by Karpenter's own scheduler on a snapshot of the cluster; what
// a pool lacks is found by Karpenter's comparisons, one requirement at a time. It refuses to read a cluster
// and to read the text of an error. Start reading at Pod.
package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/simulate/internal/offerings"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/snapshot"
)

// mostPending is for how many pending pods it is tried whether all of them find a node.
const mostPending = 500

// diagnosis is one Pod at work.
type diagnosis struct {
	live provision.ClusterSnapshot
	// all is with every pool, usable with those from which Karpenter launches nodes.
	all, usable *offerings.Resolved
	types       *catalog.Catalog
	unknown     snapshot.Unknowns
	pod         *corev1.Pod
	variants    []variant
}

// Pod diagnoses a pod that has no node. The snapshot is of the live cluster; volumes are those of the pod
// whose place is known. The context must be one of engine.Offline. An error means that nothing can be
// computed: a snapshot without a region, an ended context, a panic of Karpenter's over an invalid object.
func Pod(ctx context.Context, live provision.ClusterSnapshot, types *catalog.Catalog, pod *corev1.Pod, volumes []Volume) (out Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = Result{}, fmt.Errorf("diagnosing pod %s/%s: Karpenter's code gave up with %v: check the objects with poolwright lint", pod.Namespace, pod.Name, p)
		}
	}()
	if live.Cluster.Region == "" || live.Now.IsZero() {
		return out, errors.New("diagnosing a pod: the snapshot of the cluster has neither region nor time: fill Cluster.Region and Now")
	}
	d := &diagnosis{live: live, types: types, unknown: snapshot.Unknowns{}}
	var complete bool
	if d.variants, complete = variants(pod, volumes); !complete {
		d.unknown.Add(codeAffinityTooWide, "", "The affinity of the pod and of its volumes has more than %d alternatives: the others were not tried.", mostVariants)
	}
	d.pod = constrained(pod, d.variants)
	known, err := offerings.NewCatalog(ctx, live.Cluster, types, d.unknown)
	if err != nil {
		return out, fmt.Errorf("diagnosing a pod: %w", err)
	}
	if d.all, err = known.Resolve(ctx, snapshot.New(live, d.unknown)); err != nil {
		return out, fmt.Errorf("diagnosing a pod: %w", err)
	}
	ready := live
	ready.NodePools = slices.DeleteFunc(slices.Clone(live.NodePools), func(p *karpv1.NodePool) bool { _, not := unready(p); return not })
	if d.usable, err = known.Resolve(ctx, snapshot.New(ready, d.unknown)); err != nil {
		return out, fmt.Errorf("diagnosing a pod: %w", err)
	}
	if out, err = d.place(ctx); err != nil {
		return out, fmt.Errorf("diagnosing a pod: %w", err)
	}
	out.Pools = d.pools()
	if !out.Placed {
		if err := d.residual(ctx, &out); err != nil {
			return out, fmt.Errorf("diagnosing a pod: %w", err)
		}
	}
	out.Unknown = slices.Sorted(maps.Keys(d.unknown))
	return out, ctx.Err()
}

// place lets the scheduler find a node for the pod alone, and beside all others that are pending.
func (d *diagnosis) place(ctx context.Context) (Result, error) {
	found, err := d.try(ctx, d.usable, d.pod)
	if err != nil || found.Reason != "" {
		return Result{}, err
	}
	out := Result{Placed: true, Pool: found.Pool, Node: found.Node}
	others := d.pending()
	if len(others) == 0 {
		return out, nil
	}
	if len(others) > mostPending {
		d.unknown.Add(codePendingPodsNotTried, "", "%d pods are pending: whether all of them find a node beside this one was not tried.", len(others))
		return out, nil
	}
	all, err := (&placement.Simulation{Resolved: d.usable}).Place(ctx, append(others, d.pod), nil)
	if err != nil {
		return Result{}, err
	}
	if all[d.pod.UID].Reason != "" {
		out.CompetingPods = len(others)
	}
	return out, nil
}

// pending are the other pods for which Karpenter seeks a node.
func (d *diagnosis) pending() []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range d.live.Pods {
		if podutil.IsProvisionable(p) && podutil.IsReschedulable(p) && len(p.Spec.SchedulingGates) == 0 && snapshot.PodID(p) != d.pod.UID {
			out = append(out, snapshot.Unbound(p))
		}
	}
	return out
}

// try lets the scheduler find a node for one pod.
func (d *diagnosis) try(ctx context.Context, in *offerings.Resolved, pod *corev1.Pod) (placement.Outcome, error) {
	out, err := (&placement.Simulation{Resolved: in}).Place(ctx, []*corev1.Pod{pod}, nil)
	return out[pod.UID], err
}

// residual finds by trials what keeps the pod from pools that lack nothing by themselves.
func (d *diagnosis) residual(ctx context.Context, out *Result) error {
	if !slices.ContainsFunc(out.Pools, func(p Pool) bool { return len(p.Reasons) == 0 }) {
		return nil
	}
	found, err := d.remaining(ctx)
	if err != nil {
		return err
	}
	for i, p := range out.Pools {
		if len(p.Reasons) == 0 {
			out.Pools[i].Reasons = []UnschedulableReason{found}
		}
	}
	return nil
}

// remaining is the first of what can be left out with which the pod finds a node.
func (d *diagnosis) remaining(ctx context.Context) (UnschedulableReason, error) {
	bare := *d.usable.Indexed
	bare.DaemonSets = nil
	got, err := d.try(ctx, &offerings.Resolved{Indexed: &bare, Offerings: d.usable.Offerings}, d.pod)
	if err != nil || got.Reason == "" {
		return UnschedulableReason{Kind: DaemonSets}, err
	}
	if free, differs := withoutTopology(d.pod); differs {
		alone, err := d.try(ctx, d.usable, free)
		if err != nil || alone.Reason == "" {
			return UnschedulableReason{Kind: Topology}, err
		}
	}
	return UnschedulableReason{Kind: Scheduler, Message: got.Reason}, nil
}

// withoutTopology is the pod without what it requires of the places of other pods.
func withoutTopology(pod *corev1.Pod) (out *corev1.Pod, differs bool) {
	out = pod.DeepCopy()
	out.Spec.TopologySpreadConstraints = nil
	differs = len(pod.Spec.TopologySpreadConstraints) > 0
	if a := out.Spec.Affinity; a != nil {
		differs = differs || a.PodAffinity != nil || a.PodAntiAffinity != nil
		a.PodAffinity, a.PodAntiAffinity = nil, nil
	}
	return out, differs
}

// unready reports whether Karpenter launches no node from a pool, and why.
func unready(pool *karpv1.NodePool) (UnschedulableReason, bool) {
	if !pool.DeletionTimestamp.IsZero() {
		return UnschedulableReason{Kind: NotReady, Reason: "Terminating"}, true
	}
	// Not by StatusConditions, which adds to the object what it lacks.
	for _, c := range pool.Status.Conditions {
		if c.Type == status.ConditionReady && !c.IsTrue() {
			return UnschedulableReason{Kind: NotReady, Reason: c.Reason, Message: c.Message}, true
		}
	}
	return UnschedulableReason{}, false
}
