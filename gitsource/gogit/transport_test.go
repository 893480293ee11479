package gogit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/poolwright/poolwright/gitsource"
)

// transports are the ways to a repository but ssh, which has faults of its own.
func transports() map[string]func(*testing.T) *gitServer {
	return map[string]func(*testing.T) *gitServer{
		"http and a password": func(t *testing.T) *gitServer {
			srv := newGitServer(t)
			srv.with = login("git", password)
			return srv
		},
		"https and a bearer token": func(t *testing.T) *gitServer {
			srv := newGitServer(t)
			srv.secure(nil, Credentials{BearerToken: password})
			return srv
		},
		"https and a certificate of the client": func(t *testing.T) *gitServer {
			srv := newGitServer(t)
			certificate, key := keyPair(t, "poolwright")
			srv.secure(certificate, Credentials{Certificate: certificate, PrivateKey: key})
			return srv
		},
		"https by a proxy": func(t *testing.T) *gitServer {
			srv := newGitServer(t)
			srv.secure(nil, Credentials{Username: "git", Password: password, Proxy: newProxy(t).url("ada", password)})
			return srv
		},
	}
}

// secure has the server be reached by https, with credentials; one with clients requires a
// certificate that they have signed.
func (s *gitServer) secure(clients []byte, cred Credentials) *httptest.Server {
	s.t.Helper()
	secure := httptest.NewUnstartedServer(s.Config.Handler)
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	if clients != nil {
		secure.TLS.ClientAuth, secure.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		secure.TLS.ClientCAs.AppendCertsFromPEM(clients)
	}
	secure.StartTLS()
	s.t.Cleanup(secure.Close)
	cred.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	s.secured = secure
	s.with = func(c *Config) {
		c.URL = secure.URL + "/repo.git"
		using(cred)(c)
	}
	return secure
}

// proxy is a proxy for https that requires a user name and a password, where it has some.
type proxy struct {
	*httptest.Server
	login    string
	connects atomic.Int32
	mu       sync.Mutex
	// headers is all that it was sent in the clear.
	headers []string
	// instead handles requests, where it is set.
	instead http.HandlerFunc
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{login: "ada:" + password}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *proxy) url(user, secret string) *url.URL {
	u, _ := url.Parse(p.URL)
	if user != "" {
		u.User = url.UserPassword(user, secret)
	}
	return u
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	for name, values := range r.Header {
		p.headers = append(p.headers, name+": "+strings.Join(values, " "))
	}
	instead := p.instead
	p.mu.Unlock()
	switch {
	case instead != nil:
		instead(w, r)
	case r.Method != http.MethodConnect:
		http.Error(w, password, http.StatusMethodNotAllowed)
	case p.login != "" && r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte(p.login)):
		http.Error(w, password, http.StatusProxyAuthRequired)
	default:
		p.connects.Add(1)
		p.tunnel(w, r.Host)
	}
}

func (p *proxy) tunnel(w http.ResponseWriter, host string) {
	server, err := net.Dial("tcp", host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, sent, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(server, sent); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(client, server); ended <- struct{}{} }()
	<-ended
}

// TestAProxyGetsItsOwnCredentialsAlone: what is for the server is encrypted for it, and what is for the proxy ends there.
func TestAProxyGetsItsOwnCredentialsAlone(t *testing.T) {
	const proxyPassword = "pr0xy-" + password
	srv, p := newGitServer(t), newProxy(t)
	p.login = "ada:" + proxyPassword
	commit := srv.push("a.yaml", "one\n")
	srv.secure(nil, Credentials{Username: "git", Password: password, Proxy: p.url("ada", proxyPassword)})
	var leaked atomic.Bool
	srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if u, secret, _ := r.BasicAuth(); u != "git" || secret != password || r.Header.Get("Proxy-Authorization") != "" {
			leaked.Store(true)
		}
		next.ServeHTTP(w, r)
	})
	if snap := mustFetch(t, srv.source(Ref{})); snap.Commit != commit || p.connects.Load() == 0 {
		t.Errorf("commit %s, by %d connections of the proxy", snap.Commit, p.connects.Load())
	}
	if leaked.Load() {
		t.Error("the server got other credentials than its own")
	}
	for _, h := range p.headers {
		if strings.Contains(h, base64.StdEncoding.EncodeToString([]byte("git:"+password))) || strings.HasPrefix(h, "Authorization") {
			t.Errorf("the proxy got %s", h)
		}
	}
	// Plain http, which goes to this machine alone, is by no proxy.
	before := p.connects.Load()
	plain := srv.source(Ref{}, func(c *Config) { c.URL = srv.Server.URL + "/repo.git" })
	mustFetch(t, plain)
	if p.connects.Load() != before || len(p.headers) > 0 && strings.Contains(strings.Join(p.headers, "\n"), "upload-pack") {
		t.Error("the proxy was used for plain http")
	}
}

func TestABrokenProxyKeepsTheLastSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		instead http.HandlerFunc
		want    error
		text    string
	}{
		"it requires other credentials": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, password, http.StatusProxyAuthRequired) }, gitsource.ErrUnauthorized, "proxySecretRef"},
		"it forbids the server":         {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, password, http.StatusForbidden) }, gitsource.ErrUnreachable, "status 403"},
		"it does not reach the server":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, password, http.StatusBadGateway) }, gitsource.ErrUnreachable, "status 502"},
		"it throttles":                  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, password, http.StatusTooManyRequests) }, gitsource.ErrUnreachable, "status 429"},
		"it closes the connection":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, gitsource.ErrUnreachable, ""},
		"it never responds":             {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, gitsource.ErrUnreachable, ""},
		"it is no proxy":                {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, password) }, gitsource.ErrUnreachable, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, p := newGitServer(t), newProxy(t)
			srv.secure(nil, Credentials{BearerToken: password, Proxy: p.url("ada", password)})
			set := func(f http.HandlerFunc) func() {
				return func() {
					p.mu.Lock()
					defer p.mu.Unlock()
					p.instead = f
				}
			}
			keepsTheLastSnapshot(t, srv, c.want, set(c.instead), set(nil))
			set(c.instead)()
			_, err := srv.source(Ref{}, impatient).Fetch(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), password) {
				t.Errorf("the message is %v", err)
			}
		})
	}
	t.Run("it is down", func(t *testing.T) {
		srv, p := newGitServer(t), newProxy(t)
		srv.push("a.yaml", "one\n")
		srv.secure(nil, Credentials{BearerToken: password, Proxy: p.url("ada", password)})
		p.Close()
		fails(t, srv.source(Ref{}), gitsource.ErrUnreachable)
	})
	t.Run("it has an address of a metadata service", func(t *testing.T) {
		srv := newGitServer(t)
		srv.secure(nil, Credentials{BearerToken: password, Proxy: &url.URL{Scheme: "http", Host: "169.254.169.254:80"}})
		fails(t, srv.source(Ref{}), gitsource.ErrUnreachable)
	})
}

// TestAReplacedProxyIsUsedAtOnce changes only the Secret of the proxy.
func TestAReplacedProxyIsUsedAtOnce(t *testing.T) {
	srv, first, second := newGitServer(t), newProxy(t), newProxy(t)
	srv.push("a.yaml", "one\n")
	srv.secure(nil, Credentials{})
	proxyURL := first.url("ada", password)
	var with Config
	srv.with(&with)
	cred, err := with.Credentials(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	src := srv.source(Ref{}, func(c *Config) {
		c.Credentials = func(context.Context) (Credentials, error) { cred.Proxy = proxyURL; return cred, nil }
	})
	mustFetch(t, src)
	proxyURL = second.url("ada", password)
	mustFetch(t, src)
	if first.connects.Load() != 1 || second.connects.Load() != 1 {
		t.Errorf("%d and %d connections", first.connects.Load(), second.connects.Load())
	}
	proxyURL = second.url("ada", "wrong-"+password)
	fails(t, src, gitsource.ErrUnauthorized)
}

// TestCredentialsDoNotFollowARedirectOfHTTPS to another host, of which the certificate is trusted.
func TestCredentialsDoNotFollowARedirectOfHTTPS(t *testing.T) {
	certificate, key := keyPair(t, "poolwright")
	p := newProxy(t)
	for name, cred := range map[string]Credentials{
		"a bearer token":              {BearerToken: password},
		"a certificate of the client": {Certificate: certificate, PrivateKey: key},
		"a proxy":                     {Username: "git", Password: password, Proxy: p.url("ada", password)},
	} {
		for _, at := range []string{"/info/refs", "/git-upload-pack"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				srv := newGitServer(t)
				srv.push("a.yaml", "one\n")
				secure := srv.secure(nil, cred)
				var visits atomic.Int32
				elsewhere := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
				elsewhere.TLS = &tls.Config{Certificates: secure.TLS.Certificates, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
				elsewhere.StartTLS()
				defer elsewhere.Close()
				srv.during(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					if strings.HasSuffix(r.URL.Path, at) {
						http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
						return
					}
					next.ServeHTTP(w, r)
				})
				_, err := srv.source(Ref{}).Fetch(t.Context())
				if err == nil || visits.Load() > 0 || at == "/info/refs" && !errors.Is(err, gitsource.ErrRedirected) {
					t.Errorf("got %v, and %d visits to the other host", err, visits.Load())
				}
			})
		}
	}
}

func TestNoProxyIsPrinted(t *testing.T) {
	u, _ := url.Parse("http://ada:" + password + "@proxy.example.com")
	c := Credentials{Proxy: u}
	if text := c.String() + c.GoString(); strings.Contains(text, password) {
		t.Error(text)
	}
}
