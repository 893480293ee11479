package gogit

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/poolwright/poolwright/gitsource"
)

// remote is the server's side of one repository.
type remote struct {
	url         *url.URL
	credentials func(context.Context) (Credentials, error)
	limits      Limits

	mu     sync.Mutex
	client *http.Client
	caSum  [sha256.Size]byte
}

func newRemote(u *url.URL, credentials func(context.Context) (Credentials, error), limits Limits) *remote {
	return &remote{url: u, credentials: credentials, limits: limits}
}

// name is the URL as messages show it. parseURL has refused user info and
// queries, so that nothing in it is secret.
func (r *remote) name() string { return r.url.String() }

// remoteConnection is one exchange with the server: the references as the server listed them, and
// what is needed to ask for objects.
type remoteConnection struct {
	transport.UploadPackSession
	adv *packp.AdvRefs
	// errors holds the first fault of the connection itself, which go-git's
	// errors do not always carry.
	errors *errorRecorder
	// secret is what must not appear in any message.
	secret string
}

// open asks the server for its references.
func (r *remote) open(ctx context.Context) (*remoteConnection, error) {
	var cred Credentials
	if r.credentials != nil {
		var err error
		if cred, err = r.credentials(ctx); err != nil {
			return nil, fmt.Errorf("reading the credentials: %w", err)
		}
	}
	client, err := r.httpClient(cred.CABundle)
	if err != nil {
		return nil, err
	}
	endpoint, err := transport.NewEndpoint(r.url.String())
	if err != nil {
		return nil, fmt.Errorf("%w: the URL is not understood", gitsource.ErrInvalid)
	}
	var auth transport.AuthMethod
	if cred.Password != "" || cred.Username != "" {
		user := cred.Username
		if user == "" {
			user = "git" // servers that take a token as the password ignore the name, but not its absence
		}
		auth = &githttp.BasicAuth{Username: user, Password: cred.Password}
	}
	tr := githttp.NewClientWithOptions(client, &githttp.ClientOptions{RedirectPolicy: githttp.FollowInitialRedirects})
	ups, err := tr.NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	s := &remoteConnection{UploadPackSession: ups, errors: &errorRecorder{}, secret: cred.Password}
	s.adv, err = ups.AdvertisedReferencesContext(withErrorRecorder(ctx, s.errors))
	if err != nil {
		return nil, s.classify(ctx, "listing references", err)
	}
	return s, nil
}

// httpClient keeps one client, and so its connections, until the trusted
// certificates change.
func (r *remote) httpClient(ca []byte) (*http.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := sha256.Sum256(ca)
	if r.client != nil && sum == r.caSum {
		return r.client, nil
	}
	client, err := newHTTPClient(r.url, ca, r.limits)
	if err != nil {
		return nil, err
	}
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
	r.client, r.caSum = client, sum
	return client, nil
}

// transfer asks for want, given that have is already held, and writes the
// answer as one pack. It reports whether only the
// newest commit arrived.
func (s *Source) transfer(ctx context.Context, sess *remoteConnection, want plumbing.Hash, have record, to *store) (bool, error) {
	req := packp.NewUploadPackRequestFromCapabilities(sess.adv.Capabilities)
	shallow := s.wants(req, sess.adv, want)
	if have.Object != "" {
		h := plumbing.NewHash(have.Object)
		req.Haves = []plumbing.Hash{h}
		if have.Shallow && shallow {
			req.Shallows = []plumbing.Hash{h}
		} else if have.Shallow {
			// Without the shallow capability the server would take have for
			// the whole of its history.
			req.Haves = nil
		}
	}
	askThin(req, sess.adv)
	return shallow, sess.fetch(ctx, req, to, s.limits)
}

// fetch sends a request and keeps the answer as one pack.
func (s *remoteConnection) fetch(ctx context.Context, req *packp.UploadPackRequest, to *store, limits Limits) error {
	res, err := s.UploadPack(withErrorRecorder(ctx, s.errors), req)
	if err != nil {
		return s.classify(ctx, "asking for objects", err)
	}
	defer res.Close()
	return s.receive(ctx, demux(req, res), to, limits)
}

// wants fills in what to ask for: the one object at depth 1 where the server
// allows it, else everything that its branches and tags reach, so that a
// commit can be found in there.
func (s *Source) wants(req *packp.UploadPackRequest, adv *packp.AdvRefs, want plumbing.Hash) bool {
	req.Wants = []plumbing.Hash{want}
	if s.ref.Commit != "" && !advertised(adv, want) &&
		!adv.Capabilities.Supports(capability.AllowReachableSHA1InWant) {
		req.Wants = nil
		seen := map[plumbing.Hash]bool{}
		for name, h := range adv.References {
			if (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")) && !seen[h] {
				seen[h] = true
				req.Wants = append(req.Wants, h)
			}
		}
		if len(req.Wants) > 0 {
			return false
		}
		req.Wants = []plumbing.Hash{want}
	}
	if !adv.Capabilities.Supports(capability.Shallow) {
		return false
	}
	req.Depth = packp.DepthCommits(1)
	// Set fails only for capabilities with arguments.
	_ = req.Capabilities.Set(capability.Shallow)
	return true
}

func advertised(adv *packp.AdvRefs, h plumbing.Hash) bool {
	for _, r := range adv.References {
		if r == h {
			return true
		}
	}
	return false
}

func demux(req *packp.UploadPackRequest, res io.Reader) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// receive writes the pack to a temporary file, checks and indexes it there,
// and gives it its name last. A pack that announces too many objects is not
// read further.
func (s *remoteConnection) receive(ctx context.Context, pack io.Reader, to *store, limits Limits) error {
	f, err := to.create()
	if err != nil {
		return fmt.Errorf("writing the mirror: %w", err)
	}
	defer f.discard()
	in := bufio.NewReader(io.LimitReader(pack, limits.PackBytes+1))
	if head, err := in.Peek(packHeader); err == nil && announced(head) > int64(limits.Objects) {
		return tooManyObjects(limits)
	}
	w := &faultyWriter{w: f}
	n, err := io.Copy(w, in)
	switch {
	case w.err != nil:
		return fmt.Errorf("writing the mirror: %w", w.err)
	case err != nil:
		return s.classify(ctx, "receiving objects", err)
	case n > limits.PackBytes:
		return tooManyBytes(limits)
	}
	if err := installPack(ctx, f, limits); err != nil {
		// An incomplete pack is the connection's fault where that had one.
		if cause := s.errors.fault(); cause != nil && errors.Is(err, gitsource.ErrCorrupt) {
			return s.classify(ctx, "receiving objects", cause)
		}
		return err
	}
	return nil
}

func tooManyBytes(limits Limits) error {
	return fmt.Errorf("%w: the newest tree takes more than %d MiB to transfer", gitsource.ErrLimit, limits.PackBytes>>20)
}

// faultyWriter tells a full disk from a broken connection.
type faultyWriter struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (w *faultyWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}
