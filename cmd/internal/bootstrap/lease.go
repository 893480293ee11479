package bootstrap

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/installation"
	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
)

const (
	// otherLeaseLasts is how long one lasts that does not have it, and leaseMargin what is
	// added: a standby of Karpenter's would lead before.
	otherLeaseLasts = 15 * time.Second
	leaseMargin     = 3 * time.Second
)

// leaseTakeover watches a lease whose holder should be gone.
type leaseTakeover struct {
	client.Client
	key   client.ObjectKey
	now   func() time.Time
	moved time.Time // as the holder wrote it last
	since time.Time // when that was observed first, by our own clock
}

// awaitLease waits until nobody renews the other Karpenter's lease any more, and
// takes its holder's name off. Karpenter dies of SIGTERM without doing so itself,
// and the engine's gate would wait for a minute, since it shares no clock with the
// holder. This is the rule by which Karpenter's own standbys take over: no renewal for
// as long as the lease lasts.
func (b *Bootstrap) awaitLease(ctx context.Context, k existingKarpenter, timeout time.Duration) error {
	v := &leaseTakeover{Client: b.direct, now: time.Now, key: k.Election}
	if err := installation.Await(ctx, timeout, b.req.Progress, v.check); err != nil {
		return fmt.Errorf("waiting for the end of lease %s: %w", v.key, err)
	}
	return nil
}

// check reports whether the lease is nobody's.
func (v *leaseTakeover) check(ctx context.Context) (bool, string, error) {
	var lease coordinationv1.Lease
	err := v.Get(ctx, v.key, &lease)
	if apierrors.IsNotFound(err) {
		return true, "", nil
	}
	if apierrors.IsForbidden(err) {
		return true, "you may not read lease " + v.key.String() + ", so that the engine's gate waits for a minute more", nil
	}
	if err != nil {
		return false, "", fmt.Errorf("reading lease %s: %w", v.key, err)
	}
	spec := &lease.Spec
	if spec.HolderIdentity == nil || *spec.HolderIdentity == "" || spec.RenewTime == nil {
		return true, "", nil
	}
	if !spec.RenewTime.Time.Equal(v.moved) {
		v.moved, v.since = spec.RenewTime.Time, v.now()
	}
	lasts := otherLeaseLasts
	if s := spec.LeaseDurationSeconds; s != nil && *s > 0 {
		lasts = time.Duration(*s) * time.Second
	}
	if v.now().Sub(v.since) < lasts+leaseMargin {
		return false, fmt.Sprintf("waiting until lease %s of %s was not renewed for %s", v.key, *spec.HolderIdentity, lasts+leaseMargin), nil
	}
	before, nobody := lease.DeepCopy(), ""
	spec.HolderIdentity = &nobody
	err = v.Patch(ctx, &lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return false, "lease " + v.key.String() + " is being renewed again", nil
	}
	if apierrors.IsForbidden(err) {
		return true, "you may not patch lease " + v.key.String() + ", so that the engine's gate waits for a minute more", nil
	}
	if err != nil {
		return false, "", fmt.Errorf("taking the holder's name off lease %s: %w", v.key, err)
	}
	return true, "", nil
}

// leaderWatch reports from the controller's lease whether somebody leads, without a clock
// that is shared with the holder: only one who renews it while it is watched leads, and
// for no longer than the lease lasts by our own clock.
type leaderWatch struct {
	now      func() time.Time
	lastRead installation.Lease // as it was read last
	readAt   time.Time          // when that was, by our own clock
	renewed  time.Time          // not later than its holder renewed it, by our own clock; zero until that was observed
}

// read reads the lease and reports whether its holder leads. Who takes it from another has
// yet to renew it: what a Cluster's status has at that moment was written by the one
// before.
func (w *leaderWatch) read(ctx context.Context, reader client.Reader, namespace string) (lease installation.Lease, leads bool, err error) {
	readAt := w.now()
	if lease, err = installation.FindLease(ctx, reader, namespace); err != nil {
		return lease, false, err
	}
	switch {
	case lease.Holder != w.lastRead.Holder:
		w.renewed = time.Time{}
	case !lease.Renewed.Equal(w.lastRead.Renewed):
		w.renewed = w.readAt // it may have been right after the read before
	}
	w.lastRead, w.readAt = lease, readAt
	return lease, lease.Holder != "" && w.now().Sub(w.renewed) < leaderelection.LeaseDuration, nil
}
