// Package remote is the server's side of a Git repository, reached over https or ssh: its
// references, its capabilities and the packs that it sends. It refuses other URLs, redirects
// to another host, addresses of instance metadata services, host keys of ssh servers that are
// not listed, and servers that send too much or nothing; its errors are those of gitsource and
// repeat no text that the server chose. For ssh nothing of this machine is read, neither its
// environment nor a configuration, key or agent. Start reading at Remote.Open and
// Connection.Fetch.
package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/poolwright/poolwright/gitsource"
)

// Limits bound what the server may send.
type Limits struct {
	// PackBytes is the size of one transfer, in bytes.
	PackBytes int64
	// IdleTimeout is how long the server may send nothing.
	IdleTimeout time.Duration
}

// responseBytes bounds a response that is a pack, with capacity for the framing.
func (l Limits) responseBytes() int64 { return l.PackBytes + l.PackBytes/32 + 1<<20 }

// Remote is the server's side of one repository. It is safe for concurrent use.
type Remote struct {
	url         *url.URL
	credentials func(context.Context) (Credentials, error)
	limits      Limits

	mu        sync.Mutex
	client    *http.Client
	clientSum [sha256.Size]byte
	// identity is the key that was parsed last.
	identity parsedIdentity
}

// New connects to nothing. u is one that ParseURL has accepted; credentials, which may be nil,
// is called at each Open, so that a rotated secret is used without a restart.
func New(u *url.URL, credentials func(context.Context) (Credentials, error), limits Limits) *Remote {
	return &Remote{url: u, credentials: credentials, limits: limits}
}

// Name is the URL for messages, without the user of ssh. ParseURL has refused passwords and
// queries, so that nothing in it is secret.
func (r *Remote) Name() string {
	u := *r.url
	u.User = nil
	return u.String()
}

// Connection is one exchange with the server: the references as the server listed them, and
// what is needed to fetch objects.
type Connection struct {
	session uploadSession
	adv     *packp.AdvRefs
	// errors holds the first fault of the connection itself, which go-git's
	// errors do not always carry.
	errors *errorRecorder
	// authenticated is true where credentials for the server were sent.
	authenticated bool
	// secrets are what must not appear in any message.
	secrets []string
}

// uploadSession requests objects of the server.
type uploadSession interface {
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	Close() error
}

// Close ends the exchange. Connections by https stay open for the next one.
func (c *Connection) Close() { _ = c.session.Close() }

// Open lists the references of the server. The Connection is to be closed; one by ssh ends
// with ctx, too.
func (r *Remote) Open(ctx context.Context) (*Connection, error) {
	var cred Credentials
	if r.credentials != nil {
		var err error
		if cred, err = r.credentials(ctx); err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
	}
	if r.url.Scheme == "ssh" {
		return r.openSSH(ctx, cred)
	}
	return r.openHTTP(ctx, cred)
}

// openHTTP lists the references of a server that is reached by http or https.
func (r *Remote) openHTTP(ctx context.Context, cred Credentials) (*Connection, error) {
	client, err := r.httpClient(cred)
	if err != nil {
		return nil, err
	}
	endpoint, err := transport.NewEndpoint(r.url.String())
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be parsed", gitsource.ErrInvalid)
	}
	tr := githttp.NewClientWithOptions(client, &githttp.ClientOptions{RedirectPolicy: githttp.FollowInitialRedirects})
	ups, err := tr.NewUploadPackSession(endpoint, cred.httpAuth())
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	s := &Connection{session: ups, errors: &errorRecorder{}, authenticated: cred.Password != "" || cred.BearerToken != "", secrets: cred.secrets()}
	s.adv, err = ups.AdvertisedReferencesContext(withErrorRecorder(ctx, s.errors))
	if err != nil {
		return nil, s.classify(ctx, "listing references", err)
	}
	return s, nil
}

// httpAuth is what a request by https is authenticated with; nil for none.
func (c Credentials) httpAuth() transport.AuthMethod {
	switch {
	case c.BearerToken != "":
		return &githttp.TokenAuth{Token: c.BearerToken}
	case c.Password != "" || c.Username != "":
		// Servers that take a token as the password ignore the name, but not its absence.
		return &githttp.BasicAuth{Username: cmp.Or(c.Username, "git"), Password: c.Password}
	}
	return nil
}

// httpClient keeps one client, and so its connections, until the certificates of either
// side or the proxy change.
func (r *Remote) httpClient(cred Credentials) (*http.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := cred.clientSum()
	if r.client != nil && sum == r.clientSum {
		return r.client, nil
	}
	client, err := newHTTPClient(r.url, cred, r.limits)
	if err != nil {
		return nil, err
	}
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	r.client, r.clientSum = client, sum
	return client, nil
}
