package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/poolwright/poolwright/gitsource"
)

const (
	// referencesBytes bounds the list of references: half a million of them.
	referencesBytes = 32 << 20
	// maxErrorBody bounds the body of an error response, which is not shown.
	maxErrorBody = 4 << 10
)

// errStalled ends a conversation in which the server sends nothing.
var errStalled = errors.New("the server sent nothing for too long")

// errBrokenOff is what a bare EOF in place of a response means.
var errBrokenOff = errors.New("the server closed the connection without a response")

// newHTTPClient builds a client that connects to u's host only, with bounded responses.
func newHTTPClient(u *url.URL, cred Credentials, limits Limits) (*http.Client, error) {
	tlsConfig, err := cred.tlsConfig()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			return checkAddress(address, u.Scheme == "http")
		},
	}
	base := &http.Transport{
		Proxy:                  cred.proxy,
		OnProxyConnectResponse: proxyResponse,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    2,
		ForceAttemptHTTP2:      true,
		ExpectContinueTimeout:  time.Second,
	}
	return &http.Client{
		Transport: &boundedTransport{base: base, limits: limits},
		// go-git follows ten at most.
		CheckRedirect: func(req *http.Request, _ []*http.Request) error {
			return sameOrigin(u, req.URL)
		},
	}, nil
}

// proxy is by what a request is sent: the proxy that the Secret names, or else HTTPS_PROXY and NO_PROXY of
// the environment, which whoever deploys this decides. A proxy forwards what is encrypted for the server; plain
// http goes to this machine only, and never by a proxy.
func (c Credentials) proxy(request *http.Request) (*url.URL, error) {
	if c.Proxy == nil {
		return http.ProxyFromEnvironment(request)
	}
	if request.URL.Scheme == "http" {
		return nil, nil //nolint:nilnil // It stands for none, as of http.Transport.
	}
	return c.Proxy, nil
}

// proxyResponse refuses a connection that a proxy does not make, and repeats nothing of its response.
func proxyResponse(_ context.Context, _ *url.URL, _ *http.Request, response *http.Response) error {
	switch {
	case response.StatusCode == http.StatusOK:
		return nil
	case response.StatusCode == http.StatusProxyAuthRequired:
		return refuse(gitsource.ErrUnauthorized, "the proxy requires a user name and a password, or refuses those that are configured; put them as username and password into the Secret that proxySecretRef names")
	}
	return refuse(gitsource.ErrUnreachable, "the proxy does not connect to the server, with status %d %s", response.StatusCode, http.StatusText(response.StatusCode))
}

// sameOrigin refuses a redirect that leaves the configured server. Hosts that
// only correct the path (a renamed repository, a missing ".git") are followed.
func sameOrigin(from, to *url.URL) error {
	if !strings.EqualFold(from.Scheme, to.Scheme) || !strings.EqualFold(from.Hostname(), to.Hostname()) ||
		port(from) != port(to) {
		return fmt.Errorf("%w: %s://%s", gitsource.ErrRedirected, to.Scheme, to.Host)
	}
	return nil
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443", "ssh": "22"}[strings.ToLower(u.Scheme)]
}

// errorRecorder collects what happened on the wire during one session: go-git turns
// some of these errors into text.
type errorRecorder struct {
	mu     sync.Mutex
	err    error
	status int
	// certificate is true where the server has requested one of the client.
	certificate bool
}

type errorRecorderKey struct{}

func withErrorRecorder(ctx context.Context, t *errorRecorder) context.Context {
	return context.WithValue(ctx, errorRecorderKey{}, t)
}

func (t *errorRecorder) record(err error) {
	if t == nil || err == nil || errors.Is(err, io.EOF) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *errorRecorder) recordStatus(code int) {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.status = code
	}
}

func (t *errorRecorder) recordCertificateRequest() {
	if t != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.certificate = true
	}
}

func (t *errorRecorder) certificateRequested() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.certificate
}

func (t *errorRecorder) fault() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *errorRecorder) lastStatus() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// boundedTransport limits the size of every response and how long it may stall.
type boundedTransport struct {
	base   *http.Transport
	limits Limits
}

// CloseIdleConnections lets http.Client reach the base.
func (b *boundedTransport) CloseIdleConnections() { b.base.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (b *boundedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	t, _ := req.Context().Value(errorRecorderKey{}).(*errorRecorder)
	ctx, cancel := context.WithCancelCause(req.Context())
	watch := time.AfterFunc(b.limits.IdleTimeout, func() { cancel(errStalled) })
	res, err := b.base.RoundTrip(req.WithContext(ctx))
	watch.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if errors.Is(err, io.EOF) {
			err = errBrokenOff
		}
		cancel(nil)
		t.record(err)
		return nil, err
	}
	t.recordStatus(res.StatusCode)
	limit := b.limits.responseBytes()
	switch {
	case res.StatusCode >= 300:
		limit = maxErrorBody
	case strings.HasSuffix(req.URL.Path, "/info/refs"):
		limit = referencesBytes
	}
	res.Body = &boundedBody{
		body: res.Body, remaining: limit, truncate: res.StatusCode >= 300,
		ctx: ctx, cancel: cancel, watch: watch, stall: b.limits.IdleTimeout, recorder: t,
	}
	return res, nil
}

// boundedBody is a response's body under a size limit and a stall watch.
type boundedBody struct {
	body      io.ReadCloser
	remaining int64
	truncate  bool // end quietly at the limit: nobody needs the rest
	ctx       context.Context
	cancel    context.CancelCauseFunc
	watch     *time.Timer
	stall     time.Duration
	recorder  *errorRecorder
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.remaining <= 0 {
		if b.truncate {
			return 0, io.EOF
		}
		err := fmt.Errorf("%w: the server's response is too large", gitsource.ErrLimit)
		b.recorder.record(err)
		return 0, err
	}
	if int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	// Only the server's silence counts, not the time between two reads.
	b.watch.Reset(b.stall)
	n, err := b.body.Read(p)
	b.watch.Stop()
	b.remaining -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		if cause := context.Cause(b.ctx); cause != nil {
			err = cause
		}
		b.recorder.record(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	b.watch.Stop()
	err := b.body.Close()
	b.cancel(nil)
	return err
}
