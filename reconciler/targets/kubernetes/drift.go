package kubernetes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/internal/fields"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes/internal/kinds"
)

// Watch reports, until ctx ends, the keys of objects that are no longer as we
// left them, as soon as their watch event arrives. It follows every kind in
// the inventory, sends no request for an event that changes nothing of ours,
// and is silent about our own writes. A key means "read it", not "it is
// gone": who gets it observes it before doing anything. drifted is called from
// one goroutine and should return soon.
func (w *Target) Watch(ctx context.Context, drifted func([]state.Key)) error {
	if _, err := w.store.Load(ctx); err != nil {
		return err
	}
	if err := w.maskIfNeeded(ctx, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer cancel()
	running := map[schema.GroupVersionKind]context.CancelFunc{}
	for {
		w.watch.followAll(ctx, running, &followers)
		if !w.watch.deliver(ctx, drifted) {
			return nil
		}
	}
}

// tracker decides which events are drift.
type tracker struct {
	target *Target
	// wake reports that there is something to deliver; kinds that the kinds to
	// follow may have changed.
	notify, kinds chan struct{}

	mu sync.Mutex
	// flights are the objects that are being corrected at this moment: what
	// is observed of them is judged afterwards, by the new record.
	flights map[state.Key]*flight
	// pending are to be delivered, later those of which not before a time.
	pending map[state.Key]bool
	later   map[state.Key]time.Time
	// fresh holds what has just been observed to have drifted, so that looking at
	// it costs no request.
	fresh map[state.Key]watchedObject
}

// watchedObject is an object as a watch event brought it.
type watchedObject struct {
	live *unstructured.Unstructured
	at   time.Time
}

// Objects are fresh for a second, and at most as many as drift at a time in
// ordinary life: after a great upheaval each is read anew.
const (
	freshFor   = time.Second
	freshLimit = 100
)

// flight is one correction under way, with the newest thing seen meanwhile.
type flight struct {
	latest *fields.Print
	gone   bool
}

func newTracker(w *Target) *tracker {
	return &tracker{
		target: w, notify: make(chan struct{}, 1), kinds: make(chan struct{}, 1),
		flights: map[state.Key]*flight{}, pending: map[state.Key]bool{}, later: map[state.Key]time.Time{},
		fresh: map[state.Key]watchedObject{},
	}
}

// refresh asks for another look at which kinds to follow.
func (t *tracker) refresh() { poke(t.kinds) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// followAll starts to follow the kinds of the inventory that are not followed
// yet, and stops those that left it.
func (t *tracker) followAll(ctx context.Context, running map[schema.GroupVersionKind]context.CancelFunc, all *sync.WaitGroup) {
	wanted := map[schema.GroupVersionKind]bool{}
	for _, r := range t.target.store.Records() {
		wanted[schema.GroupVersionKind{Group: r.Key.Group, Version: r.Version, Kind: r.Key.Kind}] = true
	}
	for gvk, stop := range running {
		if !wanted[gvk] {
			stop()
			delete(running, gvk)
		}
	}
	for gvk := range wanted {
		if running[gvk] != nil {
			continue
		}
		kind, ok, err := t.target.kinds.Lookup(ctx, gvk)
		if err != nil || !ok {
			// Its definition is not there (yet): the next change of the
			// inventory asks again.
			continue
		}
		one, stop := context.WithCancel(ctx)
		running[gvk] = stop
		all.Go(func() { t.target.follow(one, kind, &watcher{tracker: t, kind: kind}) })
	}
}

// deliver hands over what has drifted until the kinds may have changed. It
// returns false when ctx has ended.
func (t *tracker) deliver(ctx context.Context, drifted func([]state.Key)) bool {
	for {
		keys, next := t.take()
		if len(keys) > 0 {
			drifted(keys)
		}
		alarm := t.target.cfg.Clock.NewTimer(next)
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
func (t *tracker) take() ([]state.Key, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, next := t.target.cfg.Clock.Now(), time.Hour
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
func (t *tracker) queue(k state.Key) {
	if left := t.target.flaps.left(k); left > 0 {
		t.later[k] = t.target.cfg.Clock.Now().Add(left)
	} else {
		t.pending[k] = true
	}
	poke(t.notify)
}

// begin reports that an object is being corrected; end that it is no longer.
func (t *tracker) begin(k state.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.flights[k] = &flight{}
}

func (t *tracker) end(k state.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.flights[k]
	delete(t.flights, k)
	switch {
	case f == nil || f.latest == nil:
	case f.gone:
		t.deleted(k, *f.latest)
	default:
		t.hasDrifted(k, *f.latest, func() fields.Print { return *f.latest })
	}
}

// hasDrifted decides whether an object that was observed has drifted. The full print
// is only taken when its identity does not settle the matter. The lock is held
// so that no correction of the object starts meanwhile.
func (t *tracker) hasDrifted(k state.Key, id fields.Print, full func() fields.Print) (drifted bool) {
	rec, known := t.target.store.Get(k)
	if !known || rec.Print.UID == "" {
		return false // Not ours, or not applied yet.
	}
	delete(t.fresh, k)
	if rec.Print.UID == id.UID && !newer(id.ResourceVersion, rec.Print.ResourceVersion) {
		return false
	}
	now := full()
	if !rec.Print.Same(now) {
		t.queue(k)
		return true
	}
	rec.Print = now
	t.target.store.Put(rec)
	return false
}

// deleted decides whether the disappearance of an object is drift: of the
// incarnation that we left, it is.
func (t *tracker) deleted(k state.Key, id fields.Print) {
	delete(t.fresh, k)
	if rec, known := t.target.store.Get(k); known && rec.Print.UID == id.UID {
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

// watcher is the eyes on one kind.
type watcher struct {
	*tracker
	kind kinds.Kind
}

func (v *watcher) updated(live *unstructured.Unstructured) {
	k := keyOf(v.kind, live)
	full := func() fields.Print { return fields.Take(live.Object, v.target.options(k)) }
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.flights[k]; f != nil {
		print := full()
		f.latest, f.gone = &print, false
		return
	}
	if v.hasDrifted(k, fields.Identify(live.Object), full) {
		v.remember(k, live)
	}
}

// remember keeps an object that has drifted for whoever reads it next.
func (t *tracker) remember(k state.Key, live *unstructured.Unstructured) {
	now := t.target.cfg.Clock.Now()
	maps.DeleteFunc(t.fresh, func(_ state.Key, s watchedObject) bool { return now.Sub(s.at) > freshFor })
	if len(t.fresh) < freshLimit {
		t.fresh[k] = watchedObject{live: &unstructured.Unstructured{Object: live.Object}, at: now}
	}
}

// recent returns, once, what was observed of an object a moment ago, unless we
// have written it since.
func (t *tracker) recent(k state.Key) *unstructured.Unstructured {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.fresh[k]
	delete(t.fresh, k)
	rec, known := t.target.store.Get(k)
	if !ok || !known || t.target.cfg.Clock.Since(s.at) > freshFor || !newer(s.live.GetResourceVersion(), rec.Print.ResourceVersion) {
		return nil
	}
	return s.live
}

func (v *watcher) gone(live *unstructured.Unstructured) {
	k := keyOf(v.kind, live)
	id := fields.Identify(live.Object)
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.flights[k]; f != nil {
		f.latest, f.gone = &id, true
		return
	}
	v.deleted(k, id)
}

// listed finds what was there and is not in the list any more.
func (v *watcher) listed(all map[state.Key]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.target.store.Records() {
		ofKind := r.Key.Group == v.kind.Group && r.Key.Kind == v.kind.Kind && r.Version == v.kind.Version
		if !ofKind || r.Print.UID == "" || all[r.Key] {
			continue
		}
		if f := v.flights[r.Key]; f != nil {
			f.latest, f.gone = &r.Print, true
		} else {
			v.queue(r.Key)
		}
	}
}
