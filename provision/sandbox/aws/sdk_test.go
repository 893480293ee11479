package aws_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	sandboxaws "github.com/poolwright/poolwright/provision/sandbox/aws"
)

// fixture is a cloud behind a server, with a clock that stands still and the
// real clients.
type fixture struct {
	cloud *sandboxaws.Cloud
	clock *fakeClock
	cfg   sdk.Config

	ec2     *ec2.Client
	eks     *eks.Client
	iam     *iam.Client
	pricing *pricing.Client
	sqs     *sqs.Client
	ssm     *ssm.Client
	sts     *sts.Client

	cloudGroup string // id of a security group
}

// newFixture has no delays unless change sets them.
func newFixture(t *testing.T, change func(*sandboxaws.Config)) *fixture {
	t.Helper()
	cfg := sandboxaws.DefaultConfig()
	clock := newFakeClock()
	cfg.Clock, cfg.Delays.Fleet, cfg.Delays.Response = clock, 0, 0
	if change != nil {
		change(&cfg)
	}
	cloud, err := sandboxaws.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	c := sdk.Config{
		Region: cfg.Region, BaseEndpoint: sdk.String(server.URL), RetryMaxAttempts: 1, HTTPClient: wholeResponses{t, cloud, server.Client()},
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: "EMULATED", SecretAccessKey: "EMULATED"}, nil
		}),
	}
	return &fixture{cloud: cloud, clock: clock, cfg: c, ec2: ec2.NewFromConfig(c), eks: eks.NewFromConfig(c), iam: iam.NewFromConfig(c),
		pricing: pricing.NewFromConfig(c), sqs: sqs.NewFromConfig(c), ssm: ssm.NewFromConfig(c), sts: sts.NewFromConfig(c)}
}

// wholeResponses reads answers to their end. The SDK closes a request's body as
// soon as an answer begins; where that comes before the transport is done with
// the body, which only happens on loopback, the transport drops the connection
// with the rest of the answer. The SDK would retry, but these tests count.
// Each answer is held against the SDK's model, too.
type wholeResponses struct {
	t      *testing.T
	cloud  *sandboxaws.Cloud
	client *http.Client
}

func (w wholeResponses) Do(r *http.Request) (*http.Response, error) {
	var sent []byte
	if r.Body != nil {
		var err error
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	response, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if service, op := w.cloud.Named(r, sent); response.StatusCode == http.StatusOK && op != "" {
		decoding().conform(w.t, service, op, body)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// code is the AWS error code, "" without an error.
func code(err error) string {
	var api smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &api):
		return api.ErrorCode()
	}
	return "no AWS error: " + err.Error()
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("error code %q, want %q (%v)", got, want, err)
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeClock goes on only when told to.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
	added  chan struct{} // closed and replaced at every AfterFunc
}

type fakeTimer struct {
	at time.Time
	f  func()
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), added: make(chan struct{})}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{c.now.Add(d), f}
	c.timers = append(c.timers, t)
	close(c.added)
	c.added = make(chan struct{})
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := len(c.timers)
		c.timers = slices.DeleteFunc(c.timers, func(o *fakeTimer) bool { return o == t })
		return len(c.timers) < n
	}
}

// advance moves the time on and runs what has come due, in order.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	c.mu.Unlock()
	for {
		c.mu.Lock()
		var next *fakeTimer
		for _, t := range c.timers {
			if !t.at.After(end) && (next == nil || t.at.Before(next.at)) {
				next = t
			}
		}
		if next == nil {
			c.now = end
			c.mu.Unlock()
			return
		}
		c.timers = slices.DeleteFunc(c.timers, func(o *fakeTimer) bool { return o == next })
		if next.at.After(c.now) {
			c.now = next.at
		}
		c.mu.Unlock()
		next.f()
	}
}

// waitTimers returns once n timers are set.
func (c *fakeClock) waitTimers(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		c.mu.Lock()
		have, added := len(c.timers), c.added
		c.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-added:
		case <-deadline:
			t.Fatalf("%d timers are set, waited for %d", have, n)
		}
	}
}
