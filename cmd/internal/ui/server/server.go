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
)

// Documents are what the pages are made of.
type Documents interface {
	// Report is the document that get prints.
	Report(ctx context.Context) (get.Report, error)
	// Explain is the document that explain prints.
	Explain(ctx context.Context, object explain.Object) (explain.Explanation, error)
	// Interrupted is what keeps reports from being up to date; nil where nothing does.
	Interrupted() *page.Interruption
	// Changed receives when reports may differ from those before.
	Changed() <-chan struct{}
}

// History has the nodes that are gone. It is optional.
type History interface {
	// Lives are the nodes that ended since a time, in the order in which they were created.
	Lives(ctx context.Context, since time.Time) ([]page.NodeLife, error)
}

// Config is what a server is made of.
type Config struct {
	Documents Documents
	// History is nil where there is none.
	History History
	// Hosts are the values of the header Host that are served, as host:port.
	Hosts []string
	// Port distinguishes the cookie from that of another server on the same host.
	Port string
	Now  func() time.Time
}

// Server serves the pages.
type Server struct {
	Config
	hub *hub

	mu sync.Mutex
	// token and session are hashes of the secrets; token is empty once it was exchanged.
	token, session []byte
	cookie         string
}

// New makes a server, and the token for which it gives its cookie once. Until the context ends it renders the pages that somebody
// reads.
func New(ctx context.Context, cfg Config) (*Server, string) {
	s := &Server{Config: cfg, cookie: "poolwright-" + cfg.Port}
	s.hub = newHub(ctx, s)
	token := rand.Text()
	s.token = hash(token)
	return s, token
}

// hash is what of a secret is kept and compared.
func hash(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// exchange returns the value of the cookie for the token, once.
func (s *Server) exchange(token string) (session string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.token) == 0 || subtle.ConstantTimeCompare(s.token, hash(token)) != 1 {
		return "", false
	}
	session = rand.Text()
	s.token, s.session = nil, hash(session)
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
