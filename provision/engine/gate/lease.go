package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/internal/plural"
)

const (
	// karpenterLease is the name that stock Karpenter gives to its lease.
	karpenterLease = "karpenter-leader-election"
	// leaseAlive is how recent a renewal proves a leader.
	leaseAlive = 60 * time.Second
	// recheckDelay is the time between two reads of what may have been stale. A
	// leader renews every two seconds.
	recheckDelay = 5 * time.Second
)

// engineLabel, on a Poolwright's lease, is whether its holder runs the engine.
const engineLabel = "poolwright.dev/engine"

// LeaseLabels are what a Poolwright must put on its leader lease whenever it
// writes it, so that others can determine whether its engine runs: one whose engine is
// off or held is no other Karpenter.
func LeaseLabels(engine bool) map[string]string {
	if engine {
		return map[string]string{engineLabel: "on"}
	}
	return map[string]string{engineLabel: "off"}
}

// CheckOthers is the gate OtherKarpenter alone: for the moment after this process
// has begun to lead, and often from then on. Two that start at the same time both find
// nobody before; whoever leads last observes the other after. Of Deployments it lists
// only those with the chart's label, which are few; Check lists all. It returns nil or
// a ClosedGate.
func (g Gates) CheckOthers(ctx context.Context) error {
	g, err := g.complete()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if refusal := g.otherKarpenter(ctx, client.MatchingLabels{nameLabel: stockName}); refusal != nil {
		return *refusal
	}
	return nil
}

// otherKarpenter refuses while another Karpenter runs, known by its lease or by its
// pods among the Deployments.
func (g Gates) otherKarpenter(ctx context.Context, among ...client.ListOption) *ClosedGate {
	led := g.led(ctx)
	if led != nil && !led.Unproven {
		return led
	}
	// Read in any case: a permission that is missing is to be reported before anybody has
	// scaled the other one down.
	if unled := g.unled(ctx, among...); unled != nil {
		return unled
	}
	return led
}

// led refuses while another Karpenter leads, be it a stock one or
// another Poolwright's. A lease whose renewal seems old is read twice: its holder's
// clock may be wrong, but a renewal that moves is a leader.
func (g Gates) led(ctx context.Context) *ClosedGate {
	const check = "allow list on leases.coordination.k8s.io in all namespaces"
	held, err := g.foreignLeases(ctx)
	if err != nil {
		return unproven(OtherKarpenter, check, err)
	}
	alive, uncertain := g.classifyLeases(held)
	if len(alive) == 0 && uncertain {
		if err := g.wait(ctx, recheckDelay); err != nil {
			return unproven(OtherKarpenter, check, err)
		}
		again, err := g.foreignLeases(ctx)
		if err != nil {
			return unproven(OtherKarpenter, check, err)
		}
		for at, now := range again {
			if before, ok := held[at]; !ok || !before.renewed.Equal(now.renewed) {
				alive = append(alive, at)
			}
		}
		held = again
	}
	return refuseOthers(alive, held)
}

// unled refuses while a Karpenter's pods are ready although nobody renews the lease by
// which one is known: configured with another name for it, or without one, it runs all
// the same.
func (g Gates) unled(ctx context.Context, among ...client.ListOption) *ClosedGate {
	list := &appsv1.DeploymentList{}
	if err := g.Kube.List(ctx, list, among...); err != nil {
		return unproven(OtherKarpenter, "allow list on deployments.apps in all namespaces", fmt.Errorf("listing Deployments: %w", err))
	}
	var ready []string
	for i := range list.Items {
		if d := &list.Items[i]; d.Status.ReadyReplicas > 0 && Controller(d) != nil {
			ready = append(ready, client.ObjectKeyFromObject(d).String())
		}
	}
	if len(ready) == 0 {
		return nil
	}
	slices.Sort(ready)
	return refuse(OtherKarpenter, "to take its nodes over, scale it to zero replicas; to leave them to it, set spec.engine.mode to External",
		"another Karpenter runs in this cluster, by whatever lease: Deployment %s has ready pods", plural.FirstOf(ready, maxNamed, ", "))
}

func refuseOthers(alive []types.NamespacedName, held map[types.NamespacedName]leadership) *ClosedGate {
	var karpenters, poolwrights []string
	for _, at := range alive {
		text := at.String()
		if holder := held[at].holder; holder != "" {
			text += " of " + holder
		}
		if at.Name == karpenterLease {
			karpenters = append(karpenters, text)
		} else {
			poolwrights = append(poolwrights, text)
		}
	}
	slices.Sort(karpenters)
	slices.Sort(poolwrights)
	switch {
	case len(karpenters) > 0:
		return refuse(OtherKarpenter, "to take its nodes over, scale the Deployment behind it to zero replicas; to leave them to it, set spec.engine.mode to External",
			"another Karpenter leads in this cluster: lease %s is being renewed", plural.FirstOf(append(karpenters, poolwrights...), maxNamed, ", "))
	case len(poolwrights) > 0:
		return refuse(OtherKarpenter, "keep one Poolwright per cluster: scale the other to zero and wait a minute",
			"another Poolwright leads in this cluster and its engine runs, or may run: lease %s was renewed just now", plural.FirstOf(poolwrights, maxNamed, ", "))
	}
	return nil
}

// classifyLeases splits leases into those surely alive, and reports whether any of the
// others is worth a second read.
func (g Gates) classifyLeases(held map[types.NamespacedName]leadership) (alive []types.NamespacedName, uncertain bool) {
	for at, l := range held {
		if g.Clock.Since(l.renewed) < leaseAlive {
			alive = append(alive, at)
		} else {
			uncertain = true
		}
	}
	return alive, uncertain
}

// leadership is when a lease was renewed last, and by whom.
type leadership struct {
	renewed time.Time
	holder  string
}

// foreignLeases are the renewals of others' leases behind which a Karpenter may run:
// those named as stock Karpenter's, and those named as ours in other namespaces.
func (g Gates) foreignLeases(ctx context.Context) (map[types.NamespacedName]leadership, error) {
	held := map[types.NamespacedName]leadership{}
	for _, name := range []string{karpenterLease, g.OwnLease.Name} {
		if name == "" {
			continue
		}
		leases := &coordinationv1.LeaseList{}
		byName := &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name)}
		if err := g.Kube.List(ctx, leases, byName); err != nil {
			return nil, fmt.Errorf("listing leases: %w", err)
		}
		for _, lease := range leases.Items {
			at := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
			if lease.Name == name && at != g.OwnLease && lease.Spec.RenewTime != nil && g.mayAct(lease) {
				held[at] = leadership{lease.Spec.RenewTime.Time, ptr.Deref(lease.Spec.HolderIdentity, "")}
			}
		}
	}
	return held, nil
}

// mayAct reports whether a Karpenter may run behind a lease, if somebody renews it. A
// leader that stops orderly takes its name off. A Poolwright does so at every change of
// its settings too, and is back within seconds: while that is recent its engine still
// counts. One whose lease has nothing of its engine may have one.
func (g Gates) mayAct(lease coordinationv1.Lease) bool {
	named := lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	if lease.Name == karpenterLease {
		return named
	}
	switch lease.Labels[engineLabel] {
	case "off":
		return false
	case "on":
		return named || g.Clock.Since(lease.Spec.RenewTime.Time) < leaseAlive
	}
	return named
}

func (g Gates) wait(ctx context.Context, d time.Duration) error {
	timer := g.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
