package remote

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit/internal/hostkey"
)

// sshConnection is an authenticated connection to a server whose host key is verified. It
// ends with its context.
type sshConnection struct {
	client *ssh.Client
	stall  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// close ends the connection and all that runs on it.
func (c *sshConnection) close() {
	c.cancel(net.ErrClosed)
	if c.client != nil {
		_ = c.client.Close()
	}
}

// sshServer is the server, and how to log in there.
type sshServer struct {
	address  string
	user     string
	identity ssh.Signer
	known    hostkey.Known
	stall    time.Duration
}

// newSSHServer checks the credentials. It reads nothing but them and the URL: no configuration, key
// or agent of this machine.
func (r *Remote) newSSHServer(cred Credentials) (*sshServer, error) {
	known, err := knownHosts(cred.KnownHosts)
	if err != nil {
		return nil, err
	}
	identity, err := r.sshIdentity(cred.Identity, cred.Password)
	if err != nil {
		return nil, err
	}
	return &sshServer{address: net.JoinHostPort(r.url.Hostname(), port(r.url)), user: r.url.User.Username(), identity: identity, known: known, stall: r.limits.IdleTimeout}, nil
}

// parsedIdentity is a private key as it was parsed, or why it cannot be.
type parsedIdentity struct {
	sum    [sha256.Size]byte
	parsed bool
	signer ssh.Signer
	err    error
}

// sshIdentity keeps the parsed key, and the error of one that cannot be parsed, until the Secret changes: to derive the key from a
// passphrase takes up to seconds of processor time, which no deadline ends.
func (r *Remote) sshIdentity(key []byte, passphrase string) (ssh.Signer, error) {
	// The sum of the key has a fixed length, so that no end of a key passes for the beginning of a passphrase.
	first := sha256.Sum256(key)
	sum := sha256.Sum256(append(first[:], passphrase...))
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.identity.parsed || r.identity.sum != sum {
		signer, err := parseIdentity(key, passphrase)
		r.identity = parsedIdentity{sum: sum, parsed: true, signer: signer, err: err}
	}
	return r.identity.signer, r.identity.err
}

func knownHosts(file []byte) (hostkey.Known, error) {
	if len(file) == 0 {
		return hostkey.Known{}, fmt.Errorf("%w: there is no known_hosts; put the server's lines, as ssh-keyscan prints them, into the Secret that secretRef names", gitsource.ErrHostKey)
	}
	return hostkey.Parse(file)
}

// parseIdentity reads a private key, which may have a passphrase. Its errors repeat nothing of
// either. The Secret may be corrected at any time: they are no ErrInvalid, which is final.
func parseIdentity(key []byte, passphrase string) (ssh.Signer, error) {
	invalid := func(message string) (ssh.Signer, error) {
		return nil, fmt.Errorf("reading the private key: %w: %s", gitsource.ErrUnauthorized, message)
	}
	if len(key) == 0 {
		return invalid("there is none; put it as identity into the Secret that secretRef names")
	}
	signer, err := ssh.ParsePrivateKey(key)
	if _, encrypted := errors.AsType[*ssh.PassphraseMissingError](err); encrypted {
		if passphrase == "" {
			return invalid("identity has a passphrase; put it as password into the same Secret")
		}
		signer, err = ssh.ParsePrivateKeyWithPassphrase(key, []byte(passphrase))
	}
	switch {
	case errors.Is(err, x509.IncorrectPasswordError):
		return invalid("password is not the passphrase of identity")
	case err != nil:
		return invalid("identity is no private key that ssh-keygen writes by default (ssh-keygen -p -f FILE converts other formats), or password is not its passphrase")
	}
	algorithms := []string{signer.PublicKey().Type()}
	switch algorithms[0] {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
	case ssh.KeyAlgoRSA:
		// Without this the key would also sign with SHA-1.
		algorithms = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	default:
		return invalid("identity is a key of a type that is not supported; make one with ssh-keygen -t ed25519")
	}
	if s, ok := signer.(ssh.AlgorithmSigner); ok {
		if restricted, err := ssh.NewSignerWithAlgorithms(s, algorithms); err == nil {
			return restricted, nil
		}
	}
	return invalid("identity is a key that cannot be restricted to secure signatures; make one with ssh-keygen -t ed25519")
}

// dial connects, verifies the host key and logs in. The connection ends with ctx.
func (s *sshServer) dial(ctx context.Context) (*sshConnection, error) {
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error { return checkAddress(address, false) },
	}
	wire, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return nil, err
	}
	c := &sshConnection{stall: s.stall}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(c.ctx, func() { _ = wire.Close() })
	var check hostKeyCheck
	err = c.within(func() error {
		conn, channels, requests, err := ssh.NewClientConn(wire, s.address, s.config(&check))
		if err == nil {
			c.client = ssh.NewClient(conn, channels, requests)
		}
		return err
	})
	if err != nil {
		if context.Cause(c.ctx) == nil {
			err = s.handshakeFailed(err, check)
		}
		c.cancel(net.ErrClosed)
		return nil, err
	}
	return c, nil
}

// hostKeyCheck is what came of verifying the host key, if it came to that.
type hostKeyCheck struct {
	done bool
	err  error
}

// config allows algorithms without known weaknesses only.
func (s *sshServer) config(check *hostKeyCheck) *ssh.ClientConfig {
	secure := ssh.SupportedAlgorithms()
	return &ssh.ClientConfig{
		Config:            ssh.Config{KeyExchanges: secure.KeyExchanges, Ciphers: secure.Ciphers, MACs: secure.MACs},
		User:              s.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(s.identity)},
		HostKeyAlgorithms: s.known.Algorithms(s.address),
		HostKeyCallback: func(address string, _ net.Addr, key ssh.PublicKey) error {
			*check = hostKeyCheck{done: true, err: s.known.Verify(address, key)}
			return check.err
		},
	}
}

// handshakeFailed classifies an error of connecting. What is neither a fault of the
// connection nor a key or an algorithm that is refused is a response that is not SSH's.
func (s *sshServer) handshakeFailed(err error, check hostKeyCheck) error {
	if check.err != nil {
		return &sourceError{check.err}
	}
	if none, ok := errors.AsType[*ssh.AlgorithmNegotiationError](err); ok {
		return refuse(gitsource.ErrUnreachable, "the server offers no %s that is considered secure; update its SSH server", none.What)
	}
	_, broken := errors.AsType[*net.OpError](err)
	switch {
	case broken:
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errBrokenOff
	case check.done:
		key := s.identity.PublicKey()
		return refuse(gitsource.ErrUnauthorized, "the server refuses the %s key %s for user %q; add the public key of identity there as a deploy key that may read", key.Type(), ssh.FingerprintSHA256(key), s.user)
	}
	return refuse(gitsource.ErrCorrupt, "the server's response is not that of an SSH server")
}
