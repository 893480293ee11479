package kubernetes

import (
	"context"
	"encoding/json"
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
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/manifest"
)

// Apply implements targets.Target: one server-side apply for a creation or
// update, one deletion with preconditions. What the API server returns becomes the
// record by which drift is found later.
func (w *Target) Apply(ctx context.Context, change plan.Change) error {
	k := change.Key
	side := change.After
	if side == nil {
		side = change.Before
	}
	version := side.Version
	ref, kind, served, err := w.ref(ctx, k, version)
	if err != nil {
		return err
	}
	if !served {
		return state.Failf(state.Retry, "UnknownKind", "the cluster does not serve this kind in version %s", version)
	}
	w.drift.Begin(k)
	defer w.drift.End(k)
	j := objectApply{Target: w, Change: change, ref: ref, kind: kind, secret: kinds.IsSecret(k)}
	switch change.Action {
	case plan.Create:
		return j.create(ctx)
	case plan.Update:
		return j.update(ctx)
	case plan.Delete:
		return j.remove(ctx)
	}
	return fmt.Errorf("unknown action %q", change.Action)
}

// objectApply is one Apply at work.
type objectApply struct {
	*Target
	plan.Change // Its Key and Drift are selected by Change: a Target has a Key and a drift, too.
	ref         api.Ref
	kind        kinds.Kind
	secret      bool
}

// body is what is sent: the desired object, unmasked.
func (j *objectApply) body() (map[string]any, error) {
	if !j.secret {
		return j.After.Object, nil
	}
	plain, read := j.desired.Unmasked(*j.After)
	if !read || j.cfg.Preview {
		return nil, state.Failf(state.Retry, "ContentNotRead", "its content was not read by this process")
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
func (j *objectApply) create(ctx context.Context) error {
	if err := j.drift.Allow(j.Change, nil); err != nil {
		return err
	}
	body, err := j.body()
	if err != nil {
		return err
	}
	body = manifest.WithMetadata(body, "resourceVersion", noVersion)
	var live *unstructured.Unstructured
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		live, err = j.api.Apply(ctx, j.ref, body, api.ApplyOptions{})
		if err == nil || !j.kind.DeclaredOnly || !api.NotServed(err) {
			break
		}
		// Its definition was accepted a moment ago; the API server takes up
		// to a few seconds to serve it.
		if !sleep(ctx, wait) {
			break
		}
	}
	if refused := api.ResponseError(err, j.secret); refused != nil {
		if apierrors.IsConflict(err) {
			return fmt.Errorf("%w: it has appeared since (%w)", targets.ErrChanged, refused)
		}
		return refused
	}
	if live, err = j.release(ctx, live); err != nil {
		return err
	}
	j.accepted(live)
	j.drift.Corrected(j.Change)
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (j *objectApply) update(ctx context.Context) error {
	before := j.Before
	if err := j.updatable(); err != nil {
		return err
	}
	owners := j.diff.Owners(j.Change.Key)
	if err := j.drift.Allow(j.Change, owners.ConflictingManagers); err != nil {
		return err
	}
	body, err := j.body()
	if err != nil {
		return err
	}
	if err := j.checkUpdate(ctx); err != nil {
		return err
	}
	found, err := j.prepare(ctx, owners)
	if err != nil {
		return err
	}
	version := before.Live.ResourceVersion
	if found != nil {
		version = found.GetResourceVersion() // moving ownership is a write of ours
	}
	omitted := j.omit(body, found)
	if before.Owner == (owner.Reference{}) {
		emptied, err := j.removeEmptied(ctx, omitted.Object, version)
		if err != nil {
			return err
		}
		if emptied != nil {
			found, version = emptied, emptied.GetResourceVersion() // Of version, and so a write of ours, too.
			omitted = j.omit(body, found)
		}
	}
	live, err := j.api.Apply(ctx, j.ref, j.preconditions(omitted.Object, omitted.Kept, found, version), api.ApplyOptions{Force: before.Owner == (owner.Reference{})})
	if err := j.updateError(err, omitted.Kept); err != nil {
		return err
	}
	// What was sent although it is ignored: of an element that was made, or of a map that others claim as a
	// whole and whose fields have owners of their own all the same.
	if live, err = j.release(ctx, live); err != nil {
		return err
	}
	if kinds.OwnsWholeSpec(j.Change.Key.Group, j.Change.Key.Kind) && before.Owner == (owner.Reference{}) {
		if live, err = j.trim(ctx, live); err != nil {
			return err
		}
	}
	j.accepted(live)
	j.drift.Corrected(j.Change)
	return nil
}

// updatable returns why the object is not to be updated now, or nil.
func (j *objectApply) updatable() error {
	before := j.Before
	metadata, _ := before.Object["metadata"].(map[string]any)
	if at, leaving := metadata["deletionTimestamp"]; leaving {
		err := fmt.Errorf("it has been terminating since %v; it is created again afterwards", at)
		if j.hasGuards() {
			err = fmt.Errorf("%w; where it waits for a confirmation, its condition Ready has the command, and spec.deletionPolicy: Orphan on the live Sync lets it go and leaves what is not deleted yet", err)
		}
		return state.WaitFor(30*time.Second, "Terminating", err)
	}
	if before.Owner.Kind == owner.Sync {
		return state.Fail(state.Retry, "AlreadyOwned", fmt.Errorf("%w: %s", targets.ErrConflict, before.Owner))
	}
	return nil
}

// hasGuards reports whether the object is one whose fields are guards: what a person made
// stricter since the plan must not be overwritten.
func (j *objectApply) hasGuards() bool {
	return j.Change.Key.Group == v1alpha1.GroupVersion.Group && j.Change.Key.Kind == "Sync"
}

// preconditions adds what must still hold of the live object for an update: the version that was compared where it has
// guards, and that of found where kept values of it are written back.
func (j *objectApply) preconditions(body map[string]any, kept bool, found *unstructured.Unstructured, version string) map[string]any {
	live := j.Before.Live
	if live.UID != "" {
		body = manifest.WithMetadata(body, "uid", live.UID)
	}
	switch {
	case j.hasGuards():
		body = manifest.WithMetadata(body, "resourceVersion", version)
	case kept:
		body = manifest.WithMetadata(body, "resourceVersion", found.GetResourceVersion())
	}
	return body
}

// updateError is the error of an update for which the API server returned err, or nil. Where versioned,
// the update was for one version of the object.
func (j *objectApply) updateError(err error, versioned bool) error {
	other := j.Before.Owner
	if (j.hasGuards() || versioned) && other == (owner.Reference{}) && apierrors.IsConflict(err) {
		return state.Fail(state.Retry, "Conflict", targets.ErrChanged)
	}
	refused := api.ResponseError(err, j.secret)
	if refused != nil && apierrors.IsConflict(err) && other != (owner.Reference{}) {
		return fmt.Errorf("%w (managed by %s)", refused, other)
	}
	return refused
}

// trim removes what somebody added by hand to a spec that is wholly ours:
// server-side apply cannot remove what it does not own. Karpenter's hash
// controller moves the object right after each change, so it tries again.
func (j *objectApply) trim(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	canonical, err := j.diff.Canonical(ctx, *j.After, live)
	if err != nil {
		// Without its canonical form an addition cannot be distinguished from a default; what
		// we declared is in place.
		return live, nil
	}
	base, _ := canonical.Object["spec"].(map[string]any)
	const doing = "removing what was added by hand"
	for attempt := 0; ; attempt++ {
		pointers := fields.Extra(live.Object, base, j.desired.Ignored(j.Change.Key))
		if len(pointers) == 0 {
			return live, nil
		}
		patch, err := removal(live.GetResourceVersion(), pointers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		trimmed, err := j.api.Patch(ctx, j.ref, patch)
		if err == nil {
			return trimmed, nil
		}
		if !apierrors.IsConflict(err) || attempt == 5 {
			return nil, api.Refused(doing, err, j.secret)
		}
		if live, err = j.api.Get(ctx, j.ref); err != nil {
			return nil, api.Refused(doing, err, j.secret)
		}
	}
}

// removal is a JSON patch that removes the fields at the pointers from that
// version of the object alone. Setting the version makes a mismatch a conflict;
// testing it would make it an invalid request.
func removal(version string, pointers []string) ([]byte, error) {
	slices.Sort(pointers)
	ops := []map[string]any{{"op": "replace", "path": "/metadata/resourceVersion", "value": version}}
	for _, p := range pointers {
		ops = append(ops, map[string]any{"op": "remove", "path": p})
	}
	return json.Marshal(ops)
}

// accepted records what the API server returned.
func (j *objectApply) accepted(live *unstructured.Unstructured) {
	j.store.Put(inventory.Record{
		Key: j.Change.Key, Version: j.After.Version, Desired: j.After.Hash(),
		Fingerprint: fields.FingerprintOf(live.Object, j.diff.Options(j.Change.Key)),
	})
	j.ready.Record(j.Change.Key, live)
	j.health.Applied(j.Change.Key, live)
}
