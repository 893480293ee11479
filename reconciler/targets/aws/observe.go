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
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/internal/parallel"
)

// requests bounds the kinds that are read at a time. Each reads its own things
// one after the other, so that AWS's limits are not met by our own haste.
const requests = 6

// Observe implements target.Target. It reads each kind once, for the wanted
// things and for those that are recorded and not wanted any more. What AWS does
// not tell is Unknown and keeps nothing else from being known; an error means
// that the inventory could not be read, or that ctx ended.
func (w *World) Observe(ctx context.Context, wanted state.Set) (state.Set, error) {
	if _, err := w.store.Load(ctx); err != nil {
		return state.Set{}, err
	}
	w.store.Withdraw(wanted)
	now := w.turn()
	asked := w.observable(now.wish, wanted)
	o := w.observation(now.wish, asked)
	o.keep, o.unasked = now.keep, leftUnasked(wanted, asked)
	for _, rec := range w.store.Records() {
		if _, keep := wanted.Get(rec.Key); !keep && !now.blind {
			o.left = append(o.left, rec)
		}
	}
	found, err := o.run(ctx)
	if err != nil {
		return state.Set{}, err
	}
	if now.doubt != "" {
		found = state.NewSet(append(found.Items(), state.Item{Key: clusterKey(now.object), Findings: state.Findings{
			Unknown: "not compared: the declaration has mistakes, the first: " + now.doubt,
		}})...)
	}
	p := plan.Compute(wanted, found)
	o.wish.wanted = wanted
	w.mu.Lock()
	w.seen, w.past.absent, w.past.states = o.wish, o.absent, statesOf(p)
	w.mu.Unlock()
	if now.missing {
		p.Unknown = append(p.Unknown, w.tale.missing()...)
	}
	w.tale.observed(o.wish, p, o.sights, true)
	w.tell()
	return found, nil
}

// clusterKey stands for a Cluster object as a whole among the things of AWS.
func clusterKey(object string) state.Key {
	return state.Key{Target: Name, Group: v1alpha1.GroupVersion.Group, Kind: "Cluster", Name: object}
}

// turn is what one observation goes by.
type turn struct {
	wish
	// keep is true when nothing that is recorded may be forgotten: what is
	// declared may be other than it seems.
	keep bool
	// missing is true when no Cluster is declared.
	missing bool
	// blind is true when nobody knows what is declared.
	blind bool
}

// turn finds out what an observation goes by. A Cluster that is not among what
// is declared may be in a file that cannot be read: the first observation
// without it forgets nothing.
func (w *World) turn() turn {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := turn{wish: w.wish}
	if now.Region == "" {
		now.wish = w.seen
	}
	now.pools, now.doubt = w.wish.pools, ""
	if !w.past.asked {
		return now // Everything is given up.
	}
	w.past.asked = false
	switch {
	case w.wish.doubt != "":
		now.wish, now.keep, now.blind = w.wish, true, w.wish.Region == ""
	case w.wish.object == "":
		w.past.without++
		now.missing, now.keep = true, w.past.without == 1
		if !now.keep {
			w.past.good = wish{}
		}
	default:
		w.past.without = 0
	}
	return now
}

// ObserveOnly reports on the wanted things alone: what is not in wanted is left
// out, not taken for unwanted.
func (w *World) ObserveOnly(ctx context.Context, wanted state.Set) (state.Set, error) {
	return w.observation(w.current(), wanted).run(ctx)
}

// observation is one look at AWS.
type observation struct {
	*World
	wish   wish
	wanted state.Set
	// unasked are the wanted things that AWS must not be asked about.
	unasked []state.Item
	// left are the records of what is not wanted any more.
	left []inventory.Record
	// users is who lives on what is declared; nil until somebody asks.
	users *users

	mu sync.Mutex
	// sights holds what was seen of each key that exists or is unknown.
	sights map[state.Key]sighting
	// older is why nothing is written where an older Cluster decides; else empty.
	older string
	// keep is true when nothing is forgotten; absent are the recorded things
	// that were not found.
	keep   bool
	absent map[state.Key]bool
}

func (w *World) observation(m wish, wanted state.Set) *observation {
	return &observation{World: w, wish: m, wanted: wanted, sights: map[state.Key]sighting{}, absent: map[state.Key]bool{}}
}

// question is one read of one kind in one place.
type question struct {
	of   kindOf
	at   place
	keys []state.Key
}

func (o *observation) run(ctx context.Context) (state.Set, error) {
	if !o.look(ctx) {
		return state.Set{}, fmt.Errorf("observing AWS: %w", ctx.Err())
	}
	if err := o.askLive(ctx); err != nil {
		return state.Set{}, err
	}
	items := slices.Clone(o.unasked)
	for _, item := range o.wanted.Items() {
		if found, ok := o.judge(item); ok {
			found.Removal = o.lost(ctx, item, found)
			items = append(items, found)
		}
	}
	for _, rec := range o.left {
		if found, ok := o.leave(ctx, rec); ok {
			items = append(items, found)
		}
	}
	return state.NewSet(items...), nil
}

// look asks AWS about all that is wanted or left. It returns false where ctx has
// ended before the answers came.
func (o *observation) look(ctx context.Context) bool {
	if o.wanted.Len() > 0 || len(o.left) > 0 {
		patient, cancel := patiently(ctx)
		defer cancel()
		o.ask(patient, o.questions())
	}
	return ctx.Err() == nil
}

// questions groups what is to be looked at by place and kind.
func (o *observation) questions() []question {
	var out []question
	add := func(k state.Key, at place) {
		of := kindOf{k.Group, k.Kind}
		n := slices.IndexFunc(out, func(q question) bool { return q.of == of && q.at == at })
		if n < 0 {
			n = len(out)
			out = append(out, question{of: of, at: at})
		}
		out[n].keys = append(out[n].keys, k)
	}
	for _, item := range o.wanted.Items() {
		add(item.Key, o.wish.place)
	}
	for _, rec := range o.left {
		at, err := placeIn(rec.Scope)
		if err != nil {
			o.sights[rec.Key] = sighting{err: err}
			continue
		}
		add(rec.Key, at)
	}
	return out
}

// ask answers the questions. An account is asked nothing before it is known to
// be the right one.
func (o *observation) ask(ctx context.Context, all []question) {
	byPlace := map[place][]question{}
	var places []place
	for _, q := range all {
		if byPlace[q.at] == nil {
			places = append(places, q.at)
		}
		byPlace[q.at] = append(byPlace[q.at], q)
	}
	for _, p := range places {
		to, who, err := o.lines.to(ctx, p)
		var asked *clients
		if err == nil {
			asked = to.remembering()
		}
		parallel.Each(requests, byPlace[p], func(q question) {
			if err != nil {
				o.note(who, unknownAll(q.keys, err), q.keys)
				return
			}
			k, known := o.kinds[q.of]
			if !known {
				err := fmt.Errorf("this release knows no %s of %s: run the one that made it", q.of.kind, q.of.service)
				o.note(who, unknownAll(q.keys, err), q.keys)
				return
			}
			seen := k.read(ctx, asked, q.keys)
			for _, s := range seen {
				if credentialsFailed(s.err) {
					to.doubt()
				}
			}
			o.note(who, seen, q.keys)
		})
	}
}

func unknownAll(keys []state.Key, err error) map[state.Key]sighting {
	out := make(map[state.Key]sighting, len(keys))
	for _, k := range keys {
		out[k] = sighting{err: err}
	}
	return out
}

// note takes over what was seen of the keys that were asked for, with errors in
// words.
func (o *observation) note(who string, seen map[state.Key]sighting, keys []state.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range keys {
		s, ok := seen[k]
		if !ok {
			continue
		}
		if s.err != nil {
			_, text := describe(who, s.err)
			s = sighting{err: &answered{text: text, cause: s.err}}
		}
		o.sights[k] = s
	}
}

// judge compares a wanted thing with what was seen of it.
func (o *observation) judge(item state.Item) (state.Item, bool) {
	rec, _ := o.store.Get(item.Key)
	if rec.Scope != o.wish.text() {
		rec = inventory.Record{} // It speaks of another cluster's thing.
	}
	live, seen := o.sights[item.Key]
	found := state.Item{Key: item.Key, Version: item.Version, Wave: item.Wave, Applied: rec.Desired}
	if live.err != nil {
		found.Unknown = live.err.Error()
		return found, true
	}
	found.Warnings, found.Notes, found.NotFound = live.warnings, slices.Sorted(slices.Values(live.notes)), live.notFound
	if live.moot {
		found.Object = item.Object
		return found, true
	}
	if !seen || live.object == nil {
		found.Hold = cmp.Or(live.missing, o.older) // What is never made here is missed, and that is all.
		return found, rec.Desired != "" || len(found.Warnings)+len(found.Notes) > 0 || found.Hold != ""
	}
	found.Object = o.comparable(item, live, rec)
	found.Live = state.Identity{UID: live.uid}
	o.terms(item, live, &found)
	return found, true
}

// comparable is what of a live thing counts: of somebody else's not what only
// we would give it.
func (o *observation) comparable(item state.Item, live sighting, rec inventory.Record) map[string]any {
	object := project(item.Object, live.object)
	if live.ours || item.Adopt || (rec.Print.UID != "" && rec.Print.UID == live.uid) {
		return object
	}
	object = asMarked(item.Object, object)
	if k, ok := o.kinds[kindOf{item.Key.Group, item.Key.Kind}].(giver); ok {
		object = k.given(o.wish.place, item.Object, object)
	}
	return object
}

// terms say whether what was found may be corrected, and know a thing again that
// is as it should be.
func (o *observation) terms(item state.Item, live sighting, found *state.Item) {
	if item.Hold != "" || o.older != "" {
		found.Hold = o.older
		return
	}
	same, may := state.Equal(item.Object, found.Object), live.ours || item.Adopt
	switch {
	case same && may:
		// Known again where the inventory was lost, or a life ended before it
		// could say what it had done.
		fresh := o.wish.record(item, live.uid)
		fresh.Desired = state.Hash(item.Object)
		o.store.Put(fresh)
		found.Applied = fresh.Desired
	case !same && live.held != "":
		found.Hold = live.held
	case !may:
		found.Hold = o.wish.foreign(item.Key)
	}
}

// foreign says why a thing that exists is only compared.
func (m wish) foreign(k state.Key) string {
	part := "the part of the Cluster that declares it"
	if m.parts != nil && m.parts()[k] != "" {
		part = m.parts()[k]
	}
	return "exists and was not made by Poolwright: set adopt: true in " + part + " to let Poolwright change it"
}

// leave decides about a thing that is recorded and not wanted any more. What is
// not to be deleted is forgotten, and stays as it is.
func (o *observation) leave(ctx context.Context, rec inventory.Record) (state.Item, bool) {
	live, seen := o.sights[rec.Key]
	found := state.Item{
		Key: rec.Key, Version: rec.Version, Applied: rec.Desired, Wave: rec.Wave,
	}
	switch {
	case live.err != nil:
		found.Unknown = live.err.Error()
		if rec.Policy == string(v1alpha1.PartDelete) && !rec.Reserved {
			found.UsedBy = usedBy(rec.Key.Kind)
		}
		return found, true
	case !seen || live.object == nil:
		o.miss(rec.Key)
		return found, false
	case !deletable(rec, live):
		if !o.keep {
			o.cfg.Log.Info("leaving alone what is not wanted any more", "resource", rec.Key.String())
			o.store.Forget(rec.Key)
		}
		return found, false
	}
	if nodesDependOn(rec.Key.Kind) {
		found.Removal = o.count(ctx).removal(rec.Key.Kind)
	}
	if rec.Print.UID == live.uid {
		found.Allowed = rec.Allowed
	}
	found.Object = live.object
	found.Live = state.Identity{UID: live.uid}
	found.Hold = o.older
	if rec.Reserved && !o.cfg.Bootstrap {
		found.Hold = "the running controller never writes what bounds its own power: delete it by hand once nothing uses it"
	}
	return found, true
}

// miss forgets what is recorded and was not found, the second time: one answer
// of AWS may be older than the thing.
func (o *observation) miss(k state.Key) {
	o.World.mu.Lock()
	before := o.past.absent[k]
	o.World.mu.Unlock()
	if before && !o.keep {
		o.store.Forget(k)
		return
	}
	o.absent[k] = true
}
