// Package sshtest is an SSH server for tests: it runs git-upload-pack for the repositories of
// a folder, on loopback, and can be made to fail at every step. It refuses keys that were not
// authorized and every command but that one, and it is no server for anything but tests. Start
// reading at New.
package sshtest

import (
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// Faults are what a Server does in place of what it should; a nil one changes nothing.
type Faults struct {
	// Connection handles a connection before any byte was exchanged.
	Connection func(net.Conn)
	// Channel refuses to open a session, for a reason.
	Channel ssh.RejectionReason
	// Sessions is how many a connection may have, at one time or one after the other; 0 is
	// any number.
	Sessions int
	// Refuse refuses to run a command.
	Refuse bool
	// Command runs in place of git-upload-pack.
	Command func(*Command)
}

// Server serves the repositories below a folder.
type Server struct {
	// Connections counts connections, LoginAttempts the keys that were offered, Requests the
	// commands of which objects were requested, and Failed those that ended with another
	// status than 0.
	Connections, LoginAttempts, Requests, Failed atomic.Int32

	t        testing.TB
	root     string
	listener net.Listener
	group    sync.WaitGroup

	mu         sync.Mutex
	faults     Faults
	hostKeys   []ssh.Signer
	algorithms []string
	authorized map[string]bool
	open       map[net.Conn]bool
}

// New starts a server with a host key of type ed25519, which is stopped when the test ends.
func New(t testing.TB, root string) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, root: root, listener: listener, authorized: map[string]bool{}, open: map[net.Conn]bool{}}
	s.SetHostKeys(NewKey(t, ED25519).Signer)
	s.group.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and its connections.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.CloseConnections()
	s.group.Wait()
}

// CloseConnections ends the connections, as a network that resets them.
func (s *Server) CloseConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.open {
		_ = conn.Close()
	}
}

// URL is the address of a repository below the folder.
func (s *Server) URL(repository string) string {
	return "ssh://git@" + s.listener.Addr().String() + "/" + repository
}

// KnownHosts are the lines of a known_hosts file with the host keys.
func (s *Server) KnownHosts() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Lines(s.listener.Addr(), s.hostKeys...)
}

// Lines are the lines of a known_hosts file for a server at an address.
func Lines(at net.Addr, keys ...ssh.Signer) []byte {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return nil
	}
	var out strings.Builder
	for _, key := range keys {
		out.WriteString("[" + host + "]:" + port + " " + string(ssh.MarshalAuthorizedKey(key.PublicKey())))
	}
	return []byte(out.String())
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// HostKeys are the host keys.
func (s *Server) HostKeys() []ssh.Signer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hostKeys
}

// LoginAlgorithms limits the signatures that log in to some algorithms; none are all that are
// secure.
func (s *Server) LoginAlgorithms(algorithms ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.algorithms = algorithms
}

// SetHostKeys changes the host keys for new connections.
func (s *Server) SetHostKeys(keys ...ssh.Signer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hostKeys = keys
}

// Authorize lets who has one of these keys, and nobody else, read all repositories.
func (s *Server) Authorize(keys ...ssh.PublicKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.authorized)
	for _, key := range keys {
		s.authorized[string(key.Marshal())] = true
	}
}

// Inject changes what the server does from now on; the zero Faults make it work again.
func (s *Server) Inject(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func (s *Server) injected() Faults {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.Connections.Add(1)
		s.mu.Lock()
		s.open[conn] = true
		s.mu.Unlock()
		s.group.Go(func() {
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.open, conn)
				_ = conn.Close()
			}()
			if f := s.injected().Connection; f != nil {
				f(conn)
				return
			}
			s.serve(conn)
		})
	}
}

// errUnauthorized refuses a key.
type errUnauthorized struct{}

// Error implements error.
func (errUnauthorized) Error() string { return "the key is not authorized" }

func (s *Server) config() *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		PublicKeyAuthAlgorithms: ssh.SupportedAlgorithms().PublicKeyAuths,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			s.LoginAttempts.Add(1)
			s.mu.Lock()
			defer s.mu.Unlock()
			if meta.User() != "git" || !s.authorized[string(key.Marshal())] {
				return nil, errUnauthorized{}
			}
			return &ssh.Permissions{}, nil
		},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.algorithms) > 0 {
		config.PublicKeyAuthAlgorithms = s.algorithms
	}
	for _, key := range s.hostKeys {
		config.AddHostKey(key)
	}
	return config
}

func (s *Server) serve(wire net.Conn) {
	conn, channels, requests, err := ssh.NewServerConn(wire, s.config())
	if err != nil {
		return
	}
	defer conn.Close()
	s.group.Go(func() { ssh.DiscardRequests(requests) })
	sessions := 0
	for offered := range channels {
		f := s.injected()
		if sessions++; f.Sessions > 0 && sessions > f.Sessions {
			f.Channel = ssh.ResourceShortage
		}
		if f.Channel != 0 {
			_ = offered.Reject(f.Channel, "refused")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		s.group.Go(func() { s.session(wire, channel, requests) })
	}
}

func (s *Server) session(wire net.Conn, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for r := range requests {
		faults := s.injected()
		var payload struct{ Command string }
		if r.Type != "exec" || faults.Refuse || ssh.Unmarshal(r.Payload, &payload) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		c := &Command{Channel: channel, Wire: wire, Text: payload.Command, server: s, requested: make(chan struct{})}
		if faults.Command != nil {
			faults.Command(c)
		} else {
			c.Exit(c.Run(channel))
		}
		return
	}
}

// Command is one that a client has the server run.
type Command struct {
	// Channel is the client's side, Wire the connection below.
	Channel ssh.Channel
	Wire    net.Conn
	// Text is the command.
	Text string

	server    *Server
	requested chan struct{}
	began     bool
	// gone is closed when the client is, once git-upload-pack was run.
	gone chan struct{}
}

// Requested is closed once the client requests objects.
func (c *Command) Requested() <-chan struct{} { return c.requested }

// Run runs git-upload-pack, which writes to out, and returns its status.
func (c *Command) Run(out io.Writer) int {
	path, ok := strings.CutPrefix(c.Text, "git-upload-pack '")
	path, quoted := strings.CutSuffix(path, "'")
	if !ok || !quoted || strings.Contains(path, "'") {
		return 127
	}
	run := exec.Command("git", "upload-pack", filepath.Join(c.server.root, filepath.FromSlash(path)))
	run.Env = []string{"PATH=" + pathVariable(), "HOME=" + c.server.root, "GIT_CONFIG_NOSYSTEM=1"}
	run.Stdout, run.Stderr = out, c.Channel.Stderr()
	stdin, err := run.StdinPipe()
	if err != nil {
		return 126
	}
	if err := run.Start(); err != nil {
		return 126
	}
	// A channel wakes one reader when it ends: there is this one only.
	c.gone = make(chan struct{})
	c.server.group.Go(func() {
		defer close(c.gone)
		_, _ = io.Copy(stdin, c)
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, c.Channel)
	})
	if run.Wait() != nil {
		c.server.Failed.Add(1)
		return max(1, run.ProcessState.ExitCode())
	}
	return 0
}

// Read reads what the client sends, and finds out when that is a request.
func (c *Command) Read(p []byte) (int, error) {
	n, err := c.Channel.Read(p)
	if n > 0 && !c.began && !strings.HasPrefix(string(p[:n]), "0000") {
		c.began = true
		c.server.Requests.Add(1)
		close(c.requested)
	}
	return n, err
}

// Exit ends the command with a status.
func (c *Command) Exit(status int) {
	_, _ = c.Channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
	_ = c.Channel.Close()
}

// Block returns once the client is gone.
func (c *Command) Block() {
	if c.gone == nil {
		_, _ = io.Copy(io.Discard, c.Channel)
		return
	}
	<-c.gone
}
