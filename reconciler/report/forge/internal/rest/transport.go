// Package rest is how adapters of forges use HTTP: limits that forges set are kept,
// responses are bounded, credentials stay with their host and out of errors.
//
// It refuses redirects to another host, because the credential would go along,
// and redirects of writes, which would arrive as reads. Start reading at
// NewClient; Explain makes errors of responses.
package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

const (
	// requestTimeout bounds a call, response included.
	requestTimeout = 30 * time.Second
	// maxResponseBytes bounds a response. A page of 100 pull requests is some 2 MB, and
	// more only where their texts are long.
	maxResponseBytes = 32 << 20
	// minBackoff is how long to wait where a forge refuses for a limit without a time
	// until which; it doubles each time.
	minBackoff = time.Minute
	// maxBackoff bounds what a forge, or who poses as it, can make us wait.
	maxBackoff = time.Hour
)

// ErrTooLong is a response that has more bytes than a client reads.
var ErrTooLong = fmt.Errorf("the forge's response has more than %d bytes", maxResponseBytes)

// Transport keeps a credential's limits: after a response that there were too many
// requests, all further ones fail until the time that the forge named.
type Transport struct {
	base http.RoundTripper
	now  func() time.Time

	mu     sync.Mutex
	until  time.Time
	refuse int // refusals in a row that named no time
}

// NewTransport bounds base; nil stands for a transport of Go's defaults.
func NewTransport(base http.RoundTripper, now func() time.Time) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	return &Transport{base: base, now: now}
}

// NewClient uses the transport.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, Timeout: requestTimeout, CheckRedirect: sameHost}
}

func sameHost(request *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case request.URL.Host != first.URL.Host || request.URL.Scheme != first.URL.Scheme:
		return fmt.Errorf("the forge sends on to another host, %q: credentials stay with theirs; give the address of that host if it is right", request.URL.Host)
	case first.Method != http.MethodGet:
		return errors.New("the forge sends on a write: has the repository been renamed? Give its new name")
	case len(via) >= 5:
		return errors.New("the forge sends on without end")
	}
	return nil
}

// RoundTrip sends a request unless a limit forbids it, and records limits in the
// response. A limit is a *forge.Error with Until set.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if until := t.forbidden(); !until.IsZero() {
		closeBody(request)
		return nil, &forge.Error{Until: until}
	}
	response, err := t.base.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &bounded{ReadCloser: response.Body, remaining: maxResponseBytes}
	until, limited, err := t.limit(response)
	if err == nil && limited {
		err = &forge.Error{Code: response.StatusCode, Until: until}
	}
	if err != nil {
		return nil, errors.Join(err, response.Body.Close())
	}
	return response, nil
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close() // nothing was read from it
	}
}

func (t *Transport) forbidden() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.now().Before(t.until) {
		return t.until
	}
	return time.Time{}
}

// limit reads what a response has of limits: Retry-After, a primary limit used up until
// a time, or only text. It reports whether this response is itself refused for a limit.
func (t *Transport) limit(response *http.Response) (until time.Time, limited bool, err error) {
	now := t.now()
	usedUp := limitHeader(response.Header, "Remaining") == "0"
	wait, named := retryAfter(response.Header.Get("Retry-After"), now)
	limited, err = refusedForLimit(response, usedUp || named, named)
	if err != nil || !limited && !usedUp {
		t.record(time.Time{})
		return time.Time{}, false, err
	}
	switch reset, ok := resetTime(response.Header); {
	case named:
		until = now.Add(wait)
	case ok:
		until = reset.Add(time.Second) // its unit is a second
	case !limited: // used up, without a time until which
		return time.Time{}, false, nil
	default:
		until = now.Add(t.backoff())
	}
	if most := now.Add(maxBackoff); until.After(most) {
		until = most
	}
	if !until.After(now) && limited {
		until = now.Add(time.Second)
	}
	t.record(until)
	return until, limited, nil
}

// refusedForLimit distinguishes refusals for a limit, which hint shows, from others.
func refusedForLimit(response *http.Response, hint, named bool) (bool, error) {
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		return true, nil
	case http.StatusServiceUnavailable:
		return named, nil // maintenance
	case http.StatusForbidden:
		if hint {
			return true, nil
		}
		return isRateLimit(response)
	}
	return false, nil
}

// record notes a limit; the zero time is a response that has none.
func (t *Transport) record(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.IsZero() {
		t.refuse = 0
		return
	}
	if until.After(t.until) {
		t.until = until
	}
}

// backoff grows with each refusal that names no time.
func (t *Transport) backoff() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refuse = min(t.refuse+1, 10)
	return minBackoff << (t.refuse - 1)
}

// retryAfter reads seconds or a date.
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.Atoi(value); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int(maxBackoff/time.Second))) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(0, date.Sub(now)), true
	}
	return 0, false
}

// limitHeader is a header of a primary limit, which GitLab writes without X-.
func limitHeader(header http.Header, name string) string {
	if value := header.Get("X-RateLimit-" + name); value != "" {
		return value
	}
	return header.Get("RateLimit-" + name)
}

func resetTime(header http.Header) (time.Time, bool) {
	seconds, err := strconv.ParseInt(limitHeader(header, "Reset"), 10, 64)
	if err != nil || seconds <= 0 {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0), true
}

// isRateLimit reads a refusal: GitHub's secondary limits have status 403, as a missing permission has, and sometimes no header, so
// that only the message distinguishes them. What was read is put back.
func isRateLimit(response *http.Response) (bool, error) {
	const enough = 64 << 10
	start, err := io.ReadAll(io.LimitReader(response.Body, enough))
	if err != nil {
		return false, fmt.Errorf("reading a refusal: %w", err)
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), response.Body), response.Body}
	body := strings.ToLower(string(start))
	return strings.Contains(body, "rate limit") || strings.Contains(body, "abuse detection"), nil
}

// bounded fails when a response is longer than it may be.
type bounded struct {
	io.ReadCloser
	remaining int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.remaining)])
	b.remaining -= n
	return n, err
}
