package leaderelection

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	upstream "k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	path  = "/apis/coordination.k8s.io/v1/namespaces/ours/leases"
	write = "/apis/karpenter.sh/v1/nodeclaims/gpu-1"
)

// bench is a fence whose clocks the test sets, and an API server that keeps one
// lease, with optimistic locking, and takes every other request.
type bench struct {
	*testing.T
	*Fence
	host string
	lock *resourcelock.LeaseLock

	mu    sync.Mutex
	now   clockReading
	lease *coordinationv1.Lease
	// before is called ahead of each write of the lease; a status that it returns is the answer.
	before func(*coordinationv1.Lease) int
	// held blocks the other writes until it is closed, and arrived gets a value for each.
	held    chan struct{}
	arrived chan struct{}
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{T: t, arrived: make(chan struct{}, 10)}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	b.host = server.URL
	var err error
	b.Fence, err = New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	b.clocks = func() clockReading { b.mu.Lock(); defer b.mu.Unlock(); return b.now }
	b.lock, err = b.Lock(types.NamespacedName{Namespace: "ours", Name: "poolwright"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ServeHTTP implements http.Handler.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, path) {
		b.mu.Lock()
		held := b.held
		b.mu.Unlock()
		if held != nil {
			b.arrived <- struct{}{}
			<-held
		}
		return
	}
	var sent coordinationv1.Lease
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			b.Error(err)
		}
		if b.before != nil {
			if status := b.before(&sent); status != 0 {
				b.fail(w, status)
				return
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && b.lease == nil:
		b.fail(w, http.StatusNotFound)
		return
	case r.Method == http.MethodPut && (b.lease == nil || sent.ResourceVersion != b.lease.ResourceVersion):
		b.fail(w, http.StatusConflict)
		return
	case r.Method != http.MethodGet:
		b.store(&sent)
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(b.lease); err != nil {
		b.Error(err)
	}
}

func (b *bench) store(lease *coordinationv1.Lease) {
	version := 1
	if b.lease != nil {
		version, _ = strconv.Atoi(b.lease.ResourceVersion)
		version++
	}
	lease.ResourceVersion = strconv.Itoa(version)
	b.lease = lease
}

func (b *bench) fail(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	reason := map[int]metav1.StatusReason{http.StatusNotFound: metav1.StatusReasonNotFound, http.StatusConflict: metav1.StatusReasonConflict}[status]
	if err := json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(status)}); err != nil {
		b.Error(err)
	}
}

// stolen has another replica hold the lease.
func (b *bench) stolen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	lease, another := b.lease.DeepCopy(), "another"
	lease.Spec.HolderIdentity = &another
	b.store(lease)
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = clockReading{b.now.monotonic + d, b.now.boot + d, b.now.wall + d}
}

func (b *bench) record(holder string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: int(LeaseDuration / time.Second)}
}

// lead takes the lease.
func (b *bench) lead() {
	b.Helper()
	if err := b.lock.Create(b.Context(), b.record(b.identity)); err != nil {
		b.Fatal(err)
	}
	b.opened(true)
}

// send sends a write through the fence.
func (b *bench) send(method string) error { return b.sendTo(method, write) }

func (b *bench) sendTo(method, path string) error {
	client, err := rest.HTTPClientFor(b.Config())
	if err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.Context(), method, b.host+path, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// opened checks that writes pass, or do not, and that reads do in any case.
func (b *bench) opened(want bool) {
	b.Helper()
	for _, method := range []string{http.MethodDelete, http.MethodPatch, http.MethodPost, http.MethodPut} {
		if err := b.send(method); want && err != nil || !want && !errors.Is(err, ErrNotLeader) {
			b.Errorf("%s: want passed %t, got %v", method, want, err)
		}
	}
	if err := b.Check(); want && err != nil || !want && !errors.Is(err, ErrNotLeader) {
		b.Errorf("want the fence open %t, got %v", want, err)
	}
	if err := b.send(http.MethodGet); err != nil {
		b.Errorf("a read: %v", err)
	}
}

func TestWritesPassFromARenewalUntilItsDeadline(t *testing.T) {
	b := newBench(t)
	b.opened(false)
	b.lead()
	b.pass(RenewDeadline - time.Millisecond)
	b.opened(true)
	b.pass(time.Millisecond)
	b.opened(false)
	if err := b.lock.Update(t.Context(), b.record(b.identity)); err != nil {
		t.Fatal(err)
	}
	b.opened(true)
}

// The engine's settings depend on what the API server serves and allows, and are needed before the election.
func TestAReplicaThatDoesNotLeadCanReviewItsOwnAccess(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		method, path string
		sent         bool
	}{
		"its own access":                     {http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
		"another verb there":                 {http.MethodDelete, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
		"an object of the same name":         {http.MethodPost, "/apis/example.com/v1/selfsubjectaccessreviews", false},
		"the same path through a proxy":      {http.MethodPost, "/api/v1/namespaces/a/services/b/proxy/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
		"roles, which the same group allows": {http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterroles", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.sendTo(c.method, c.path); (err == nil) != c.sent || err != nil && !errors.Is(err, ErrNotLeader) {
				t.Errorf("want sent %t, got %v", c.sent, err)
			}
		})
	}
}

func TestGivingTheLeaseAwayClosesTheFence(t *testing.T) {
	b := newBench(t)
	b.lead()
	b.before = func(sent *coordinationv1.Lease) int {
		if err := b.Check(); !errors.Is(err, ErrNotLeader) {
			t.Errorf("when the API server learns that nobody holds the lease, writes still pass: %v", err)
		}
		return 0
	}
	if err := b.lock.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	b.opened(false)
	b.pass(14 * time.Second)
	b.opened(false)
}

// elected has client-go's own elector lead by the lock. stop ends its context, upon which it
// gives the lease away, and waits until it has returned.
func (b *bench) elected() (stop func()) {
	b.Helper()
	led := make(chan struct{})
	elector, err := upstream.NewLeaderElector(upstream.LeaderElectionConfig{
		Lock: b.lock, LeaseDuration: LeaseDuration, RenewDeadline: RenewDeadline, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: upstream.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(led) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { elector.Run(ctx); close(done) }()
	<-led
	b.opened(true)
	return func() {
		cancel()
		<-done
	}
}

// With client-go's own elector: it releases when its context ends.
func TestAnElectorThatIsStoppedClosesTheFence(t *testing.T) {
	b := newBench(t)
	stop := b.elected()
	stop()
	b.opened(false)
	if holder := *b.lease.Spec.HolderIdentity; holder != "" {
		t.Errorf("the lease is held by %q", holder)
	}
}

// With client-go's own elector: what it read of the holder is older than the lease.
func TestALeaseThatAnotherHasByNowIsNotGivenAway(t *testing.T) {
	b := newBench(t)
	stop := b.elected()
	b.stolen()
	stop()
	b.opened(false)
	if holder := *b.lease.Spec.HolderIdentity; holder != "another" {
		t.Errorf("the lease of another is held by %q", holder)
	}
}

func TestWhatBecomesOfTheLeaseDecides(t *testing.T) {
	renew := func(b *bench) { _ = b.lock.Update(b.Context(), b.record(b.identity)) }
	get := func(b *bench) { _, _, _ = b.lock.Get(b.Context()) }
	for name, c := range map[string]struct {
		do   func(b *bench)
		want bool
	}{
		"our own lease is read":      {get, true},
		"it is renewed":              {renew, true},
		"another's identity is read": {func(b *bench) { b.stolen(); get(b) }, false},
		"another has written it":     {func(b *bench) { b.stolen(); renew(b) }, false},
		"it was deleted":             {func(b *bench) { b.lease = nil; get(b) }, false},
		"the API server responds for another": {func(b *bench) {
			another := "another"
			b.before = func(l *coordinationv1.Lease) int { l.Spec.HolderIdentity = &another; return 0 }
			renew(b)
		}, false},
		"it is written for another": {func(b *bench) { _ = b.lock.Update(b.Context(), b.record("another")) }, false},
		"the API server fails once": {func(b *bench) { b.before = func(*coordinationv1.Lease) int { return http.StatusForbidden }; renew(b) }, true},
		"it lasts as long as a request may be under way": {func(b *bench) {
			r := b.record(b.identity)
			r.LeaseDurationSeconds = 5
			_ = b.lock.Update(b.Context(), r)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lead()
			c.do(b)
			b.opened(c.want)
		})
	}
}

func TestARenewalWhoseResponseComesAfterTheLeaseWasGivenAwayOpensNothing(t *testing.T) {
	b := newBench(t)
	b.lead()
	arrived, response := make(chan struct{}), make(chan struct{})
	b.before = func(*coordinationv1.Lease) int { close(arrived); <-response; return 0 }
	done := make(chan error)
	go func() { done <- b.lock.Update(t.Context(), b.record(b.identity)) }()
	<-arrived
	b.Fence.close()
	close(response)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.opened(false)
}

func TestTheLeaseIsGivenAwayWhenNoWriteIsUnderWay(t *testing.T) {
	for name, responded := range map[string]bool{"it gets a response": true, "it never gets a response": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lead()
			held, wrote := make(chan struct{}), make(chan error, 1)
			response := sync.OnceFunc(func() { close(held) })
			defer response() // also after a failure: the server waits for its requests
			b.mu.Lock()
			b.held = held
			b.mu.Unlock()
			go func() { wrote <- b.send(http.MethodDelete) }()
			<-b.arrived
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			released := make(chan error, 1)
			go func() { released <- b.lock.Update(ctx, resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}) }()
			for waits := false; !waits; {
				select {
				case err := <-released:
					t.Fatalf("the lease was given away before the write was answered: %v", err)
				case <-time.After(time.Millisecond):
					b.Fence.mu.Lock()
					waits = b.idle != nil
					b.Fence.mu.Unlock()
				}
			}
			if !responded {
				stop()
				if err := <-released; !errors.Is(err, context.Canceled) || *b.lease.Spec.HolderIdentity != b.identity {
					t.Errorf("%q holds the lease, %v", *b.lease.Spec.HolderIdentity, err)
				}
			}
			response()
			if err := <-wrote; err != nil {
				t.Errorf("what was sent while the fence was open: %v", err)
			}
			if responded {
				if err := <-released; err != nil || *b.lease.Spec.HolderIdentity != "" {
					t.Errorf("%q holds the lease, %v", *b.lease.Spec.HolderIdentity, err)
				}
			}
			b.mu.Lock()
			b.held = nil
			b.mu.Unlock()
			b.opened(false)
		})
	}
}

func TestTheClockThatCountsMostDecides(t *testing.T) {
	for name, c := range map[string]struct {
		by   clockReading
		want bool
	}{
		"no time has passed":              {clockReading{}, true},
		"the process was stopped":         {clockReading{RenewDeadline, RenewDeadline, RenewDeadline}, false},
		"the machine was suspended":       {clockReading{0, RenewDeadline, RenewDeadline}, false},
		"the virtual machine was paused":  {clockReading{0, 0, RenewDeadline}, false},
		"the wall clock was set back":     {clockReading{time.Second, time.Second, -time.Hour}, true},
		"and later the deadline was over": {clockReading{RenewDeadline, RenewDeadline, -time.Hour}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.lead()
			b.now = c.by
			b.opened(c.want)
		})
	}
	clocks := systemClocks(time.Now())
	first := clocks()
	if second := clocks(); second.since(first) < 0 || second.since(first) > time.Minute {
		t.Errorf("the clocks of this machine: %+v, then %+v", first, second)
	}
}
