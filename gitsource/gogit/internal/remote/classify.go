package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/poolwright/poolwright/gitsource"
)

// sourceError is an error of ssh that is one of gitsource's already, with a message that has the
// remedy and nothing that the server chose.
type sourceError struct{ err error }

// Error implements error.
func (r *sourceError) Error() string { return r.err.Error() }

// Unwrap makes it one of gitsource's errors.
func (r *sourceError) Unwrap() error { return r.err }

func refuse(kind error, format string, args ...any) error {
	return &sourceError{fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))}
}

// classify turns whatever came out of a conversation into one of gitsource's
// errors with a message that has the remedy. Text that the server chose is never
// repeated: it may echo the credentials.
func (c *Connection) classify(ctx context.Context, doing string, err error) error {
	cause := c.errors.fault()
	if cause == nil {
		cause = err
	}
	wrap := func(kind error, message string) error {
		return fmt.Errorf("%s: %w: %s", doing, kind, message)
	}
	if refused, ok := errors.AsType[*sourceError](cause); ok {
		return fmt.Errorf("%s: %w", doing, refused)
	}
	switch {
	case errors.Is(cause, gitsource.ErrRedirected), errors.Is(err, gitsource.ErrRedirected):
		return wrap(gitsource.ErrRedirected, "use the address that it points to as the URL, if you trust it")
	case errors.Is(cause, gitsource.ErrLimit):
		return wrap(gitsource.ErrLimit, "the server's response is too large")
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return wrap(gitsource.ErrEmpty, "push a commit")
	case errors.Is(err, transport.ErrAuthenticationRequired):
		if !c.authenticated {
			return wrap(gitsource.ErrUnauthorized, "the server requires credentials and none are configured; set secretRef, with password or bearerToken in the Secret")
		}
		return wrap(gitsource.ErrUnauthorized, "the server refuses the configured credentials; check whether they are right and have not expired")
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return wrap(gitsource.ErrUnauthorized, "the server forbids reading this repository with the configured credentials")
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return wrap(gitsource.ErrNotFound, "no such repository, or the credentials do not show it")
	}
	return c.classifyConnection(ctx, doing, cause, err)
}

func (c *Connection) classifyConnection(ctx context.Context, doing string, cause, err error) error {
	unreachable := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %w", doing, gitsource.ErrUnreachable, c.redacted(fmt.Errorf(format, args...)))
	}
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return unreachable("%w", context.Canceled)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return unreachable("not finished in time: %w", context.DeadlineExceeded)
	case errors.Is(cause, errStalled):
		return unreachable("%w", errStalled)
	case errors.As(cause, &unknown):
		return unreachable("the server's certificate is signed by an unknown authority; put it into the Secret as ca.crt")
	case c.clientCertificateRefused(cause):
		return errClientCertificate(doing)
	case errors.As(cause, &verify):
		return unreachable("verifying the server's certificate: %w", verify.Err)
	case c.errors.fault() != nil:
		return unreachable("%w", cause)
	case strings.Contains(err.Error(), "not our ref"): // git-upload-pack has no code for it.
		return fmt.Errorf("%s: %w: the server no longer has that commit", doing, gitsource.ErrNotFound)
	}
	// nginx, which most forges are behind, completes the handshake and has a status for it.
	if c.errors.lastStatus() == http.StatusBadRequest && c.errors.certificateRequested() {
		return errClientCertificate(doing)
	}
	if code := c.errors.lastStatus(); code >= 300 {
		return unreachable("the server responded with status %d %s", code, http.StatusText(code))
	}
	return fmt.Errorf("%s: %w: the server's response is cut short, or not that of a Git server", doing, gitsource.ErrCorrupt)
}

// redacted replaces secrets in a message, should one ever hold them.
func (c *Connection) redacted(err error) error {
	text := err.Error()
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "(hidden)")
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// alertOfServer is the Op of the error that crypto/tls makes of an alert which the server has sent.
const alertOfServer = "remote error"

// clientCertificateRefused reports whether the server requested a certificate of the client, and ended the
// connection with an alert of TLS: in the handshake, or at the first read after it in TLS 1.3. Which
// alert it is differs between servers (RFC 8446, section 6.2), and crypto/tls has no type for it.
func (c *Connection) clientCertificateRefused(err error) bool {
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Net == "" && alert.Op == alertOfServer && c.errors.certificateRequested()
}

// errClientCertificate is what a server that requires a certificate of the client leads to.
func errClientCertificate(doing string) error {
	return fmt.Errorf("%s: %w: the server requires a certificate of the client and accepts none that is configured; put tls.crt and tls.key into the Secret", doing, gitsource.ErrUnauthorized)
}
