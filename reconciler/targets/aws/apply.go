package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/projection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/internal/karpenter"
)

// Apply implements targets.Target. It reads the thing again before it writes:
// what has moved since it was observed is left to the next run, unless it is as
// desired by now.
func (w *Target) Apply(ctx context.Context, change plan.Change) error {
	if !change.Admitted() || change.ReadOnly() {
		return state.Failf(state.Stalled, "Held", "it is held or read-only")
	}
	of, known := w.kinds[kindOf{change.Key.Group, change.Key.Kind}]
	if !known {
		return state.Failf(state.Stalled, "UnknownKind", "this release supports no %s of %s", change.Key.Kind, change.Key.Group)
	}
	end, err := w.pool.Begin()
	if err != nil {
		return awserr.Fail("", err)
	}
	end() // Each request begins for itself; here it is only checked.
	at, err := w.scopeOf(change)
	if err != nil {
		return err
	}
	line, who, err := w.pool.Connect(ctx, at)
	if err != nil {
		return awserr.Fail(who, err)
	}
	j := resourceApply{Target: w, change: change, of: of, to: line, who: who}
	live, err := j.read(ctx)
	if err != nil {
		return err
	}
	if change.Action == plan.Delete {
		return j.remove(ctx, live)
	}
	return j.write(ctx, live)
}

// scopeOf is where a change happens.
func (w *Target) scopeOf(c plan.Change) (resource.Scope, error) {
	at := w.current().Scope
	if c.Action == plan.Delete {
		rec, known := w.store.Get(c.Key)
		if !known {
			return resource.Scope{}, fmt.Errorf("it is not recorded as ours: %w", targets.ErrChanged)
		}
		var err error
		if at, err = resource.ParseScope(rec.Scope); err != nil {
			return resource.Scope{}, err
		}
	}
	if c.Key.Namespace != "" && c.Key.Namespace != at.Region {
		return resource.Scope{}, fmt.Errorf("the Cluster is in region %q by now: %w", at.Region, targets.ErrChanged)
	}
	return at, nil
}

// resourceApply is one Apply at work.
type resourceApply struct {
	*Target
	change plan.Change
	of     resource.Kind
	to     *connection.Connection
	who    string
}

// read reads the thing.
func (j *resourceApply) read(ctx context.Context) (resource.Live, error) {
	live := j.of.Read(ctx, j.to.Clients, []state.Key{j.change.Key})[j.change.Key]
	if live.Err != nil {
		return live, j.failed(live.Err)
	}
	return live, nil
}

func (j *resourceApply) failed(err error) error {
	if awserr.CredentialsFailed(err) {
		j.to.DropIdentity()
	}
	return awserr.Fail(j.who, err)
}

func (j *resourceApply) changed(why string) error {
	return state.Fail(state.Retry, "Conflict", fmt.Errorf("%s: %w", why, targets.ErrChanged))
}

// write makes the thing what is desired.
func (j *resourceApply) write(ctx context.Context, live resource.Live) error {
	desired := *j.change.After
	if projection.Satisfied(desired, live) {
		j.record(live)
		return nil
	}
	if err := j.compare(live); err != nil {
		return err
	}
	if live.Object != nil && !live.Ours && !desired.Adopt {
		return state.Fail(state.Retry, "AlreadyOwned", fmt.Errorf("%w: %s", targets.ErrConflict, j.current().foreign(j.change.Key)))
	}
	if live.Pending != "" {
		return state.WaitFor(30*time.Second, "Pending", fmt.Errorf("AWS is still at it: %s", live.Pending))
	}
	if err := j.mayLose(ctx, live); err != nil {
		return err
	}
	if err := j.send(ctx, live); err != nil {
		return err
	}
	// Its identity is worth one more request: without it, a crash before the
	// next read would leave an intent only.
	observed, err := j.read(ctx)
	if err != nil || observed.Object == nil {
		observed = resource.Live{UID: live.UID}
	}
	j.record(observed)
	return nil
}

// compare refuses a thing that is not the one that was planned with.
func (j *resourceApply) compare(live resource.Live) error {
	before := j.change.Before
	switch {
	case before == nil || before.Object == nil:
		if live.Object != nil {
			return j.changed("it has appeared since")
		}
	case live.Object == nil:
		return j.changed("it is gone by now")
	case live.UID != before.Live.UID:
		return j.changed("another one has its name by now")
	}
	projected, desired := projection.Project(j.change.After.Object, live.Object), j.change.After
	if live.Object != nil && !state.Equal(before.Object, projected) && (live.Ours || desired.Adopt || !state.Equal(before.Object, projection.WithOwnTags(desired.Object, projected))) {
		return j.changed("somebody else has changed it")
	}
	return nil
}

// How long, and how often at most, a write is tried again that AWS refuses
// because it has not caught up with an earlier one.
const (
	firstRetry = 500 * time.Millisecond
	lastRetry  = 5 * time.Second
	tryFor     = 20 * time.Second
)

// send writes, again and again while AWS has not caught up.
func (j *resourceApply) send(ctx context.Context, live resource.Live) error {
	began := j.cfg.Clock.Now()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		err := j.of.Write(ctx, j.to.Clients, *j.change.After, live)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, awserr.ErrNotPropagated):
		case awserr.Exists(err) && live.Object == nil:
			done, readErr := j.overtaken(ctx)
			if done || readErr != nil {
				return readErr
			}
			err = awserr.NotPropagated(err)
		case awserr.IsNotFound(err):
			return j.changed("it is gone by now")
		default:
			return j.failed(err)
		}
		if j.cfg.Clock.Since(began) >= tryFor || !sleep(ctx, j.cfg.Clock, wait) {
			return j.failed(err)
		}
		// A part of it may have been done.
		if live, err = j.again(ctx, live); err != nil {
			return err
		}
	}
}

// overtaken reads what has the name of a thing that was to be made: somebody
// was faster, or an earlier life of ours whose work AWS did not show a moment
// ago. It reports false while AWS does not show it yet.
func (j *resourceApply) overtaken(ctx context.Context) (bool, error) {
	now, err := j.read(ctx)
	switch {
	case err != nil:
		return false, err
	case projection.Satisfied(*j.change.After, now):
		return true, nil
	case now.Object != nil:
		return false, j.changed("it has appeared since")
	}
	return false, nil
}

// again reads the thing between two tries, and refuses one that others have put
// in its place.
func (j *resourceApply) again(ctx context.Context, before resource.Live) (resource.Live, error) {
	now, err := j.read(ctx)
	switch {
	case err != nil || now.Object == nil:
		return now, err
	case before.Object != nil && now.UID != before.UID:
		return now, j.changed("another one has its name by now")
	case !now.Ours && !j.change.After.Adopt:
		return now, j.changed("it has appeared since")
	}
	return now, nil
}

// record records what is in place now.
func (j *resourceApply) record(live resource.Live) {
	rec := j.current().record(*j.change.After, live.UID)
	rec.Desired = state.Hash(j.change.After.Object)
	j.store.Put(rec)
	j.status.corrected(j.change.Key)
}

// remove deletes the very thing that was observed, if it still may be deleted.
func (j *resourceApply) remove(ctx context.Context, live resource.Live) error {
	k, before := j.change.Key, j.change.Before.Live.UID
	rec, _ := j.store.Get(k)
	switch {
	case before == "":
		return errors.New("it was never observed")
	case live.Object == nil:
		j.dropRecord()
		return nil
	case live.UID != before:
		return j.changed("another one has its name by now")
	case !deletable(rec, live):
		return j.changed("it is not marked as ours to delete any more")
	}
	if err := j.checkLosses(ctx); err != nil {
		return err
	}
	if err := j.of.Remove(ctx, j.to.Clients, k, live); err != nil && !awserr.IsNotFound(err) {
		return j.failed(err)
	}
	// Some things stay for a while: they are recorded until they are observed to
	// be gone.
	if observed, err := j.read(ctx); err == nil && (observed.Object == nil || observed.UID != before) {
		j.dropRecord()
	}
	j.status.corrected(k)
	return nil
}

// checkLosses counts again right before the first request who lives on the thing, and
// refuses where it is more than was planned with, or while nodes on it are
// drained since their NodePool is deleted.
func (j *resourceApply) checkLosses(ctx context.Context) error {
	if !nodesDependOn(j.change.Key.Kind) {
		return nil
	}
	now := j.countUsers(ctx, j.current())
	if err := targets.MayDelete(j.change, now.removal(j.change.Key.Kind)); err != nil {
		return err
	}
	return karpenter.AwaitNodes(ctx, j.api)
}

func (j *resourceApply) dropRecord() {
	j.store.Remove(j.change.Key)
	j.status.corrected(j.change.Key)
}

// Begin implements targets.InventoryWriter: the names of everything that is about to
// be written are stored before the first write.
func (w *Target) Begin(ctx context.Context, changes []plan.Change) error {
	desired := w.current()
	for _, c := range changes {
		if c.Key.Target == Name && c.Admitted() {
			w.intend(desired, c)
		}
	}
	if err := w.store.Save(ctx); err != nil {
		return err
	}
	w.busy(true)
	return nil
}

func (w *Target) busy(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.previousRead.applying = is
}

// intend notes what is about to be done to a thing.
func (w *Target) intend(desired desiredState, c plan.Change) {
	rec, known := w.store.Get(c.Key)
	if c.Action == plan.Delete {
		if known {
			rec.Allowed, rec.Fingerprint.UID = c.Approval(), c.Before.Live.UID
			w.store.Put(rec)
		}
		return
	}
	next := desired.record(*c.After, "")
	if known && rec.Scope == next.Scope {
		next.Desired, next.Fingerprint.UID = rec.Desired, rec.Fingerprint.UID
	}
	w.store.Put(next)
}

// RevokeApprovals implements targets.ApprovalRevoker.
func (w *Target) RevokeApprovals(ctx context.Context, revoked ...state.Key) error {
	w.store.RevokeApprovals(func(k state.Key) bool { return slices.Contains(revoked, k) })
	return w.store.Save(ctx)
}

// Deleting implements targets.ApprovalRevoker.
func (w *Target) Deleting(ctx context.Context) ([]state.Key, error) { return w.store.Deleting(ctx) }

// End implements targets.InventoryWriter: it stores what became of the changes, and
// sends nothing when nothing did.
func (w *Target) End(ctx context.Context) error {
	w.busy(false)
	w.reportStatus()
	return w.store.Save(ctx)
}

// mayLose counts again right before the first request what goes with an update, and
// refuses where it is more than was planned with. What only puts back what a hand has
// changed takes nothing that the repository gave.
func (j *resourceApply) mayLose(ctx context.Context, live resource.Live) error {
	if j.change.Action != plan.Update || j.change.Drift || !loses(*j.change.After, live.Object) {
		return nil
	}
	return targets.MayDelete(j.change, lost(*j.change.After, live.Object, func() users { return j.countUsers(ctx, j.current()) }))
}
