package gogit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
)

// half sends what git-upload-pack writes, but after the request of objects only the first half.
type half struct {
	command *sshtest.Command
	mu      sync.Mutex
	kept    bytes.Buffer
}

// Write implements io.Writer.
func (h *half) Write(p []byte) (int, error) {
	select {
	case <-h.command.Requested():
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.kept.Write(p)
	default:
		return h.command.Channel.Write(p)
	}
}

// part has the server send half of the response, and then do something else.
func part(then func(*sshtest.Command)) func(*sshtest.Command) {
	return func(c *sshtest.Command) {
		h := &half{command: c}
		c.Run(h)
		h.mu.Lock()
		defer h.mu.Unlock()
		_, _ = c.Channel.Write(h.kept.Bytes()[:h.kept.Len()/2])
		then(c)
	}
}

// hang keeps a connection open until the client closes it.
func hang(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func writes(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		hang(conn)
	}
}

// endless writes the same again and again.
func endless(w io.Writer, first, then []byte) {
	_, _ = w.Write(first)
	for {
		if _, err := w.Write(then); err != nil {
			return
		}
	}
}

func packet(text string) []byte { return fmt.Appendf(nil, "%04x%s", len(text)+4, text) }

func TestABrokenSSHServerKeepsTheLastSnapshot(t *testing.T) {
	block := func(c *sshtest.Command) { c.Block() }
	id := strings.Repeat("a", 40)
	line := packet(id + " refs/heads/main\n")
	for name, c := range map[string]struct {
		server sshtest.Faults
		want   error
	}{
		"it never responds":                      {sshtest.Faults{Connection: hang}, gitsource.ErrUnreachable},
		"it stalls in the handshake":             {sshtest.Faults{Connection: writes("SSH-2.0-test\r\n")}, gitsource.ErrUnreachable},
		"it stalls before the references":        {sshtest.Faults{Command: block}, gitsource.ErrUnreachable},
		"it stalls in the middle of the objects": {sshtest.Faults{Command: part(block)}, gitsource.ErrUnreachable},
		"it stalls and writes to standard error": {sshtest.Faults{Command: func(c *sshtest.Command) {
			endless(c.Channel.Stderr(), nil, bytes.Repeat([]byte(password), 1000))
		}}, gitsource.ErrUnreachable},
		"it resets in the middle of the objects":         {sshtest.Faults{Command: part(func(c *sshtest.Command) { _ = c.Wire.Close() })}, gitsource.ErrUnreachable},
		"it closes the channel in the middle":            {sshtest.Faults{Command: part(func(c *sshtest.Command) { _ = c.Channel.Close() })}, gitsource.ErrUnreachable},
		"it fails in the middle of the objects":          {sshtest.Faults{Command: part(func(c *sshtest.Command) { c.Exit(1) })}, gitsource.ErrUnreachable},
		"it ends early and calls that whole":             {sshtest.Faults{Command: part(func(c *sshtest.Command) { c.Exit(0) })}, gitsource.ErrCorrupt},
		"it closes the connection unheard":               {sshtest.Faults{Connection: func(c net.Conn) { _ = c.Close() }}, gitsource.ErrUnreachable},
		"it is overloaded":                               {sshtest.Faults{Channel: ssh.ResourceShortage}, gitsource.ErrUnreachable},
		"it runs no command":                             {sshtest.Faults{Refuse: true}, gitsource.ErrUnauthorized},
		"its command fails":                              {sshtest.Faults{Command: func(c *sshtest.Command) { _, _ = io.WriteString(c.Channel.Stderr(), password); c.Exit(1) }}, gitsource.ErrNotFound},
		"its command sends nothing":                      {sshtest.Faults{Command: func(c *sshtest.Command) { c.Exit(0) }}, gitsource.ErrCorrupt},
		"its command is another":                         {sshtest.Faults{Command: func(c *sshtest.Command) { _, _ = io.WriteString(c.Channel, "Welcome, "+password); c.Exit(0) }}, gitsource.ErrCorrupt},
		"it is no SSH server":                            {sshtest.Faults{Connection: writes("HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat(password, 100))}, gitsource.ErrCorrupt},
		"it reports an error in place of the references": {sshtest.Faults{Command: func(c *sshtest.Command) { _, _ = c.Channel.Write(packet("ERR " + password)); c.Exit(1) }}, gitsource.ErrNotFound},
		"it lists references without end": {sshtest.Faults{Command: func(c *sshtest.Command) {
			endless(c.Channel, packet(id+" refs/heads/main\x00side-band-64k\n"), bytes.Repeat(line, 1000))
		}}, gitsource.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newSSHServer(t)
			keepsTheLastSnapshot(t, srv, c.want, func() { srv.ssh.Inject(c.server) }, func() { srv.ssh.Inject(sshtest.Faults{}) })
		})
	}
	t.Run("the host is down", func(t *testing.T) {
		srv := newSSHServer(t)
		srv.push("a.yaml", "one\n")
		src := srv.source(Ref{})
		mustFetch(t, src)
		srv.Close()
		fails(t, src, gitsource.ErrUnreachable)
	})
	for name, f := range map[string]sshtest.Faults{"in the handshake": {Connection: hang}, "in the middle of the objects": {Command: part(block)}} {
		t.Run("the caller's deadline passes "+name, func(t *testing.T) {
			srv := newSSHServer(t)
			srv.push("a.yaml", "one\n")
			srv.ssh.Inject(f)
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			_, err := srv.source(Ref{}).Fetch(ctx)
			if !errors.Is(err, gitsource.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		})
	}
}

func TestAHostileSSHServerCannotHoldUpOrFlood(t *testing.T) {
	band := func(b []byte) []byte { return append(fmt.Appendf(nil, "%04x\x01", len(b)+5), b...) }
	// instead lists the references as it should, and responds to the request with something else.
	instead := func(f func(io.Writer)) func(*sshtest.Command) {
		return func(c *sshtest.Command) {
			go func() {
				<-c.Requested()
				f(c.Channel)
				_ = c.Channel.Close()
			}()
			c.Run(&half{command: c})
			c.Block()
		}
	}
	flood := func(count uint32) func(*sshtest.Command) {
		return instead(func(w io.Writer) {
			head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), count)
			endless(w, append([]byte("00000008NAK\n"), band(head)...), band(make([]byte, 60000)))
		})
	}
	for name, c := range map[string]struct {
		command func(*sshtest.Command)
		want    error
	}{
		"it announces too many objects": {flood(20_001), gitsource.ErrLimit},
		"it sends without end":          {flood(10), gitsource.ErrLimit},
		"it sends something else":       {instead(func(w io.Writer) { _, _ = io.WriteString(w, "<html>"+password) }), gitsource.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newSSHServer(t).offers(true, true)
			onePull(srv)
			srv.ssh.Inject(sshtest.Faults{Command: c.command})
			leavesNothingBehind(t, srv.repository(func(c *Config) { c.Limits.PackBytes = 4 << 20 }), c.want)
		})
	}
}
