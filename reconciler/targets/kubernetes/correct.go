package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/owner"
	"github.com/poolwright/poolwright/reconciler/targets"
	"github.com/poolwright/poolwright/reconciler/targets/internal/api"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/losses"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// Correct implements targets.Target: one server-side apply for a creation or
// update, one deletion with preconditions. What the API server returns becomes the
// record by which drift is found later.
func (w *Target) Correct(ctx context.Context, change plan.Change) error {
	k := change.Key
	doing := fmt.Sprintf("%s %s", gerund(change.Action), k)
	side := change.After
	if side == nil {
		side = change.Before
	}
	version := side.Version
	ref, kind, served, err := w.ref(ctx, k, version)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if !served {
		return state.Failf(state.Retry, "UnknownKind", "%s: the cluster does not serve this kind in version %s", doing, version)
	}
	w.drift.Begin(k)
	defer w.drift.End(k)
	j := job{Target: w, ref: ref, kind: kind, change: change, doing: doing, secret: kinds.IsSecret(k)}
	switch change.Action {
	case plan.Create:
		return j.create(ctx)
	case plan.Update:
		return j.update(ctx)
	case plan.Delete:
		return j.remove(ctx)
	}
	return fmt.Errorf("%s: unknown action %q", doing, change.Action)
}

func gerund(a plan.Action) string {
	return map[plan.Action]string{plan.Create: "creating", plan.Update: "updating", plan.Delete: "deleting"}[a]
}

// job is one Correct at work.
type job struct {
	*Target
	ref    api.Ref
	kind   kinds.Kind
	change plan.Change
	doing  string
	secret bool
}

// body is what is sent: the wanted object, unmasked.
func (j *job) body() (map[string]any, error) {
	if !j.secret {
		return j.change.After.Object, nil
	}
	plain, read := j.desired.Unmasked(*j.change.After)
	if !read || j.cfg.Review {
		return nil, state.Failf(state.Retry, "Changed", "%s: its content was not read by this process", j.doing)
	}
	return plain, nil
}

// noVersion is a resourceVersion that no object has: etcd's first write makes a later
// one. An apply that names it makes an object, and is refused as a conflict where there
// is one: the API server checks the version of what exists, and creates what does not.
const noVersion = "1"

// create makes the object and never changes one that has appeared since it was found
// absent, also where no field is in conflict: that is another's, and adopting it is for
// a plan to show.
func (j *job) create(ctx context.Context) error {
	if err := j.drift.Allow(j.change, nil); err != nil {
		return fmt.Errorf("%s: %w", j.doing, err)
	}
	body, err := j.body()
	if err != nil {
		return err
	}
	body = manifest.WithMetadata(body, "resourceVersion", noVersion)
	var live *unstructured.Unstructured
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		live, err = j.api.Apply(ctx, j.ref, body, api.ApplyOptions{})
		if err == nil || !j.kind.Promised || !api.NotServed(err) {
			break
		}
		// Its definition was accepted a moment ago; the API server takes up
		// to a few seconds to serve it.
		if !pause(ctx, wait) {
			break
		}
	}
	if refused := api.Refused(j.doing, err, j.secret); refused != nil {
		if apierrors.IsConflict(err) {
			return fmt.Errorf("%w: it has appeared since (%w)", targets.ErrChanged, refused)
		}
		return refused
	}
	j.accepted(live)
	j.drift.Corrected(j.change)
	return nil
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (j *job) update(ctx context.Context) error {
	before := j.change.Before
	if err := j.updatable(); err != nil {
		return err
	}
	owners, scaled := j.diff.Owners(j.change.Key), j.desired.Scaled(j.change.Key)
	if err := j.drift.Allow(j.change, owners.Rivals); err != nil {
		return fmt.Errorf("%s: %w", j.doing, err)
	}
	body, err := j.body()
	if err != nil {
		return err
	}
	if err := j.mayLose(ctx); err != nil {
		return err
	}
	if err := j.prepare(ctx, owners, scaled); err != nil {
		return err
	}
	if before.Owner == (owner.Reference{}) {
		if err := j.removeEmptied(ctx, body); err != nil {
			return err
		}
	}
	live, err := j.api.Apply(ctx, j.ref, j.preconditions(body), api.ApplyOptions{Force: before.Owner == (owner.Reference{})})
	if err := j.updateError(err); err != nil {
		return err
	}
	if kinds.Whole(j.change.Key.Group, j.change.Key.Kind) && before.Owner == (owner.Reference{}) {
		if live, err = j.trim(ctx, live, scaled); err != nil {
			return err
		}
	}
	j.accepted(live)
	j.drift.Corrected(j.change)
	return nil
}

// mayLose counts again right before the request what goes with an update, and refuses
// where it is more than was planned with. What only puts back what a hand has changed
// takes nothing that the repository gave.
func (j *job) mayLose(ctx context.Context) error {
	u := losses.Update{Key: j.change.Key, Before: j.change.Before.Object, After: j.change.After.Object}
	if !u.Loses() {
		return nil
	}
	live, err := j.api.Get(ctx, j.ref)
	if err != nil {
		return api.Refused(j.doing, err, j.secret)
	}
	u.Live = live
	now := j.losses.Update(ctx, u)
	if !j.change.Drift {
		if err := targets.MayDelete(j.doing, j.change, now); err != nil {
			return err
		}
	}
	return j.awaitEngine(ctx, now)
}

// updatable returns why the object is not to be updated now, or nil.
func (j *job) updatable() error {
	before := j.change.Before
	metadata, _ := before.Object["metadata"].(map[string]any)
	if at, leaving := metadata["deletionTimestamp"]; leaving {
		err := fmt.Errorf("%s: it is being deleted since %v and will be made anew once it is gone", j.doing, at)
		if j.hasGuards() {
			err = fmt.Errorf("%w; where it waits for a confirmation, its condition Ready has the command, and spec.deletionPolicy: Orphan on the live Sync lets it go and leaves what is not deleted yet", err)
		}
		return state.WaitFor(30*time.Second, "Terminating", err)
	}
	if before.Owner.Kind == owner.Sync {
		return state.Fail(state.Retry, "Conflict", fmt.Errorf("%s: %w: %s", j.doing, targets.ErrConflict, before.Owner))
	}
	return nil
}

// hasGuards reports whether the object is one whose fields are guards: what a person made
// stricter since the plan must not be overwritten.
func (j *job) hasGuards() bool {
	return j.change.Key.Group == v1alpha1.GroupVersion.Group && j.change.Key.Kind == "Sync"
}

// preconditions adds what must still hold of the live object for an update.
func (j *job) preconditions(body map[string]any) map[string]any {
	live := j.change.Before.Live
	if live.UID != "" {
		body = manifest.WithMetadata(body, "uid", live.UID)
	}
	if j.hasGuards() {
		body = manifest.WithMetadata(body, "resourceVersion", live.ResourceVersion)
	}
	return body
}

// updateError is the error of an update for which the API server returned err, or nil.
func (j *job) updateError(err error) error {
	other := j.change.Before.Owner
	if j.hasGuards() && other == (owner.Reference{}) && apierrors.IsConflict(err) {
		return state.Fail(state.Retry, "Changed", fmt.Errorf("%s: %w", j.doing, targets.ErrChanged))
	}
	refused := api.Refused(j.doing, err, j.secret)
	if refused != nil && apierrors.IsConflict(err) && other != (owner.Reference{}) {
		return fmt.Errorf("%w (managed by %s)", refused, other)
	}
	return refused
}

// accepted records what the API server returned.
func (j *job) accepted(live *unstructured.Unstructured) {
	j.store.Put(inventory.Record{
		Key: j.change.Key, Version: j.change.After.Version, Desired: state.Hash(j.change.After.Object),
		Fingerprint: fields.FingerprintOf(live.Object, j.diff.Options(j.change.Key)),
	})
	j.ready.Note(j.change.Key, live)
}

// Begin implements targets.Recorder: the names of everything that is about to
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
		rec.Allowed = c.Allowance()
	case !known:
		rec = inventory.Record{Key: c.Key, Version: c.After.Version}
	default:
		rec.Allowed = nil
	}
	w.store.Put(rec)
}

// Withdraw implements targets.Withdrawer.
func (w *Target) Withdraw(ctx context.Context, givenUp ...state.Key) error {
	w.store.Withdraw(func(k state.Key) bool { return slices.Contains(givenUp, k) })
	return w.store.Save(ctx)
}

// Deleting implements targets.Withdrawer.
func (w *Target) Deleting(ctx context.Context) ([]state.Key, error) { return w.store.Deleting(ctx) }

// End implements targets.Recorder: it stores what became of the changes, and
// sends nothing when nothing did.
func (w *Target) End(ctx context.Context) error { return w.store.Save(ctx) }
