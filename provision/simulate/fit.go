package simulate

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/simulate/internal/placement"
	"github.com/poolwright/poolwright/provision/simulate/internal/workload"
)

// fit computes which pods find a node, before and after.
func (c *comparison) fit(ctx context.Context) error {
	c.found = provision.PodScheduling{NewlySchedulable: []provision.Placement{}, NewlyUnschedulable: []provision.Placement{}, Unschedulable: []provision.Placement{}}
	was, is := c.before.PodsByWorkload(c.before.Pods, c.unknown), c.after.PodsByWorkload(c.before.Pods, c.unknown)
	if len(c.before.Nodes) > 0 {
		workload.ScaleToZero(was, is)
	}
	ending := ending(was, is)
	c.after.RemovePods(ending)
	c.release(ending)
	if err := c.checkReservations(ctx); err != nil {
		return err
	}
	gone, movers, withoutController := c.terminating(ending)
	if err := c.blockWithoutController(ctx, movers, withoutController, gone); err != nil {
		return err
	}
	before, after := c.queues(was, is)
	moving := c.alike(movers)
	c.waiting = after.now
	if err := c.alreadyLeaving(ctx, before.now, slices.Concat(after.now, moving), gone, ending); err != nil {
		return err
	}
	if err := c.schedulePending(ctx, before, after, moving, gone); err != nil {
		return err
	}
	for _, list := range [][]provision.Placement{c.found.NewlySchedulable, c.found.NewlyUnschedulable, c.found.Unschedulable} {
		slices.SortStableFunc(list, func(a, b provision.Placement) int {
			return cmp.Or(workload.ComparePods(a.Pod, b.Pod), strings.Compare(a.Workload, b.Workload), strings.Compare(a.Pool, b.Pool))
		})
	}
	return nil
}

// schedulePending finds nodes for the queues, and for those whose nodes the change takes.
func (c *comparison) schedulePending(ctx context.Context, before, after queue, moving []pendingPod, gone map[string]bool) error {
	c.warnZones(slices.Concat(after.now, after.later, moving))
	if len(after.now)+len(after.later)+len(moving) == 0 {
		return nil
	}
	c.warnPods(append(slices.Clone(after.now), moving...))
	c.warnClaims(slices.Concat(after.now, after.later, moving))
	then, err := c.placeAll(ctx, c.before, before, nil)
	if err != nil {
		return err
	}
	c.before.Release()
	after.now, moving = slices.Clip(after.now), slices.Clip(moving)
	now, err := c.placeAll(ctx, c.after, queue{now: append(after.now, moving...), later: after.later}, gone)
	if err != nil {
		return err
	}
	c.recordUnschedulable(slices.Concat(after.now, after.later), then, now)
	c.recordStuck(moving, now)
	c.warnNodes()
	return nil
}

// recordUnschedulable records the pending pods that have another outcome after the change.
func (c *comparison) recordUnschedulable(pending []pendingPod, then, now map[types.UID]placement.Outcome) {
	type change struct {
		list *[]provision.Placement
		provision.Placement
	}
	known := map[change]int{}
	for _, s := range pending {
		if claimsDevices(s.pod) {
			continue
		}
		had, there := then[s.prior]
		found, gets := s.runs || there && had.Reason == "", now[s.pod.UID]
		list := &c.found.Unschedulable
		switch {
		case gets.Reason == "" && found:
			continue
		case gets.Reason == "":
			list = &c.found.NewlySchedulable
		case found:
			list = &c.found.NewlyUnschedulable
		}
		p := provision.Placement{Pod: workload.NameOf(s.pod), Workload: s.kind, New: !s.runs && !there, Inactive: s.later, Pool: gets.Pool}
		same := change{list, p}
		if i, ok := known[same]; ok && s.kind != "" {
			(*list)[i].Similar += 1 + s.more
			continue
		}
		known[same] = len(*list)
		p.Similar, p.Reason = s.more, gets.Reason
		*list = append(*list, p)
	}
}

// recordStuck records the pods that lose their node and find no other.
func (c *comparison) recordStuck(moving []pendingPod, now map[types.UID]placement.Outcome) {
	stuck := map[provision.Pod]bool{} // false for those that find one
	for _, s := range moving {
		gets := now[s.pod.UID]
		for _, pod := range append([]*corev1.Pod{s.pod}, s.like...) {
			stuck[workload.NameOf(pod)] = gets.Reason != ""
		}
		if gets.Reason != "" {
			c.found.NewlyUnschedulable = append(c.found.NewlyUnschedulable, provision.Placement{Pod: workload.NameOf(s.pod), Similar: s.more, Reason: gets.Reason})
		}
	}
	keep(c.replaced, stuck)
	for i, removal := range c.removed {
		for _, node := range removal.Nodes {
			for _, pod := range node.Pods {
				pod.WithoutController = false
				switch lost, sought := stuck[pod]; {
				case lost:
					c.removed[i].Unschedulable++
				case sought && !keptFor(node, pod):
					c.removed[i].Rescheduled++
				}
			}
		}
	}
}

// warnNodes warns where only pools could take the pods.
func (c *comparison) warnNodes() {
	if len(c.before.Nodes) == 0 && len(c.found.Unschedulable)+len(c.found.NewlyUnschedulable) > 0 {
		c.unknown.Add(codeNodesUnknown, "", "No node is known here: pods for which no pool has a node may have one that Karpenter did not make.")
	}
}
