package e2e

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// gitProxy stands between a controller and Gitea, so that one test's outage is
// nobody else's.
type gitProxy struct {
	t       *testing.T
	address string
	forward http.Handler

	mu     sync.Mutex
	server *http.Server
	fault  http.HandlerFunc
	// held is closed when requests that hang may end.
	held chan struct{}
	// requested counts the requests.
	requested int
	// waits counts those that hang.
	waits int
}

func newGitProxy(t *testing.T) *gitProxy {
	t.Helper()
	to, err := url.Parse(sharedEnv.Git.URL())
	if err != nil {
		t.Fatal(err)
	}
	p := &gitProxy{t: t, address: freeAddress(t), forward: &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	p.up()
	t.Cleanup(p.down)
	return p
}

func (p *gitProxy) url() string { return "http://" + p.address }

// up listens, at the same address as before.
func (p *gitProxy) up() {
	p.t.Helper()
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		p.t.Fatal(err)
	}
	server := &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address, p.server = listener.Addr().String(), server
	go func() { _ = server.Serve(listener) }()
}

// down refuses connections and breaks those that there are.
func (p *gitProxy) down() {
	p.mend()
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.server.Close()
}

// respond has requests answered otherwise until mend.
func (p *gitProxy) respond(fault http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// hang accepts requests and says nothing until mend.
func (p *gitProxy) hang() {
	held := make(chan struct{})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.fault = func(_ http.ResponseWriter, r *http.Request) {
		p.wait(1)
		defer p.wait(-1)
		select {
		case <-held:
		case <-r.Context().Done():
		}
	}
}

func (p *gitProxy) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits += n
}

// waiting is how many requests hang.
func (p *gitProxy) waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}

func (p *gitProxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
	p.fault = nil
}

func (p *gitProxy) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requested
}

func (p *gitProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.requested++
	p.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	p.forward.ServeHTTP(w, r)
}
