// Package drift finds out from watch events which objects are no longer as they were left,
// and leaves those alone that two managers keep changing.
//
// It refuses to send a request for an event, and to count our own writes as drift. Start
// reading at Tracker.Watch.
package drift

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/internal/inventory"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/reflector"
)

// Config is what a Tracker needs.
type Config struct {
	// Store is the inventory: how objects were left.
	Store *inventory.Store
	// Kinds are those that the cluster serves.
	Kinds *kinds.RESTMapper
	// Objects are what is watched.
	Objects reflector.Reflector
	// Clock is the time.
	Clock clock.Clock
	// Options are how the object with a key is compared.
	Options func(state.Key) fields.Options
	// Beside makes a Handler that gets the objects of a kind after the Tracker; may be nil.
	Beside func(kinds.Kind) reflector.Handler
}

// Tracker decides which events are drift. It is safe for concurrent use.
type Tracker struct {
	cfg Config
	*flaps
	// notify reports that there is something to deliver; kinds that the kinds to
	// follow may have changed.
	notify, kinds chan struct{}

	mu sync.Mutex
	// inFlight are the objects that are being corrected at this moment: what is observed of
	// them is evaluated afterwards, by the new record.
	inFlight map[state.Key]*inFlight
	// pending are to be delivered, later those of which not before a time.
	pending map[state.Key]bool
	later   map[state.Key]time.Time
	// recent holds what has just been observed to have drifted, so that reading it costs no
	// request.
	recent map[state.Key]watchedObject
}

// watchedObject is an object as a watch event brought it.
type watchedObject struct {
	live *unstructured.Unstructured
	at   time.Time
}

// Objects are fresh for a second, and at most as many as drift at a time in
// ordinary life: after a great upheaval each is read anew.
const (
	recentAge = time.Second
	maxRecent = 100
)

// inFlight is one correction under way, with the newest thing observed meanwhile.
type inFlight struct {
	latest  *fields.Fingerprint
	deleted bool
}

// New makes a Tracker. It sends no request.
func New(c Config) *Tracker {
	return &Tracker{
		cfg: c, flaps: newFlaps(c.Clock),
		notify: make(chan struct{}, 1), kinds: make(chan struct{}, 1),
		inFlight: map[state.Key]*inFlight{}, pending: map[state.Key]bool{}, later: map[state.Key]time.Time{},
		recent: map[state.Key]watchedObject{},
	}
}

// Watch reports, until ctx ends, the keys of objects that are no longer as we
// left them, as soon as their watch event arrives. It follows every kind in
// the inventory, sends no request for an event that changes nothing of ours,
// and reports none of our own writes. A key means "read it", not "it is gone": who gets
// it observes it before doing anything. drifted is called from one goroutine and should
// return soon.
func (t *Tracker) Watch(ctx context.Context, drifted func([]state.Key)) {
	ctx, cancel := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer cancel()
	running := map[schema.GroupVersionKind]context.CancelFunc{}
	for {
		t.followAll(ctx, running, &followers)
		if !t.deliver(ctx, drifted) {
			return
		}
	}
}

// Refresh makes Watch read anew from the inventory which kinds to watch.
func (t *Tracker) Refresh() { poke(t.kinds) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// followAll starts to follow the kinds of the inventory that are not followed
// yet, and stops those that left it.
func (t *Tracker) followAll(ctx context.Context, running map[schema.GroupVersionKind]context.CancelFunc, all *sync.WaitGroup) {
	desired := map[schema.GroupVersionKind]bool{}
	for _, r := range t.cfg.Store.Records() {
		desired[kinds.GVK(r.Key, r.Version)] = true
	}
	for gvk, stop := range running {
		if !desired[gvk] {
			stop()
			delete(running, gvk)
		}
	}
	for gvk := range desired {
		if running[gvk] != nil {
			continue
		}
		kind, ok, err := t.cfg.Kinds.Lookup(ctx, gvk)
		if err != nil || !ok {
			// Its definition is not there (yet): the next change of the inventory tries again.
			continue
		}
		one, stop := context.WithCancel(ctx)
		running[gvk] = stop
		handler := reflector.Handler(&watcher{Tracker: t, kind: kind})
		if t.cfg.Beside != nil {
			handler = reflector.Both{First: handler, Second: t.cfg.Beside(kind)}
		}
		all.Go(func() { t.cfg.Objects.Run(one, kind, handler) })
	}
}

// deliver hands over what has drifted until the kinds may have changed. It
// returns false when ctx has ended.
func (t *Tracker) deliver(ctx context.Context, drifted func([]state.Key)) bool {
	for {
		keys, next := t.take()
		if len(keys) > 0 {
			drifted(keys)
		}
		alarm := t.cfg.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			alarm.Stop()
			return false
		case <-t.kinds:
			alarm.Stop()
			return true
		case <-t.notify:
			alarm.Stop()
		case <-alarm.C():
		}
	}
}

// take removes what is due, and reports how long nothing else will be.
func (t *Tracker) take() ([]state.Key, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, next := t.cfg.Clock.Now(), time.Hour
	for k, at := range t.later {
		if wait := at.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		t.pending[k] = true
		delete(t.later, k)
	}
	keys := slices.SortedFunc(maps.Keys(t.pending), state.Key.Compare)
	clear(t.pending)
	return keys, next
}

// queue makes a key be delivered, unless it is left alone for a while.
func (t *Tracker) queue(k state.Key) {
	if left := t.remaining(k); left > 0 {
		t.later[k] = t.cfg.Clock.Now().Add(left)
	} else {
		t.pending[k] = true
	}
	poke(t.notify)
}

// Begin marks an object as being corrected: its events count only after End.
func (t *Tracker) Begin(k state.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inFlight[k] = &inFlight{}
}

// End marks an object as no longer being corrected, and decides whether it has drifted meanwhile.
func (t *Tracker) End(k state.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.inFlight[k]
	delete(t.inFlight, k)
	switch {
	case f == nil || f.latest == nil:
	case f.deleted:
		t.deleted(k, *f.latest)
	default:
		t.hasDrifted(k, *f.latest, func() fields.Fingerprint { return *f.latest })
	}
}

// hasDrifted decides whether an object that was observed has drifted. The full print
// is only taken when its identity does not decide the matter. The lock is held so that
// no correction of the object starts meanwhile.
func (t *Tracker) hasDrifted(k state.Key, id fields.Fingerprint, full func() fields.Fingerprint) (drifted bool) {
	rec, known := t.cfg.Store.Get(k)
	if !known || rec.Fingerprint.UID == "" {
		return false // Not ours, or not applied yet.
	}
	delete(t.recent, k)
	if rec.Fingerprint.UID == id.UID && !newer(id.ResourceVersion, rec.Fingerprint.ResourceVersion) {
		return false
	}
	now := full()
	if !rec.Fingerprint.Same(now) {
		t.queue(k)
		return true
	}
	rec.Fingerprint = now
	t.cfg.Store.Put(rec)
	return false
}

// deleted decides whether the disappearance of an object is drift: of the
// incarnation that we left, it is.
func (t *Tracker) deleted(k state.Key, id fields.Fingerprint) {
	delete(t.recent, k)
	if rec, known := t.cfg.Store.Get(k); known && rec.Fingerprint.UID == id.UID {
		t.queue(k)
	}
}

// newer reports whether version a may be later than b.
func newer(a, b string) bool {
	if b == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	if err != nil {
		return a != b
	}
	return order > 0
}

// watcher gets the objects of one kind.
type watcher struct {
	*Tracker
	kind kinds.Kind
}

func (v *watcher) Updated(live *unstructured.Unstructured) {
	k := v.kind.Key(live)
	full := func() fields.Fingerprint { return fields.FingerprintOf(live.Object, v.cfg.Options(k)) }
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.inFlight[k]; f != nil {
		print := full()
		f.latest, f.deleted = &print, false
		return
	}
	if v.hasDrifted(k, fields.Identify(live.Object), full) {
		v.keepDrifted(k, live)
	}
}

// keepDrifted keeps an object that has drifted for whoever reads it next.
func (t *Tracker) keepDrifted(k state.Key, live *unstructured.Unstructured) {
	now := t.cfg.Clock.Now()
	maps.DeleteFunc(t.recent, func(_ state.Key, s watchedObject) bool { return now.Sub(s.at) > recentAge })
	if len(t.recent) < maxRecent {
		t.recent[k] = watchedObject{live: &unstructured.Unstructured{Object: live.Object}, at: now}
	}
}

// Recent returns, once, what was observed of an object a moment ago, unless we
// have written it since.
func (t *Tracker) Recent(k state.Key) *unstructured.Unstructured {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.recent[k]
	delete(t.recent, k)
	rec, known := t.cfg.Store.Get(k)
	if !ok || !known || t.cfg.Clock.Since(s.at) > recentAge || !newer(s.live.GetResourceVersion(), rec.Fingerprint.ResourceVersion) {
		return nil
	}
	return s.live
}

func (v *watcher) Deleted(live *unstructured.Unstructured) {
	k := v.kind.Key(live)
	id := fields.Identify(live.Object)
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.inFlight[k]; f != nil {
		f.latest, f.deleted = &id, true
		return
	}
	v.deleted(k, id)
}

// Listed finds what was there and is not in the list any more.
func (v *watcher) Listed(all map[state.Key]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.cfg.Store.Records() {
		ofKind := r.Key.Group == v.kind.Group && r.Key.Kind == v.kind.Kind && r.Version == v.kind.Version
		if !ofKind || r.Fingerprint.UID == "" || all[r.Key] {
			continue
		}
		if f := v.inFlight[r.Key]; f != nil {
			f.latest, f.deleted = &r.Fingerprint, true
		} else {
			v.queue(r.Key)
		}
	}
}
