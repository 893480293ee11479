package kubernetes_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/targets/kubernetes"
)

// crowded is an API server whose priority and fairness refuses some requests.
type crowded struct {
	next http.RoundTripper

	mu sync.Mutex
	// refuse counts the requests that are yet to be refused.
	refuse int
	// open and most count the requests that were under way at once.
	open, most int
	last       map[string]time.Time
	// early are the requests that came again before the server's word.
	early []string
}

func (c *crowded) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.enter(r.Method + " " + r.URL.Path) {
		defer c.leave()
		resp := response(r, 429, "TooManyRequests", "The server is busy")
		resp.Header.Set("Retry-After", "1")
		return resp, nil
	}
	defer c.leave()
	return c.next.RoundTrip(r)
}

func (c *crowded) enter(request string) (refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.most = max(c.most, c.open)
	if at, before := c.last[request]; before && time.Since(at) < time.Second {
		c.early = append(c.early, request)
	}
	if refused = c.refuse > 0; refused {
		c.refuse--
		c.last[request] = time.Now()
	}
	return refused
}

func (c *crowded) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

func (c *crowded) begin(refusals int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse, c.last = refusals, map[string]time.Time{}
}

func TestAnAPIServerThatRefusesForAWhileIsNeitherStormedNorIsAnythingLost(t *testing.T) {
	server := &crowded{}
	b := newBench(t, func(c *kubernetes.Config) {
		c.REST.Wrap(func(next http.RoundTripper) http.RoundTripper {
			server.next = next
			return server
		})
	})
	var docs []string
	for i := range 40 {
		docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: $NS}", i))
	}
	declared := b.declare(docs...)
	p := b.plan(declared)
	if err := b.target.Begin(t.Context(), p.Changes); err != nil {
		t.Fatal(err)
	}
	server.begin(60)
	slots, errs := make(chan plan.Change, len(p.Changes)), make(chan error, len(p.Changes))
	for _, c := range p.Changes {
		slots <- c
	}
	close(slots)
	for range 16 {
		go func() {
			for c := range slots {
				errs <- b.target.Apply(t.Context(), c)
			}
		}()
	}
	for range p.Changes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	server.begin(3)
	if err := b.target.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.converged(declared)
	if server.refuse > 0 || server.most > 16 || len(server.early) > 0 {
		t.Errorf("%d refusals left, %d requests at once, came again too early: %v", server.refuse, server.most, server.early)
	}
}

func TestWhatIsRefusedForTooLongHasItsOwnReason(t *testing.T) {
	b := newBench(t)
	desired := b.want(b.declare(config))
	b.wire.failing(func(r *http.Request) (*http.Response, error) { return response(r, 429, "TooManyRequests", "busy"), nil })
	_, err := b.target.Observe(t.Context(), desired)
	if class, reason, _ := state.Classify(err); class != state.Retry || reason != "TooManyRequests" {
		t.Errorf("%s, %s: %v", class, reason, err)
	}
}

// stopped is a limiter whose share is used up.
type stopped struct{}

func (stopped) TryAccept() bool { return false }
func (stopped) Accept()         {}
func (stopped) Stop()           {}
func (stopped) QPS() float32    { return 0 }
func (stopped) Wait(context.Context) error {
	return fmt.Errorf("the share of reviews is used up")
}

func TestReviewsThatHaveUsedTheirShareLeaveTheApplyItsOwn(t *testing.T) {
	b := newBench(t)
	declared := b.declare(config)
	cfg := kubernetes.Config{REST: server, Sync: b.sync, Namespace: b.home, Preview: true, OnlyManaged: true, Limiter: stopped{}}
	review, err := kubernetes.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := review.Desired(t.Context(), declared); err == nil {
		t.Error("a review asks the API server though its share is used up")
	}
	b.reconcile(declared)
	b.converged(declared)
}
