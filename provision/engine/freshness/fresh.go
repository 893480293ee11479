// Package freshness decides one thing: whether a decision that takes nodes away may be
// based on what the caches hold now.
//
// A cache that was filled once calls itself synced for ever, also while its watch
// is down: after an outage of the API server, reflectors wait up to half a minute
// before they try again, and requests succeed meanwhile. So Monitor observes the
// connection itself: every failed request of the engine (its transport is wrapped), and
// every failed read of its own, makes the view suspect. A suspect view is trusted again
// only when each watched kind's cache has reached a resource version that was read live
// after the failure. On an idle cluster that takes until the next bookmark, about a
// minute.
//
// What it refuses: everything it cannot prove, with an error that names what is
// missing. Start reading at Monitor.Check.
package freshness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// readTimeout bounds one live request.
	readTimeout = 3 * time.Second
	// readValidFor is how long a successful read counts for the next ones: a
	// command with a hundred nodes checks hundreds of times in a moment.
	readValidFor = 500 * time.Millisecond
)

// Cache is what Monitor needs of an informer.
type Cache interface {
	HasSynced() bool
	LastSyncResourceVersion() string
}

// WatchedKind is one kind whose cache decisions depend on.
type WatchedKind struct {
	// Kind is the kind's group, version and kind.
	Kind schema.GroupVersionKind
	// Cache is that kind's informer.
	Cache Cache
}

// Monitor follows the connection to the API server. Make one with New, put its
// Transport under the engine's client, Bind it once the caches exist.
type Monitor struct {
	clock clock.PassiveClock

	mu      sync.Mutex
	live    client.Reader
	watched []WatchedKind
	suspect bool
	// failures counts failed requests, so that a read can find out whether another
	// one failed meanwhile.
	failures int
	lastGood time.Time
	// marks are the live resource versions that the caches have yet to reach.
	marks map[schema.GroupVersionKind]string
}

// New returns a monitor that refuses everything until Bind.
func New(clk clock.PassiveClock) *Monitor {
	return &Monitor{clock: clk}
}

// Transport watches the requests that go through next. It changes nothing about
// them.
func (m *Monitor) Transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		switch {
		case err != nil && !errors.Is(err, context.Canceled):
			m.Suspect()
		case err == nil && request.Method == http.MethodGet && response.StatusCode >= http.StatusInternalServerError && readsObjects(request.URL.Path):
			// Only reads: a write's 500 may be a webhook's.
			m.Suspect()
		}
		return response, err
	})
}

// readsObjects distinguishes reads of objects from discovery, where an aggregated API
// that is away responds with 503 and that proves nothing about the objects.
func readsObjects(path string) bool {
	if group, ok := strings.CutPrefix(path, "/apis/"); ok {
		return strings.Count(group, "/") >= 2
	}
	return strings.HasPrefix(path, "/api/v1/")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Bind sets what is read: live reads past the caches.
func (m *Monitor) Bind(live client.Reader, watched []WatchedKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live, m.watched = live, watched
}

// Suspect makes the view untrusted until it is proven again.
func (m *Monitor) Suspect() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.suspect = true
	m.failures++
	m.marks = nil
	m.lastGood = time.Time{}
}

// Check returns nil when the API server responds now and every watched cache is filled
// and, after a failure, proven to be newer than it. It makes at most one small list
// request, and one per kind after a failure.
func (m *Monitor) Check(ctx context.Context) error {
	m.mu.Lock()
	live, watched, failures, suspect := m.live, m.watched, m.failures, m.suspect
	recent := !m.lastGood.IsZero() && m.clock.Since(m.lastGood) < readValidFor
	m.mu.Unlock()

	if live == nil || len(watched) == 0 {
		return errors.New("the caches are not set up yet")
	}
	if empty := unfilled(watched); len(empty) > 0 {
		return fmt.Errorf("the caches of %s are not filled yet", strings.Join(empty, ", "))
	}
	if recent && !suspect {
		return nil
	}
	if _, err := resourceVersion(ctx, live, watched[0].Kind); err != nil {
		m.Suspect()
		return fmt.Errorf("the API server does not respond: %w", err)
	}
	if suspect {
		if err := m.prove(ctx, live, watched, failures); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures != failures {
		return errors.New("the connection to the API server failed just now")
	}
	m.suspect, m.marks, m.lastGood = false, nil, m.clock.Now()
	return nil
}

// prove compares every cache with a version read live after the failure.
func (m *Monitor) prove(ctx context.Context, live client.Reader, watched []WatchedKind, failures int) error {
	m.mu.Lock()
	marks := m.marks
	m.mu.Unlock()
	if marks == nil {
		marks = map[schema.GroupVersionKind]string{}
		for _, w := range watched {
			version, err := resourceVersion(ctx, live, w.Kind)
			if err != nil {
				m.Suspect()
				return fmt.Errorf("the API server does not respond: %w", err)
			}
			marks[w.Kind] = version
		}
		m.mu.Lock()
		if m.failures == failures {
			m.marks = marks
		}
		m.mu.Unlock()
	}
	var behind []string
	for _, w := range watched {
		if order, err := resourceversion.CompareResourceVersion(w.Cache.LastSyncResourceVersion(), marks[w.Kind]); err != nil || order < 0 {
			behind = append(behind, w.Kind.Kind)
		}
	}
	if len(behind) > 0 {
		slices.Sort(behind)
		return fmt.Errorf("the connection to the API server failed and the caches of %s are not yet proven newer than that", strings.Join(behind, ", "))
	}
	return nil
}

func unfilled(watched []WatchedKind) []string {
	var kinds []string
	for _, w := range watched {
		if !w.Cache.HasSynced() {
			kinds = append(kinds, w.Kind.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// resourceVersion reads the kind's current resource version with the smallest list there is.
func resourceVersion(ctx context.Context, live client.Reader, kind schema.GroupVersionKind) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := live.List(ctx, list, client.Limit(1)); err != nil {
		return "", fmt.Errorf("listing %s: %w", kind.Kind, err)
	}
	return list.GetResourceVersion(), nil
}
