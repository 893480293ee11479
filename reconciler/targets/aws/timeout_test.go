package aws

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
	"github.com/poolwright/poolwright/reconciler/targets/aws/internal/connection"
)

// silence lets the requests to one service wait for their end.
type silence struct {
	next          *wire
	service       string
	desiredCalled atomic.Int32
}

func (s *silence) Do(r *http.Request) (*http.Response, error) {
	if s.service == "" || !strings.Contains(r.Header.Get("Authorization"), "/"+s.service+"/aws4_request") {
		return s.next.Do(r)
	}
	s.desiredCalled.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAServiceThatDoesNotRespondGetsOneRequestPerObservation(t *testing.T) {
	expectNoReport := &silence{}
	b := newBench(t, nil, func(c *Config) {
		inner := c.AWS
		c.AWS = func(ctx context.Context, region string) (sdk.Config, error) {
			cfg, err := inner(ctx, region)
			expectNoReport.next = cfg.HTTPClient.(*wire)
			cfg.HTTPClient = expectNoReport
			return cfg, err
		}
	})
	declared := b.declare(queued(deleting))
	b.reconcile(declared)
	b.plan(declared)
	b.target.pool.Timeout = 300 * time.Millisecond
	expectNoReport.service = "events"
	p := b.plan(declared)
	// Five rules in as many requests at least, one after the other.
	if n := expectNoReport.desiredCalled.Load(); n != 1 || len(p.Unknown) != 5 || p.Unchanged != 1 || len(p.Changes) > 0 {
		t.Errorf("asked %d times: %s", n, show(p))
	}
	for _, u := range p.Unknown {
		if !strings.Contains(u.Reason, "EventBridge in us-east-1") || !strings.Contains(u.Reason, "did not respond in time") {
			t.Errorf("%s: %s", u.Key, u.Reason)
		}
	}
	expectNoReport.service = ""
	b.converged(declared)
}

func TestAnObservationHasATimeout(t *testing.T) {
	ctx, cancel := connection.WithDeadline(t.Context())
	defer cancel()
	if at, bounded := ctx.Deadline(); !bounded || time.Until(at) > 30*time.Second {
		t.Errorf("until %s", at)
	}
}

func TestEachAttemptChecksWhetherItMayWrite(t *testing.T) {
	stale := false
	b := newBench(t, nil, func(c *Config) {
		c.Begin = func() (func(), error) {
			if stale {
				return nil, errors.New("the lease was lost")
			}
			return func() {}, nil
		}
		inner := c.AWS
		c.AWS = func(ctx context.Context, region string) (sdk.Config, error) {
			cfg, err := inner(ctx, region)
			cfg.RetryMaxAttempts = 3
			cfg.HTTPClient = after{cfg.HTTPClient.(*wire), func(r *http.Request) {
				if strings.HasSuffix(r.Header.Get("X-Amz-Target"), "CreateQueue") {
					stale = true
				}
			}}
			return cfg, err
		}
	})
	p := b.plan(b.declare(queued(deleting)))
	defer b.fault(sandboxaws.Fault{Service: "sqs", Operation: "CreateQueue", Throttle: true})()
	for _, c := range p.Changes {
		if c.Key.Kind != "Queue" {
			continue
		}
		if err := b.target.Apply(t.Context(), c); err == nil || !strings.Contains(err.Error(), "the lease was lost") {
			t.Errorf("got %v", err)
		}
	}
	if w := b.writes(); len(w) != 1 {
		t.Errorf("sent: %v", w)
	}
}

// after calls then after each answer.
type after struct {
	next *wire
	then func(*http.Request)
}

func (a after) Do(r *http.Request) (*http.Response, error) {
	defer a.then(r)
	return a.next.Do(r)
}
