package wire

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// LeaseDuration is how long the lease called LeaseName holds without being renewed:
// controller-runtime's default, which all replicas share.
const LeaseDuration = 15 * time.Second

// errFenced is what a write gets from the fence.
var errFenced = errors.New("not sent: this replica has not renewed its leader lease in time, so that another one may lead by now")

// fence lets no write of ours pass unless the lease was renewed recently. A
// process that was frozen past its lease, or starved, would otherwise act on
// what it saw before, until it notices: its successor's work would be undone.
// It sees the renewals because they pass through it like everything else.
type fence struct {
	next  http.RoundTripper
	lease *lease
}

// lease is when ours was renewed last; all transports made of one rest.Config
// share it, and so do the requests to AWS.
type lease struct {
	path  string
	clock clock.PassiveClock

	mu      sync.Mutex
	renewed time.Time
}

// fenced returns a client configuration that writes only while this replica
// certainly leads, and the lease by which other writers can ask the same. Whoever
// writes without leading must use another.
func fenced(cfg *rest.Config, namespace string) (*rest.Config, *lease) {
	l := &lease{path: "/namespaces/" + namespace + "/leases", clock: clock.RealClock{}}
	out := rest.CopyConfig(cfg)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fence{next: next, lease: l} })
	return out, l
}

// RoundTrip implements http.RoundTripper.
func (f *fence) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return f.next.RoundTrip(r)
	}
	if f.lease.is(r.URL.Path) {
		// The others count from when they see the renewal, which is later.
		asked := f.lease.clock.Now()
		resp, err := f.next.RoundTrip(r)
		if err == nil && resp.StatusCode < http.StatusMultipleChoices {
			f.lease.renew(asked)
		}
		return resp, err
	}
	if err := f.lease.fresh(); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a transport's duty; there is nothing to say about its error
		}
		return nil, err
	}
	return f.next.RoundTrip(r)
}

// is reports whether a path is that of the lease or, for its creation, of the
// leases beside it.
func (l *lease) is(path string) bool {
	return strings.HasSuffix(path, l.path+"/"+LeaseName) || strings.HasSuffix(path, l.path)
}

func (l *lease) renew(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.renewed) {
		l.renewed = at
	}
}

// fresh returns errFenced unless the lease certainly holds.
func (l *lease) fresh() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clock.Since(l.renewed) < LeaseDuration {
		return nil
	}
	return errFenced
}
