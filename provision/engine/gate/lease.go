package gate

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// karpenterLease is the name that stock Karpenter gives to its lease.
	karpenterLease = "karpenter-leader-election"
	// leaseAlive is how recent a renewal proves a leader.
	leaseAlive = 60 * time.Second
	// secondLook is the time between two looks at what may have been stale. A
	// leader renews every two seconds.
	secondLook = 5 * time.Second
)

// otherKarpenter refuses while another Karpenter leads. A lease whose renewal
// looks old is read twice: its holder's clock may be wrong, but a renewal that
// moves is a leader.
func (g Gates) otherKarpenter(ctx context.Context) *Refusal {
	const check = "allow list on leases.coordination.k8s.io in all namespaces"
	held, err := g.heldLeases(ctx)
	if err != nil {
		return unproven(OtherKarpenter, check, err)
	}
	alive, doubtful := g.judge(held)
	if len(alive) == 0 && doubtful {
		if err := g.wait(ctx, secondLook); err != nil {
			return unproven(OtherKarpenter, check, err)
		}
		again, err := g.heldLeases(ctx)
		if err != nil {
			return unproven(OtherKarpenter, check, err)
		}
		for at, renewed := range again {
			if before, ok := held[at]; !ok || !before.Equal(renewed) {
				alive = append(alive, at.String())
			}
		}
	}
	if len(alive) == 0 {
		return nil
	}
	slices.Sort(alive)
	return refuse(OtherKarpenter, "scale the other Karpenter to zero and wait a minute, or set spec.engine.mode to External",
		"another Karpenter leads in this cluster: lease %s is being renewed", some(alive))
}

// judge splits held leases into those surely alive and tells whether any of the
// others is worth a second look.
func (g Gates) judge(held map[types.NamespacedName]time.Time) (alive []string, doubtful bool) {
	for at, renewed := range held {
		if g.Clock.Since(renewed) < leaseAlive {
			alive = append(alive, at.String())
		} else {
			doubtful = true
		}
	}
	return alive, doubtful
}

// heldLeases are the renewals of others' Karpenter leases that name a holder. A
// leader that stops orderly takes its name off.
func (g Gates) heldLeases(ctx context.Context) (map[types.NamespacedName]time.Time, error) {
	leases := &coordinationv1.LeaseList{}
	byName := &client.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", karpenterLease)}
	if err := g.Kube.List(ctx, leases, byName); err != nil {
		return nil, fmt.Errorf("listing leases: %w", err)
	}
	held := map[types.NamespacedName]time.Time{}
	for _, lease := range leases.Items {
		at := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Name}
		s := lease.Spec
		if lease.Name != karpenterLease || at == g.OwnLease || s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil {
			continue
		}
		held[at] = s.RenewTime.Time
	}
	return held, nil
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
