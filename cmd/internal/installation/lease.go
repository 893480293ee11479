package installation

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/leaderelection"
	"github.com/poolwright/poolwright/provision/engine/gate"
)

// Lease is the controller's lease: whether it exists, the identity of its holder, empty
// where it was given up, and whether the holder runs the engine.
type Lease struct {
	Exists bool
	Holder string
	Engine bool
	// Renewed is when its holder renewed it last, by the holder's clock.
	Renewed time.Time
}

// EngineRuns reports whether a controller with the engine led a minute ago.
func (l Lease) EngineRuns() bool {
	return l.Holder != "" && l.Engine && time.Since(l.Renewed) < time.Minute
}

// FindLease reads the lease of the controller in a namespace.
func FindLease(ctx context.Context, reader client.Reader, namespace string) (Lease, error) {
	var lease coordinationv1.Lease
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: leaderelection.LeaseName}, &lease)
	if apierrors.IsNotFound(err) {
		return Lease{}, nil
	}
	if err != nil {
		return Lease{}, fmt.Errorf("reading the controller's lease: %w", err)
	}
	out := Lease{Exists: true, Engine: true}
	for label, value := range gate.LeaseLabels(true) {
		out.Engine = out.Engine && lease.Labels[label] == value
	}
	if lease.Spec.HolderIdentity != nil {
		out.Holder = *lease.Spec.HolderIdentity
	}
	if lease.Spec.RenewTime != nil {
		out.Renewed = lease.Spec.RenewTime.Time
	}
	return out, nil
}
