package kubernetes

import (
	"context"
	"slices"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
)

// Begin implements targets.InventoryWriter: the names of everything that is about to
// be written are stored before the first write.
func (w *Target) Begin(ctx context.Context, changes []plan.Change) error {
	for _, c := range changes {
		if c.Key.Target == Name {
			w.intend(c)
		}
	}
	w.mask.Keep(ctx)
	w.drift.Refresh()
	return w.store.Save(ctx)
}

// intend notes what is about to be done to an object.
func (w *Target) intend(c plan.Change) {
	rec, known := w.store.Get(c.Key)
	switch {
	case c.Action == plan.Delete:
		if !known || rec.Fingerprint.UID != c.Before.Live.UID {
			rec = inventory.Record{Key: c.Key, Version: c.Before.Version}
			rec.Fingerprint.UID = c.Before.Live.UID
		}
		rec.Allowed = c.Approval()
	case !known:
		rec = inventory.Record{Key: c.Key, Version: c.After.Version}
	default:
		rec.Allowed = nil
	}
	w.store.Put(rec)
}

// End implements targets.InventoryWriter: it stores what became of the changes, and
// sends nothing when nothing did.
func (w *Target) End(ctx context.Context) error { return w.store.Save(ctx) }

// RevokeApprovals implements targets.ApprovalRevoker.
func (w *Target) RevokeApprovals(ctx context.Context, revoked ...state.Key) error {
	w.store.RevokeApprovals(func(k state.Key) bool { return slices.Contains(revoked, k) })
	return w.store.Save(ctx)
}

// Deleting implements targets.ApprovalRevoker.
func (w *Target) Deleting(ctx context.Context) ([]state.Key, error) { return w.store.Deleting(ctx) }
