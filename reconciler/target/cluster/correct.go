package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/target"
	"github.com/poolwright/poolwright/reconciler/target/cluster/internal/api"
	"github.com/poolwright/poolwright/reconciler/target/cluster/internal/fields"
	"github.com/poolwright/poolwright/reconciler/target/cluster/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/target/cluster/internal/kinds"
)

// clientSideManager is the name under which `kubectl apply` owns fields.
const clientSideManager = "kubectl-client-side-apply"

// Correct implements target.Target: one server-side apply for a creation or
// update, one deletion with preconditions. What the API server answers becomes
// the record by which drift is known later.
func (w *World) Correct(ctx context.Context, change plan.Change) error {
	k := change.Key
	doing := fmt.Sprintf("%s %s", gerund(change.Action), k)
	version := ""
	if change.After != nil {
		version = change.After.Version
	} else {
		version = change.Before.Version
	}
	ref, kind, served, err := w.ref(ctx, k, version)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if !served {
		return state.Failf(state.Retry, "UnknownKind", "%s: the cluster does not serve this kind in version %s", doing, version)
	}
	w.watch.begin(k)
	defer w.watch.end(k)
	j := job{World: w, ref: ref, kind: kind, change: change, doing: doing, secret: isSecret(k)}
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
	*World
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
	m := j.memo(j.change.Key)
	if m.plain == nil || m.hash != state.Hash(j.change.After.Object) {
		return nil, state.Failf(state.Retry, "Changed", "%s: its content was not read by this process", j.doing)
	}
	return m.plain, nil
}

// create applies without force, so that an object that has appeared since it
// was found absent is not overwritten unseen.
func (j *job) create(ctx context.Context) error {
	body, err := j.body()
	if err != nil {
		return err
	}
	var live *unstructured.Unstructured
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		live, err = j.api.Apply(ctx, j.ref, body, api.ApplyOptions{})
		if err == nil || !j.kind.Promised || !notServed(err) {
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
			return fmt.Errorf("%w: it has appeared since (%w)", target.ErrChanged, refused)
		}
		return refused
	}
	j.accepted(live)
	return nil
}

// notServed tells an answer about the path from one about the object.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource")
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
	metadata, _ := before.Object["metadata"].(map[string]any)
	if at, leaving := metadata["deletionTimestamp"]; leaving {
		return state.WaitFor(30*time.Second, "Terminating",
			fmt.Errorf("%s: it is being deleted since %v and will be made anew once it is gone", j.doing, at))
	}
	if strings.HasPrefix(before.Owner, "Sync ") {
		return state.Fail(state.Retry, "Conflict", fmt.Errorf("%s: %w: %s", j.doing, target.ErrConflict, before.Owner))
	}
	m := j.memo(j.change.Key)
	if err := j.flaps.allow(j.change, m.rivals); err != nil {
		return fmt.Errorf("%s: %w", j.doing, err)
	}
	body, err := j.body()
	if err != nil {
		return err
	}
	if err := j.prepare(ctx, m); err != nil {
		return err
	}
	if before.Live.UID != "" {
		body = withMetadata(body, "uid", before.Live.UID)
	}
	live, err := j.api.Apply(ctx, j.ref, body, api.ApplyOptions{Force: before.Owner == ""})
	if refused := api.Refused(j.doing, err, j.secret); refused != nil {
		if apierrors.IsConflict(err) && before.Owner != "" {
			return fmt.Errorf("%w (managed by %s)", refused, before.Owner)
		}
		return refused
	}
	if kinds.Whole(j.change.Key.Group, j.change.Key.Kind) && before.Owner == "" {
		if live, err = j.trim(ctx, live, m.scaled); err != nil {
			return err
		}
	}
	j.accepted(live)
	j.flaps.corrected(j.change)
	return nil
}

// prepare moves ownership before the apply: kubectl's client-side claims
// become ours, so that what Git does not declare goes; and replicas that an
// autoscaler is about to own are handed over, since giving them up would set
// them to one.
func (j *job) prepare(ctx context.Context, m memo) error {
	if !m.clientSide && !m.scaled {
		return nil
	}
	live, err := j.api.Get(ctx, j.ref)
	if err != nil {
		return api.Refused(j.doing, err, j.secret)
	}
	if string(live.GetUID()) != j.change.Before.Live.UID {
		return state.Fail(state.Retry, "Changed", fmt.Errorf("%s: %w", j.doing, target.ErrChanged))
	}
	if m.scaled {
		if err := j.handOver(ctx, live); err != nil {
			return err
		}
	}
	if !m.clientSide || j.change.Before.Owner != "" {
		return nil
	}
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(clientSideManager), v1alpha1.FieldManager)
	if err != nil || patch == nil {
		return err
	}
	_, err = j.api.Patch(ctx, j.ref, patch)
	return api.Refused(j.doing+", taking over from kubectl", err, j.secret)
}

// scaleManager holds spec.replicas until the autoscaler writes it.
const scaleManager = "poolwright-autoscaled"

func (j *job) handOver(ctx context.Context, live *unstructured.Unstructured) error {
	replicas, found, err := unstructured.NestedInt64(live.Object, "spec", "replicas")
	ours := fields.Claims(fields.Applied(live.Object, v1alpha1.FieldManager), "spec", "replicas")
	others := fields.Owners(live.Object, v1alpha1.FieldManager, "spec", "replicas")
	others = slices.DeleteFunc(others, func(m string) bool { return m == clientSideManager })
	if !found || err != nil || len(others) > 0 || !ours && !j.memo(j.change.Key).clientSide {
		return nil
	}
	_, err = j.api.Apply(ctx, j.ref, map[string]any{
		"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(),
		"metadata": map[string]any{"name": live.GetName(), "namespace": live.GetNamespace(), "uid": string(live.GetUID())},
		"spec":     map[string]any{"replicas": replicas},
	}, api.ApplyOptions{Manager: scaleManager, Force: true})
	return api.Refused(j.doing+", handing replicas to the autoscaler", err, false)
}

// trim removes what somebody added by hand to a spec that is wholly ours:
// server-side apply cannot remove what it does not own.
func (j *job) trim(ctx context.Context, live *unstructured.Unstructured, scaled bool) (*unstructured.Unstructured, error) {
	canonical, err := j.dryRun(ctx, *j.change.After, "poolwright-dry-run-"+state.Hash([]any{j.change.Key, live.GetUID()})[:12])
	if err != nil {
		// Without its canonical form an addition cannot be told from a
		// default; what we declared is in place.
		return live, nil
	}
	extra, _ := unscaled(live.Object["spec"], scaled).(map[string]any)
	base, _ := unscaled(canonical.Object["spec"], scaled).(map[string]any)
	pointers := fields.Missing(extra, base, "/spec")
	if len(pointers) == 0 {
		return live, nil
	}
	slices.Sort(pointers)
	ops := []map[string]any{{"op": "test", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()}}
	for _, p := range pointers {
		ops = append(ops, map[string]any{"op": "remove", "path": p})
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.doing, err)
	}
	trimmed, err := j.api.Patch(ctx, j.ref, patch)
	if err != nil {
		return nil, api.Refused(j.doing+", removing what was added by hand", err, j.secret)
	}
	return trimmed, nil
}

// accepted records what the API server answered.
func (j *job) accepted(live *unstructured.Unstructured) {
	j.store.Put(inventory.Record{
		Key: j.change.Key, Version: j.change.After.Version, Desired: state.Hash(j.change.After.Object),
		Print: fields.Take(live.Object, j.options(j.change.Key)),
	})
	j.noteReadiness(j.change.Key, live)
}

// remove deletes the observed incarnation. Where its version has moved (a
// status update, a heartbeat), it looks again whether it is still ours.
func (j *job) remove(ctx context.Context) error {
	id := j.change.Before.Live
	if id.UID == "" {
		return fmt.Errorf("%s: it was never observed", j.doing)
	}
	version := id.ResourceVersion
	for attempt := 0; ; attempt++ {
		err := j.api.Delete(ctx, j.ref, types.UID(id.UID), version)
		switch {
		case err == nil:
			if !lingers(j.change.Before) {
				j.store.Forget(j.change.Key)
			}
			return nil
		case apierrors.IsNotFound(err):
			j.store.Forget(j.change.Key)
			return nil
		case !apierrors.IsConflict(err) || attempt == 5:
			return api.Refused(j.doing, err, j.secret)
		}
		live, err := j.api.Get(ctx, j.ref)
		switch {
		case apierrors.IsNotFound(err):
			j.store.Forget(j.change.Key)
			return nil
		case err != nil:
			return api.Refused(j.doing, err, j.secret)
		case !j.still(live):
			return state.Fail(state.Retry, "Changed", fmt.Errorf("%s: %w", j.doing, target.ErrChanged))
		}
		version = live.GetResourceVersion()
	}
}

// still reports whether a live object that has moved since its deletion was
// planned is still ours to delete. Controllers move objects all the time; what
// counts is whether somebody took it from us or asked to keep it.
func (j *job) still(live *unstructured.Unstructured) bool {
	label := live.GetLabels()[v1alpha1.SyncLabel]
	return string(live.GetUID()) == j.change.Before.Live.UID &&
		(label == j.label || label == "") &&
		live.GetAnnotations()[v1alpha1.PruneAnnotation] != "disabled" &&
		ownerOf(live, nil) == j.change.Before.Owner
}

// lingers reports whether an object stays a while after its deletion was
// accepted; it is recorded until it is seen to be gone.
func lingers(item *state.Item) bool {
	metadata, _ := item.Object["metadata"].(map[string]any)
	finalizers, _ := metadata["finalizers"].([]any)
	return len(finalizers) > 0 || item.Key.Kind == "Pod" || item.Key.Kind == "Namespace"
}

// Begin implements target.Recorder: the names of everything that is about to
// be written are stored before the first write.
func (w *World) Begin(ctx context.Context, changes []plan.Change) error {
	for _, c := range changes {
		if c.Key.Target != Name {
			continue
		}
		rec, known := w.store.Get(c.Key)
		switch {
		case c.Action == plan.Delete:
			if !known {
				rec = inventory.Record{Key: c.Key, Version: c.Before.Version}
			}
			rec.Print.UID, rec.Leaving = c.Before.Live.UID, true
		case known && !rec.Leaving:
			continue
		case known:
			// It was to go, and is wanted again.
			rec.Leaving = false
		default:
			rec = inventory.Record{Key: c.Key, Version: c.After.Version}
		}
		w.store.Put(rec)
	}
	w.mask.keep(ctx)
	w.watch.refresh()
	return w.store.Save(ctx)
}

// End implements target.Recorder: it stores what became of the changes, and
// sends nothing when nothing did.
func (w *World) End(ctx context.Context) error { return w.store.Save(ctx) }
