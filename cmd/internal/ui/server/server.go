// Package server serves the pages of poolwright ui over HTTP, to one person who has the token.
//
// It serves GET and HEAD only and changes nothing. It refuses a request whose Host is not its own address, so that another site
// cannot read it by DNS rebinding, and one without the cookie for which the token is exchanged once. Start reading at New.
package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"

	"github.com/poolwright/poolwright/cmd/internal/explain"
	"github.com/poolwright/poolwright/cmd/internal/get"
	"github.com/poolwright/poolwright/cmd/internal/ui/page"
	"github.com/poolwright/poolwright/reconciler/history"
)

// Documents are what the pages are made of.
type Documents interface {
	// Report is the document that get prints.
	Report(ctx context.Context) (get.Report, error)
	// Explain is the document that explain prints.
	Explain(ctx context.Context, object explain.Object) (explain.Explanation, error)
	// History is what is recorded of the cluster; the zero one where nothing is. It is not changed.
	History(ctx context.Context) (history.History, error)
	// Interrupted is what keeps reports from being up to date; nil where nothing does.
	Interrupted() *page.Interruption
}

// Config is what a server is made of.
type Config struct {
	Documents Documents
	// Namespace is that of the history, and of the Syncs in it.
	Namespace string
	// Changed receives when documents may differ from those before.
	Changed <-chan struct{}
	// Hosts are the values of the header Host that are served, as host:port.
	Hosts []string
	// Port distinguishes the cookie from that of another server on the same host.
	Port string
	Now  func() time.Time
}

// Server serves the pages.
type Server struct {
	Config
	hub    *hub
	pages  *page.Renderer
	cookie string
	// end ends the streams.
	end context.CancelFunc
	// reused is closed when the token is used a second time.
	reused chan struct{}

	mu sync.Mutex
	// token and session are hashes of the secrets; session is empty until the token was exchanged.
	token, session []byte
	// refused is whether the token was used a second time: nothing is served any more.
	refused bool
}

// New makes a server, and the token for which it gives its cookie once. Until the context ends it renders the pages that somebody
// reads. The error is of the templates.
func New(ctx context.Context, cfg Config) (s *Server, token string, err error) {
	pages, err := page.NewRenderer()
	if err != nil {
		return nil, "", err
	}
	ctx, end := context.WithCancel(ctx)
	token = rand.Text()
	s = &Server{Config: cfg, pages: pages, cookie: "poolwright-" + cfg.Port, end: end, reused: make(chan struct{}), token: hash(token)}
	s.hub = newHub(ctx, s)
	return s, token, nil
}

// Reused is closed when the token was used a second time, by somebody without the cookie: two have the token, of whom one should not.
// From then on nothing is served, and who runs the server ends it.
func (s *Server) Reused() <-chan struct{} { return s.reused }

// hash is what of a secret is kept and compared.
func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// exchange returns the value of the cookie for the token, once. A second use ends the session of the first.
func (s *Server) exchange(token string) (session string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.refused || subtle.ConstantTimeCompare(s.token, hash(token)) != 1:
		return "", false
	case len(s.session) > 0:
		s.session, s.refused = nil, true
		close(s.reused)
		s.end()
		return "", false
	}
	session = rand.Text()
	s.session = hash(session)
	return session, true
}

// authenticated reports whether a request has the cookie.
func (s *Server) authenticated(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.CookiesNamed(s.cookie) {
		if len(s.session) > 0 && subtle.ConstantTimeCompare(s.session, hash(c.Value)) == 1 {
			return true
		}
	}
	return false
}
