package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/internal/dial"
)

// errStalled ends a download in which the server sends nothing.
var errStalled = errors.New("the server sent nothing for too long")

// redirects is how many redirects of one server are followed.
const redirects = 5

// newClient makes a client that follows no redirect to another host, and connects to no link-local address.
// It uses no proxy: artifacts are served inside the cluster.
func newClient() *http.Client {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error {
			_, err := dial.Check(address)
			return err
		},
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			DisableKeepAlives:      true, // There is one request for an artifact, which lasts until the next commit.
			DisableCompression:     true, // The digest is that of what is sent.
		},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			from := via[0].URL
			if !strings.EqualFold(from.Scheme, to.URL.Scheme) || !strings.EqualFold(from.Host, to.URL.Host) {
				return fmt.Errorf("%w: %s://%s", gitsource.ErrRedirected, to.URL.Scheme, to.URL.Host)
			}
			if len(via) > redirects {
				return fmt.Errorf("%w: it redirects without end", gitsource.ErrUnreachable)
			}
			return nil
		},
	}
}

// get downloads an archive, and returns an error unless it has the digest.
func (s *Source) get(ctx context.Context, address, digest string, into io.Writer) error {
	if err := checkURL(address); err != nil {
		return err
	}
	sum, expected, err := parseDigest(digest)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(s.limits.IdleTimeout, func() { cancel(errStalled) })
	defer idle.Stop()
	body, err := s.open(ctx, address)
	if err != nil {
		return err
	}
	defer body.Close()
	n, err := io.Copy(io.MultiWriter(into, sum), &progress{io.LimitReader(body, s.limits.ArchiveBytes+1), func() { idle.Reset(s.limits.IdleTimeout) }})
	switch {
	case err != nil:
		return unreachable(ctx, err)
	case n > s.limits.ArchiveBytes:
		return tooLarge(s.limits)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != expected {
		return fmt.Errorf("%w: what its server sends does not have the digest %s; nothing of it was read", gitsource.ErrCorrupt, digest)
	}
	return nil
}

func tooLarge(limits Limits) error {
	return fmt.Errorf("%w: the archive has more than %d MiB", gitsource.ErrLimit, limits.ArchiveBytes>>20)
}

// open is the body of the response, which is one of a file.
func (s *Source) open(ctx context.Context, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: its URL is not valid", gitsource.ErrInvalid)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	refused := error(nil)
	switch {
	case response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone:
		refused = fmt.Errorf("%w: its server does not have it, or does not have it any more", gitsource.ErrArtifact)
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		refused = fmt.Errorf("%w: its server responded with status %d, and no credentials are sent for an artifact; where its URL has expired, reconcile the source in Flux, and else have it served without them", gitsource.ErrArtifact, response.StatusCode)
	case response.StatusCode != http.StatusOK:
		refused = fmt.Errorf("%w: its server responded with status %d", gitsource.ErrUnreachable, response.StatusCode)
	case response.ContentLength > s.limits.ArchiveBytes:
		refused = tooLarge(s.limits)
	}
	if refused != nil {
		return nil, errors.Join(refused, response.Body.Close())
	}
	return response.Body, nil
}

// unreachable classifies the errors of a request. Its message has no URL, whose query may be a credential.
func unreachable(ctx context.Context, err error) error {
	if requested, ok := errors.AsType[*url.Error](err); ok {
		err = requested.Err
	}
	for _, known := range []error{gitsource.ErrRedirected, gitsource.ErrStorage, gitsource.ErrUnreachable} {
		if errors.Is(err, known) {
			return err
		}
	}
	if errors.Is(err, dial.ErrForbidden) {
		return fmt.Errorf("%w: its URL leads to a link-local address or one of an instance metadata service", gitsource.ErrInvalid)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
		return fmt.Errorf("%w: %w; where the server is behind a network policy, as Flux's, it has to admit this namespace", gitsource.ErrUnreachable, err)
	}
	return fmt.Errorf("%w: %w", gitsource.ErrUnreachable, err)
}

// checkURL refuses what is not the address of a file on a server of HTTP.
func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return fmt.Errorf("%w: the URL of the artifact is not of the form http://host/path", gitsource.ErrInvalid)
	}
	return nil
}

// parseDigest takes algorithm:hex apart, by the algorithms of source-controller's --artifact-digest-algo
// that the standard library has.
func parseDigest(digest string) (hash.Hash, string, error) {
	algorithm, expected, _ := strings.Cut(digest, ":")
	sum := map[string]func() hash.Hash{"sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New}[algorithm]
	if sum == nil {
		return nil, "", fmt.Errorf("%w: its digest is by algorithm %q, and not by sha256, sha384 or sha512", gitsource.ErrInvalid, algorithm)
	}
	h := sum()
	if b, err := hex.DecodeString(expected); err != nil || len(b) != h.Size() || strings.ToLower(expected) != expected {
		return nil, "", fmt.Errorf("%w: its digest is not one of %s", gitsource.ErrInvalid, algorithm)
	}
	return h, expected, nil
}

// progress calls a function for each read that returned something.
type progress struct {
	io.Reader
	read func()
}

// Read implements io.Reader.
func (p *progress) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if n > 0 {
		p.read()
	}
	return n, err
}
