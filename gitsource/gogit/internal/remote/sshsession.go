package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/poolwright/poolwright/gitsource"
)

// sshSession requests objects by ssh. Over one connection it starts git-upload-pack once for
// each request; the first one uses the command that has listed the references.
type sshSession struct {
	server  *sshServer
	command string
	limits  Limits
	errors  *errorRecorder

	connection *sshConnection
	// listing is the command that has listed the references and waits for a request.
	listing *remoteCommand
}

// openSSH lists the references of a server that is reached by ssh.
func (r *Remote) openSSH(ctx context.Context, cred Credentials) (*Connection, error) {
	server, err := r.newSSHServer(cred)
	if err != nil {
		return nil, err
	}
	s := &sshSession{server: server, command: uploadPackCommand(r.url), limits: r.limits, errors: &errorRecorder{}}
	c := &Connection{session: s, errors: s.errors, authenticated: true, secrets: cred.secrets()}
	if c.adv, err = s.list(ctx); err != nil {
		_ = s.Close()
		return nil, c.classify(ctx, "listing references", err)
	}
	return c, nil
}

// uploadPackCommand is what the server runs. Servers have a shell parse it, or parse it as
// one would.
func uploadPackCommand(u *url.URL) string {
	path := u.Path
	if strings.HasPrefix(path, "/~") {
		path = path[1:] // the home of a user
	}
	return "git-upload-pack '" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(path) + "'"
}

// list connects and reads the references.
func (s *sshSession) list(ctx context.Context) (*packp.AdvRefs, error) {
	command, adv, err := s.start(ctx)
	if _, refused := errors.AsType[*pktline.ErrorLine](err); refused {
		return nil, refuse(gitsource.ErrNotFound, "the server refuses to list references: no such repository, or the key in identity may not read it")
	}
	if err != nil {
		return nil, err
	}
	s.listing = command
	if adv.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(adv.Capabilities)
	return adv, nil
}

// start runs the command and reads the references, with which it begins.
func (s *sshSession) start(ctx context.Context) (*remoteCommand, *packp.AdvRefs, error) {
	command, err := s.run(ctx)
	if err != nil {
		s.errors.record(err)
		return nil, nil, err
	}
	adv := packp.NewAdvRefs()
	err = adv.Decode(command.out)
	if err != nil && !errors.Is(err, packp.ErrEmptyAdvRefs) {
		command.close()
		return nil, nil, err
	}
	return command, adv, nil
}

// run runs the command over the connection that there is. A server may have closed that, or
// allow one command for each connection: then over another one.
func (s *sshSession) run(ctx context.Context) (*remoteCommand, error) {
	if s.connection != nil {
		command, err := s.connection.run(s.command, s.errors)
		if err == nil {
			return command, nil
		}
		s.connection.close()
	}
	var err error
	if s.connection, err = s.server.dial(ctx); err != nil {
		return nil, err
	}
	return s.connection.run(s.command, s.errors)
}

// UploadPack sends a request and returns the response, which is to be closed.
func (s *sshSession) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if req.IsEmpty() {
		return nil, transport.ErrEmptyUploadPackRequest
	}
	text, err := encodeRequest(req)
	if err != nil {
		return nil, err
	}
	command := s.listing
	s.listing = nil
	if command == nil {
		if command, _, err = s.start(ctx); err != nil {
			return nil, err
		}
	}
	body := &responseBody{command: command}
	body.stop = context.AfterFunc(ctx, func() { command.connection.cancel(context.Cause(ctx)) })
	command.remaining = s.limits.responseBytes()
	res := packp.NewUploadPackResponse(req)
	if err = command.send(text); err == nil {
		err = res.Decode(body)
	}
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	return res, nil
}

// encodeRequest writes a request as for a server that keeps no state: all at once.
func encodeRequest(req *packp.UploadPackRequest) ([]byte, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err := errors.Join(req.UploadRequest.Encode(&b), req.UploadHaves.Encode(&b, false), pktline.NewEncoder(&b).EncodeString("done\n"))
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	return b.Bytes(), nil
}

// responseBody reads what a command sends in response to a request.
type responseBody struct {
	command *remoteCommand
	stop    func() bool
}

// Read implements io.Reader.
func (b *responseBody) Read(p []byte) (int, error) { return b.command.out.Read(p) }

// Close implements io.Closer.
func (b *responseBody) Close() error {
	b.stop()
	b.command.close()
	return nil
}

// endTimeout is how long a server may take to end a command from which nothing was requested.
const endTimeout = 2 * time.Second

// Close ends the connection. A command from which nothing was requested is ended as the
// protocol has it, and waited for, so that the server does not report a failure.
func (s *sshSession) Close() error {
	if s.listing != nil && s.errors.fault() == nil {
		s.connection.stall = min(s.connection.stall, endTimeout)
		if s.listing.send(pktline.FlushPkt) == nil {
			_ = s.connection.within(s.listing.session.Wait)
		}
	}
	if s.connection != nil {
		s.connection.close()
	}
	return nil
}
