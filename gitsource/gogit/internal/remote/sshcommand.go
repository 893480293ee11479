package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/gitsource"
)

// remoteCommand is git-upload-pack, as it runs at the server. What it sends is bounded in
// size and in how long it may stall; its standard error is discarded, because the server
// chooses that text.
type remoteCommand struct {
	connection *sshConnection
	session    *ssh.Session
	stdin      io.WriteCloser
	stdout     io.Reader
	// out reads from the command itself, by way of a buffer.
	out       *bufio.Reader
	recorder  *errorRecorder
	remaining int64
	read      bool
	// end is what reading ended with. The session's status can be waited for once only.
	end error
}

// run starts a command on the connection.
func (c *sshConnection) run(command string, tap *errorRecorder) (*remoteCommand, error) {
	r := &remoteCommand{connection: c, recorder: tap, remaining: referencesBytes}
	err := c.within(func() error {
		var err error
		if r.session, err = c.client.NewSession(); err != nil {
			return err
		}
		r.session.Stderr = io.Discard
		if r.stdin, err = r.session.StdinPipe(); err != nil {
			return err
		}
		if r.stdout, err = r.session.StdoutPipe(); err != nil {
			return err
		}
		return r.session.Start(command)
	})
	if err != nil {
		r.close()
		return nil, c.startFailed(err)
	}
	r.out = bufio.NewReaderSize(r, 32<<10)
	return r, nil
}

// startFailed classifies an error of starting a command: a server that is still connected has
// refused it.
func (c *sshConnection) startFailed(err error) error {
	if refused, ok := errors.AsType[*ssh.OpenChannelError](err); ok {
		return refuse(gitsource.ErrUnreachable, "the server opens no session (reason %d of RFC 4254); it may be overloaded", uint32(refused.Reason))
	}
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errBrokenOff
	}
	return refuse(gitsource.ErrUnauthorized, "the server does not run git-upload-pack for the key in identity; check what the key may do there")
}

// Read implements io.Reader.
func (r *remoteCommand) Read(p []byte) (int, error) {
	if r.end != nil {
		return 0, r.end
	}
	if r.remaining <= 0 {
		err := fmt.Errorf("%w: the server's response is too large", gitsource.ErrLimit)
		r.recorder.record(err)
		return 0, err
	}
	if int64(len(p)) > r.remaining {
		p = p[:r.remaining]
	}
	n := 0
	err := r.connection.within(func() (err error) {
		n, err = r.stdout.Read(p)
		return err
	})
	r.remaining -= int64(n)
	r.read = r.read || n > 0
	if errors.Is(err, io.EOF) {
		err = r.ended()
	}
	r.recorder.record(err)
	r.end = err
	return n, err
}

// ended finds out why the command sends nothing any more: io.EOF where it has ended well.
func (r *remoteCommand) ended() error {
	err := r.connection.within(r.session.Wait)
	status, ok := errors.AsType[*ssh.ExitError](err)
	switch {
	case err == nil:
		return io.EOF
	case ok && !r.read:
		return refuse(gitsource.ErrNotFound, "git-upload-pack at the server ended with status %d and listed nothing: no such repository, or the key in identity may not read it", status.ExitStatus())
	case ok:
		return fmt.Errorf("git-upload-pack at the server ended with status %d", status.ExitStatus())
	case context.Cause(r.connection.ctx) != nil:
		return err
	case r.read:
		return errCutShort
	}
	return errBrokenOff
}

// errCutShort is a response that ends without the status of its command.
var errCutShort = errors.New("the server closed the connection in the middle of its response")

// send writes to the command. A command that has ended takes nothing, and what it sent before
// has the reason.
func (r *remoteCommand) send(b []byte) error {
	err := r.connection.within(func() error {
		_, err := r.stdin.Write(b)
		return err
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	r.recorder.record(err)
	return err
}

// close ends the command; the connection stays.
func (r *remoteCommand) close() {
	if r.session != nil {
		_ = r.session.Close()
	}
}

// within runs f, which waits for the server, and closes the connection where that takes too
// long. An error is why the connection was closed, where it was.
func (c *sshConnection) within(f func() error) error {
	watch := time.AfterFunc(c.stall, func() { c.cancel(errStalled) })
	defer watch.Stop()
	err := f()
	if cause := context.Cause(c.ctx); err != nil && cause != nil {
		return cause
	}
	return err
}
