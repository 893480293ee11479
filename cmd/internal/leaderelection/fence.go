// Package leaderelection lets a replica write only while it holds the leader lease.
//
// client-go's leader election does not guarantee, by its own documentation, a single leader: a
// process that was stopped past its lease, or starved, goes on with what it read before until
// it detects that. A Fence stands between a decision and its request. It is open for
// RenewDeadline after a renewal of the lease and closed before the first one, when the lease
// is given back, when a renewal is refused, and when another holder is observed. It learns of
// all these from the lock that it makes (Lock), which every renewal passes through.
//
// It refuses to cancel a request that was sent: nothing could determine whether it was
// carried out. Such requests have the time between RenewDeadline and LeaseDuration to
// arrive, and a lease is given back only when none is under way. What a fence cannot
// detect is a pause of the whole machine that none of its clocks counts; the
// preconditions of the requests themselves are for that. Start reading at Fence.
package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
)

// LeaseName is the one lease that the loop and the engine share, in the controller's
// namespace: two replicas, one acts.
const LeaseName = "poolwright"

const (
	// LeaseDuration is how long others leave a lease alone that is not renewed:
	// controller-runtime's default.
	LeaseDuration = 15 * time.Second
	// RenewDeadline is how long after a renewal the holder acts on it: controller-runtime's
	// default. What is left of LeaseDuration is for requests that are under way.
	RenewDeadline = 10 * time.Second
)

// ErrNotLeader is what a write gets from a closed fence: it was not sent.
var ErrNotLeader = errors.New("not sent: this replica has not renewed its leader lease in time, so that another one may lead by now")

// Fence records whether this replica holds the lease, for all transports and locks made
// of it. It is safe for concurrent use.
type Fence struct {
	rest     *rest.Config
	identity string
	clocks   func() clockReading

	mu sync.Mutex
	// renewed is when the last renewal was requested; validFor, how long after that the
	// fence is open. Zero is closed.
	renewed  clockReading
	validFor time.Duration
	// term counts how often the fence was closed: a renewal that was requested in an
	// earlier one does not open it.
	term int
	// holder is whether the lease was ours when it was last read or written.
	holder bool
	// inFlight is how many writes were sent and have no response; idle is closed when
	// somebody waits for there to be none.
	inFlight int
	idle     chan struct{}
}

// New returns a closed fence before the API server of that configuration. It has an
// identity of its own: the host's name, which in a cluster is the pod's, and a random part.
func New(cfg *rest.Config) (*Fence, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this replica: %w", err)
	}
	return &Fence{rest: rest.CopyConfig(cfg), identity: host + "_" + string(uuid.NewUUID()), clocks: systemClocks(time.Now())}, nil
}

// Config returns the client configuration that New was given, whose writes now pass
// only while the fence is open. Reads always pass.
func (f *Fence) Config() *rest.Config {
	out := rest.CopyConfig(f.rest)
	out.Wrap(f.Transport)
	return out
}

// Transport returns a transport around next whose writes pass only while the fence is open.
// Reads always pass.
func (f *Fence) Transport(next http.RoundTripper) http.RoundTripper { return transport{f, next} }

// Check returns ErrNotLeader unless this replica certainly holds the lease.
func (f *Fence) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.check()
}

func (f *Fence) check() error {
	if f.validFor > 0 && f.clocks().since(f.renewed) < f.validFor {
		return nil
	}
	return ErrNotLeader
}

// Begin is Check for one write. Where it allows it, call end once the response is
// there: until then the lease is not given back.
func (f *Fence) Begin() (end func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.check(); err != nil {
		return nil, err
	}
	f.inFlight++
	return sync.OnceFunc(f.end), nil
}

func (f *Fence) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.inFlight--; f.inFlight == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

// close lets no further write pass until a renewal that is requested from now on.
func (f *Fence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.validFor = 0
	f.term++
}

// found records whether the lease is ours, and closes the fence where it is not.
func (f *Fence) found(ours bool) {
	f.mu.Lock()
	f.holder = ours
	f.mu.Unlock()
	if !ours {
		f.close()
	}
}

// holds reports whether the lease was ours when it was last read or written.
func (f *Fence) holds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.holder
}

// renewalStart is the moment at which a renewal is requested.
func (f *Fence) renewalStart() (at clockReading, term int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clocks(), f.term
}

// open lets writes pass for some time from the moment on at which the renewal was
// requested: others count from when they observe it, which is later.
func (f *Fence) open(at clockReading, term int, validFor time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if term == f.term {
		f.renewed, f.validFor = at, validFor
	}
}

// waitIdle waits until no write is in flight.
func (f *Fence) waitIdle(ctx context.Context) error {
	f.mu.Lock()
	if f.inFlight == 0 {
		f.mu.Unlock()
		return nil
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle, n := f.idle, f.inFlight
	f.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("keeping the leader lease until it expires, since %d requests have no response yet: %w", n, context.Cause(ctx))
	}
}

// transport is the fence around HTTP requests.
type transport struct {
	fence *Fence
	next  http.RoundTripper
}

// accessReviewPath is where a client requests what itself may do. The request is a POST, and the API server stores nothing.
const accessReviewPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// readOnly reports whether a request changes nothing. Access reviews are sent before the election, by a replica that
// decides with which settings it would lead.
func readOnly(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	case http.MethodPost:
		return r.URL.Path == accessReviewPath
	default:
		return false
	}
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if readOnly(r) {
		return t.next.RoundTrip(r)
	}
	end, err := t.fence.Begin()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a transport's duty; nothing depends on its error
		}
		return nil, err
	}
	// A server responds once it has carried out.
	defer end()
	return t.next.RoundTrip(r)
}
