// Package objects reads what poolwright ui serves, with the permissions of its user: one watch of each kind, however many people read the
// pages.
//
// It refuses to write anything and to read a Secret. A kind that the user may not list, or that the cluster does not have, is left out
// and named in the report, as get does. Start reading at Start.
package objects

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/history/store"
)

// eventReason is the field by which events are selected.
const eventReason = "reason"

// Cache has the objects of a cluster, kept up to date by watches.
type Cache struct {
	reader       *reader
	types        *catalog.Catalog
	now          func() time.Time
	namespace    string
	changed      chan struct{}
	interruption interruption

	// explaining is held while an object is explained: Karpenter's scheduler runs on a snapshot of the whole cluster.
	explaining   sync.Mutex
	explanations map[explain.Object]explained

	reading sync.Mutex
	report  get.Report
	readAt  time.Time

	history historyReader
}

// explained is an explanation, and when it was made.
type explained struct {
	explain.Explanation
	at time.Time
}

const (
	// requestTimeout bounds each request that is not a watch.
	requestTimeout = 30 * time.Second
	// explanationAge is how old an explanation may be, reportAge a report.
	explanationAge = 5 * time.Second
	reportAge      = 500 * time.Millisecond
	// maxExplanations is how many explanations are kept.
	maxExplanations = 64
)

// Options are of which namespaces objects are read.
type Options struct {
	// SyncNamespace is that whose Syncs are read; empty for all.
	SyncNamespace string
	// HistoryNamespace is that of the controller, in which the history is.
	HistoryNamespace string
}

// Start begins to watch what may be watched. It returns once each kind has been listed. The watches end with the context.
func Start(ctx context.Context, cfg *rest.Config, options Options, now func() time.Time) (*Cache, error) {
	namespace := options.SyncNamespace
	types, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	bounded := rest.CopyConfig(cfg)
	bounded.Timeout = requestTimeout
	direct, err := connect.DirectClient(bounded)
	if err != nil {
		return nil, err
	}
	w := &Cache{reader: &reader{direct: direct, kinds: map[reflect.Type]bool{}, unreadable: &unreadable{now: now, lists: map[listOf]refusal{}}}, types: types, now: now, namespace: namespace, changed: make(chan struct{}, 1), explanations: map[explain.Object]explained{}}
	w.history.namespace = options.HistoryNamespace
	informers, err := cache.New(cfg, cache.Options{
		Scheme:           scheme.Scheme,
		Mapper:           direct.RESTMapper(),
		DefaultTransform: reduced,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.Sync{}:    {Namespaces: map[string]cache.Config{namespace: {}}},
			&corev1.Event{}:     {Namespaces: map[string]cache.Config{metav1.NamespaceDefault: {}}},
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{options.HistoryNamespace: {}}, Label: labels.SelectorFromSet(store.Labels())},
		},
		ReaderFailOnMissingInformer: true,
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			if w.interruption.record(now(), err) {
				w.notify()
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache: %w", err)
	}
	err = informers.IndexField(ctx, &corev1.Event{}, eventReason, func(o client.Object) []string { return []string{o.(*corev1.Event).Reason} })
	if err != nil {
		return nil, fmt.Errorf("indexing events: %w", err)
	}
	w.reader.cached, w.history.cached = informers, informers
	if err := w.watch(ctx, informers); err != nil {
		return nil, err
	}
	return w, nil
}

// watch starts a watch of each kind that may be listed.
func (w *Cache) watch(ctx context.Context, informers cache.Cache) error {
	readable, err := get.Readable(ctx, w.reader.direct, w.namespace)
	if err != nil {
		return err
	}
	for _, object := range readable {
		if _, err := w.follow(ctx, informers, object); err != nil {
			return err
		}
		w.reader.kinds[reflect.TypeOf(object).Elem()] = true
	}
	recorded, again := w.history.check(ctx, w.reader.direct)
	if recorded {
		if _, err := w.follow(ctx, informers, &corev1.ConfigMap{}); err != nil {
			return err
		}
	}
	go func() { _ = informers.Start(ctx) }() // it ends with the context, and has no other error
	if !informers.WaitForCacheSync(ctx) {
		return fmt.Errorf("listing the objects: %w", context.Cause(ctx))
	}
	if again {
		go w.checkAgain(ctx, informers)
	}
	return nil
}

// follow starts a watch of a kind.
func (w *Cache) follow(ctx context.Context, informers cache.Cache, object client.Object) (cache.Informer, error) {
	_, isPast := object.(*corev1.ConfigMap)
	changed := func() {
		if isPast {
			w.history.version.Add(1)
		}
		w.notify()
	}
	informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", object, err)
	}
	handler := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, DeleteFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			if !same(before, after) {
				changed()
			}
		},
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return nil, fmt.Errorf("watching %T: %w", object, err)
	}
	return informer, nil
}

// same reports whether an informer repeats what it has.
func same(before, after any) bool {
	a, okBefore := before.(client.Object)
	b, okAfter := after.(client.Object)
	return okBefore && okAfter && a.GetResourceVersion() == b.GetResourceVersion()
}

// notify records that something changed, without waiting for who is notified.
func (w *Cache) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Changed receives when objects have changed since it received last.
func (w *Cache) Changed() <-chan struct{} { return w.changed }

// Report is the document that get prints, of the objects as they are now or were half a second ago. Nobody may change it. It sends no request for what is watched.
func (w *Cache) Report(ctx context.Context) (get.Report, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	now := w.now()
	if passed := now.Sub(w.readAt); passed >= 0 && passed < reportAge {
		return w.report, nil
	}
	o, err := get.Read(ctx, w.reader.shared(), w.namespace)
	if err != nil {
		return get.Report{}, err
	}
	if of := w.history.notRead.Load(); of != nil {
		o.IncompleteKinds = append(o.IncompleteKinds, *of)
	}
	w.report, w.readAt = get.NewReport(o, now, w.types), now
	return w.report, nil
}

// Interrupted is since when the API server cannot be read, and why; nil where it can.
func (w *Cache) Interrupted() *page.Interruption { return w.interruption.since(w.now()) }

// Explain is the document that explain prints, at most some seconds old. One object is explained at a time.
func (w *Cache) Explain(ctx context.Context, object explain.Object) (explain.Explanation, error) {
	w.explaining.Lock()
	defer w.explaining.Unlock()
	if ctx.Err() != nil {
		return explain.Explanation{}, context.Cause(ctx)
	}
	now := w.now()
	maps.DeleteFunc(w.explanations, func(_ explain.Object, e explained) bool { return now.Sub(e.at) >= explanationAge })
	if e, found := w.explanations[object]; found {
		return e.Explanation, nil
	}
	e, err := explain.Of(ctx, w.reader, w.types, w.now, object)
	if err == nil && len(w.explanations) < maxExplanations {
		w.explanations[object] = explained{e, now}
	}
	return e, err
}
