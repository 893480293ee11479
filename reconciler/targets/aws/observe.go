package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/finding"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/awserr"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/projection"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/resource"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
)

// requests bounds the kinds that are read at a time. Each reads its own things
// one after the other, so that AWS's limits are not reached by our own requests.
const requests = 6

// Observe implements target.Target. It reads each kind once, for the desired
// things and for those that are recorded and not desired any more. What AWS does not
// return is Unknown and keeps nothing else from being compared; an error means that the
// inventory could not be read, or that ctx ended.
func (w *Target) Observe(ctx context.Context, desired state.Set) (state.Set, error) {
	if _, err := w.store.Load(ctx); err != nil {
		return state.Set{}, err
	}
	w.store.RevokeApprovals(func(k state.Key) bool { _, again := desired.Get(k); return again })
	now := w.observationScope()
	observable := w.observable(now.desiredState, desired)
	o := w.observation(now.desiredState, observable)
	o.keep, o.unread = now.keep, unreadItems(desired, observable)
	for _, rec := range w.store.Records() {
		if _, keep := desired.Get(rec.Key); !keep && !now.blind {
			o.undeclared = append(o.undeclared, rec)
		}
	}
	found, err := o.run(ctx)
	if err != nil {
		return state.Set{}, err
	}
	if now.problem != "" {
		found = state.NewSet(append(found.Items(), state.Item{Key: clusterKey(now.object), Observation: state.Observation{
			Unknown: "not compared: the declaration has problems, the first: " + now.problem, UnknownCode: codeDeclarationInvalid,
		}})...)
	}
	p := plan.Compute(desired, found)
	o.desired.items = desired
	w.mu.Lock()
	w.lastValid, w.previousRead.absent, w.previousRead.states = o.desired, o.absent, statesOf(p)
	w.mu.Unlock()
	if now.missing {
		p.Unknown = append(p.Unknown, w.status.missing()...)
	}
	p.Unknown = append(p.Unknown, unreadQuotas(found)...)
	w.status.observed(o.desired, p, o.live, true)
	w.reportStatus()
	return found, nil
}

// observationScope is what one observation goes by.
type observationScope struct {
	desiredState
	// keep is true when nothing that is recorded may be dropped: what is
	// declared may be other than it seems.
	keep bool
	// missing is true when no Cluster is declared.
	missing bool
	// blind is true when what is declared could not be read.
	blind bool
}

// observationScope finds out what an observation goes by. A Cluster that is not among what
// is declared may be in a file that cannot be read: the first observation
// without it drops no record.
func (w *Target) observationScope() observationScope {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := observationScope{desiredState: w.desired}
	if now.Region == "" {
		now.desiredState = w.lastValid
	}
	now.Pools, now.problem = w.desired.Pools, ""
	if !w.previousRead.desiredCalled {
		return now // Everything is given up.
	}
	w.previousRead.desiredCalled = false
	switch {
	case w.desired.problem != "":
		now.desiredState, now.keep, now.blind = w.desired, true, w.desired.Region == ""
	case w.desired.object == "":
		w.previousRead.without++
		now.missing, now.keep = true, w.previousRead.without == 1
		if !now.keep {
			w.previousRead.good = desiredState{}
		}
	default:
		w.previousRead.without = 0
	}
	return now
}

// ObserveOnly reports on the desired things alone: what is not in desired is left
// out, not taken for undesired.
func (w *Target) ObserveOnly(ctx context.Context, desired state.Set) (state.Set, error) {
	return w.observation(w.current(), desired).run(ctx)
}

// observation is one read of AWS.
type observation struct {
	*Target
	desired desiredState
	items   state.Set
	// unread are the desired things that must not be read from AWS.
	unread []state.Item
	// undeclared are the records of what is not desired any more.
	undeclared []inventory.Record
	// users is who lives on what is declared; nil until it is needed.
	users *users

	mu sync.Mutex
	// live holds what was observed of each key that exists or is unknown.
	live map[state.Key]resource.Live
	// olderCluster is why nothing is written where an older Cluster decides; else empty.
	olderCluster string
	// keep is true when no record is dropped; absent are the recorded things
	// that were not found.
	keep   bool
	absent map[state.Key]bool
}

func (w *Target) observation(m desiredState, desired state.Set) *observation {
	return &observation{Target: w, desired: m, items: desired, live: map[state.Key]resource.Live{}, absent: map[state.Key]bool{}}
}

// readRequest is one read of one kind in one scope.
type readRequest struct {
	of   kindOf
	at   resource.Scope
	keys []state.Key
}

func (o *observation) run(ctx context.Context) (state.Set, error) {
	if !o.readAll(ctx) {
		return state.Set{}, fmt.Errorf("observing AWS: %w", ctx.Err())
	}
	if err := o.readLiveClusters(ctx); err != nil {
		return state.Set{}, err
	}
	items := slices.Clone(o.unread)
	for item := range o.items.All() {
		if found, ok := o.compare(item); ok {
			found.DeletionImpact = o.lost(ctx, item, found)
			items = append(items, found)
		}
	}
	for _, rec := range o.undeclared {
		if found, ok := o.release(ctx, rec); ok {
			items = append(items, found)
		}
	}
	return state.NewSet(o.unreadQuotas(items)...), nil
}

// readAll reads all that is desired or left from AWS. It returns false where ctx has
// ended before the responses came.
func (o *observation) readAll(ctx context.Context) bool {
	if o.items.Len() > 0 || len(o.undeclared) > 0 {
		patient, cancel := connection.WithDeadline(ctx)
		defer cancel()
		o.readEach(patient, o.reads())
	}
	return ctx.Err() == nil
}

// reads groups what is to be read by scope and kind.
func (o *observation) reads() []readRequest {
	var out []readRequest
	add := func(k state.Key, at resource.Scope) {
		of := kindOf{k.Group, k.Kind}
		n := slices.IndexFunc(out, func(q readRequest) bool { return q.of == of && q.at == at })
		if n < 0 {
			n = len(out)
			out = append(out, readRequest{of: of, at: at})
		}
		out[n].keys = append(out[n].keys, k)
	}
	for item := range o.items.All() {
		add(item.Key, o.desired.Scope)
	}
	for _, rec := range o.undeclared {
		at, err := resource.ParseScope(rec.Scope)
		if err != nil {
			o.live[rec.Key] = resource.Live{Err: err}
			continue
		}
		add(rec.Key, at)
	}
	return out
}

// readEach sends the requests. None is sent to an account before it is known to
// be the right one.
func (o *observation) readEach(ctx context.Context, all []readRequest) {
	byScope := map[resource.Scope][]readRequest{}
	var scopes []resource.Scope
	for _, q := range all {
		if byScope[q.at] == nil {
			scopes = append(scopes, q.at)
		}
		byScope[q.at] = append(byScope[q.at], q)
	}
	for _, p := range scopes {
		to, who, err := o.pool.Connect(ctx, p)
		var clients *resource.Clients
		if err == nil {
			clients = to.Cached()
		}
		parallel.Each(requests, byScope[p], func(q readRequest) {
			if err != nil {
				o.record(who, resource.AllUnknown(q.keys, err), q.keys)
				return
			}
			k, known := o.kinds[q.of]
			if !known {
				err := fmt.Errorf("this release supports no %s of %s: run the one that made it", q.of.kind, q.of.service)
				o.record(who, resource.AllUnknown(q.keys, err), q.keys)
				return
			}
			observed := k.Read(ctx, clients, q.keys)
			for _, s := range observed {
				if awserr.CredentialsFailed(s.Err) {
					to.DropIdentity()
				}
			}
			o.record(who, observed, q.keys)
		})
	}
}

// record takes over what was observed of the keys that were requested, with errors as
// text.
func (o *observation) record(who string, observed map[state.Key]resource.Live, keys []state.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range keys {
		s, ok := observed[k]
		if !ok {
			continue
		}
		if s.Err != nil {
			s = resource.Live{Err: awserr.Explain(who, s.Err)}
		}
		o.live[k] = s
	}
}

// compare compares a desired thing with what was observed of it.
func (o *observation) compare(item state.Item) (state.Item, bool) {
	rec, _ := o.store.Get(item.Key)
	if rec.Scope != o.desired.Text() {
		rec = inventory.Record{} // It is another cluster's thing.
	}
	live, ok := o.live[item.Key]
	found := state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Applied: rec.Desired}
	if live.Err != nil {
		found.UnknownCode = awserr.Reason(live.Err)
		found.Unknown = live.Err.Error()
		return found, true
	}
	found.Warnings, found.Notes, found.NotFound, found.Quota = live.Warnings, slices.SortedFunc(slices.Values(live.Notes), finding.Finding.Compare), live.NotFound, live.Quota
	if live.Superseded {
		found.Object = item.Object
		return found, true
	}
	if !ok || live.Object == nil {
		found.ReadOnly = cmp.Or(live.Missing, o.olderCluster) // What is never made here is missed, and that is all.
		return found, rec.Desired != "" || len(found.Warnings)+len(found.Notes) > 0 || found.ReadOnly != ""
	}
	found.Object = o.comparable(item, live, rec)
	found.Live = state.Preconditions{UID: live.UID}
	o.terms(item, live, &found)
	return found, true
}

// comparable is what of a live thing counts: of somebody else's not what only
// we would give it.
func (o *observation) comparable(item state.Item, live resource.Live, rec inventory.Record) map[string]any {
	object := projection.Project(item.Object, live.Object)
	if live.Ours || item.Adopt || (rec.Fingerprint.UID != "" && rec.Fingerprint.UID == live.UID) {
		return object
	}
	object = projection.WithOwnTags(item.Object, object)
	if k, ok := o.kinds[kindOf{item.Key.Group, item.Key.Kind}].(resource.GrantsExtra); ok {
		object = k.WithGrants(o.desired.Scope, item.Object, object)
	}
	return object
}

// terms decide whether what was found may be corrected, and record that a thing
// is as it should be.
func (o *observation) terms(item state.Item, live resource.Live, found *state.Item) {
	if item.ReadOnly != "" || o.olderCluster != "" {
		found.ReadOnly = o.olderCluster
		return
	}
	same, may := state.Equal(item.Object, found.Object), live.Ours || item.Adopt
	switch {
	case same && may:
		// Known again where the inventory was lost, or a life ended before it
		// could report what it had done.
		fresh := o.desired.record(item, live.UID)
		fresh.Desired = state.Hash(item.Object)
		o.store.Put(fresh)
		found.Applied = fresh.Desired
	case !same && live.ReadOnly != "":
		found.ReadOnly = live.ReadOnly
	case !may:
		found.ReadOnly = o.desired.foreign(item.Key)
	}
}

// foreign is why a thing that exists is read-only.
func (m desiredState) foreign(k state.Key) string {
	field := "the field of the Cluster that declares it"
	if m.fields != nil && m.fields()[k] != "" {
		field = m.fields()[k]
	}
	return "exists and was not made by Poolwright: set adopt: true in " + field + " to let Poolwright change it"
}

// release decides about a thing that is recorded and not desired any more. What is
// not to be deleted loses its record, and stays as it is.
func (o *observation) release(ctx context.Context, rec inventory.Record) (state.Item, bool) {
	live, ok := o.live[rec.Key]
	found := state.Item{
		Key: rec.Key, Version: rec.Version, Applied: rec.Desired, Wave: rec.Wave,
	}
	switch {
	case live.Err != nil:
		found.UnknownCode = awserr.Reason(live.Err)
		found.Unknown = live.Err.Error()
		if rec.Policy == string(v1alpha1.AWSDeletionPolicyDelete) && !rec.Reserved {
			found.UsedBy = usedBy(rec.Key.Kind)
		}
		return found, true
	case !ok || live.Object == nil:
		o.miss(rec.Key)
		return found, false
	case !deletable(rec, live):
		if !o.keep {
			o.cfg.Log.Info("leaving alone what is not declared any more", "resource", rec.Key.String())
			o.store.Remove(rec.Key)
		}
		return found, false
	}
	if nodesDependOn(rec.Key.Kind) {
		found.DeletionImpact = o.count(ctx).removal(rec.Key.Kind)
	}
	if rec.Fingerprint.UID == live.UID {
		found.Allowed = rec.Allowed
	}
	found.Object = live.Object
	found.Live = state.Preconditions{UID: live.UID}
	found.ReadOnly = o.olderCluster
	if rec.Reserved && !o.cfg.Bootstrap {
		found.ReadOnly = "the running controller never writes what bounds its own power: delete it by hand once nothing uses it"
	}
	return found, true
}

// miss drops what is recorded and was not found, the second time: one response
// of AWS may be older than the thing.
func (o *observation) miss(k state.Key) {
	o.Target.mu.Lock()
	before := o.previousRead.absent[k]
	o.Target.mu.Unlock()
	if before && !o.keep {
		o.store.Remove(k)
		return
	}
	o.absent[k] = true
}
