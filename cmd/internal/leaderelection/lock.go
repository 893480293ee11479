package leaderelection

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// Lock is the lock of a leader election by the lease of that name, with these labels
// on it while it is held. Its LockConfig.EventRecorder may be set until the election
// begins.
func (f *Fence) Lock(lease types.NamespacedName, labels map[string]string) (*resourcelock.LeaseLock, error) {
	cfg := rest.AddUserAgent(f.rest, "leader-election")
	// One request that hangs must leave time for another.
	cfg.Timeout = RenewDeadline / 2
	client, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cfg.Host, err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
		Client:     fencedLeases{client, f},
		LockConfig: resourcelock.ResourceLockConfig{Identity: f.identity},
		Labels:     labels,
	}, nil
}

// fencedLeases is a client of leases that notes what becomes of ours.
type fencedLeases struct {
	coordinationv1client.LeasesGetter
	fence *Fence
}

// Leases implements coordinationv1client.LeasesGetter.
func (l fencedLeases) Leases(namespace string) coordinationv1client.LeaseInterface {
	return fencedLease{l.LeasesGetter.Leases(namespace), l.fence}
}

type fencedLease struct {
	coordinationv1client.LeaseInterface
	fence *Fence
}

// Get implements coordinationv1client.LeaseInterface.
func (l fencedLease) Get(ctx context.Context, name string, opts metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Get(ctx, name, opts)
	switch {
	case apierrors.IsNotFound(err):
		l.fence.found(false)
	case err == nil:
		l.fence.found(l.isHolder(lease))
	}
	return lease, err
}

// Create implements coordinationv1client.LeaseInterface.
func (l fencedLease) Create(ctx context.Context, lease *coordinationv1.Lease, opts metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return l.write(lease, func() (*coordinationv1.Lease, error) { return l.LeaseInterface.Create(ctx, lease, opts) })
}

// Update implements coordinationv1client.LeaseInterface. An update that gives the
// lease away is sent when all writes have a response that passed before. It is not sent where
// another holds the lease by now: client-go's elector reads the newest version, and goes by the
// holder that it has read before, so that a replica which was cut off would end the term of the next one.
func (l fencedLease) Update(ctx context.Context, lease *coordinationv1.Lease, opts metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if !l.isHolder(lease) {
		l.fence.close()
		if !l.fence.holds() {
			return nil, ErrNotLeader
		}
		if err := l.fence.waitIdle(ctx); err != nil {
			return nil, err
		}
	}
	return l.write(lease, func() (*coordinationv1.Lease, error) { return l.LeaseInterface.Update(ctx, lease, opts) })
}

// write sends a lease and goes by what the API server returns of it.
func (l fencedLease) write(lease *coordinationv1.Lease, send func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	at, term := l.fence.renewalStart()
	now, err := send()
	if err == nil {
		l.fence.found(l.isHolder(now))
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err):
		l.fence.close() // Somebody else wrote or deleted it.
	case err != nil:
		// It may have been renewed or not: the last renewal that is certain counts.
	case l.isHolder(lease) && l.isHolder(now):
		lasts := min(seconds(lease), seconds(now))
		l.fence.open(at, term, lasts-(LeaseDuration-RenewDeadline))
	default:
		l.fence.close()
	}
	return now, err
}

func (l fencedLease) isHolder(lease *coordinationv1.Lease) bool {
	return ptr.Deref(lease.Spec.HolderIdentity, "") == l.fence.identity
}

func seconds(lease *coordinationv1.Lease) time.Duration {
	return time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
}
