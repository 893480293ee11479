package gogit

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
)

func TestEveryTypeOfKeyLogsIn(t *testing.T) {
	srv := newSSHServer(t)
	commit := srv.push("a.yaml", "one\n")
	for name, c := range map[string]struct {
		key        sshtest.Type
		passphrase string
	}{
		"ed25519":                   {sshtest.ED25519, ""},
		"ecdsa":                     {sshtest.ECDSA, ""},
		"rsa":                       {sshtest.RSA, ""},
		"ed25519 with a passphrase": {sshtest.ED25519, password},
		"rsa with a passphrase":     {sshtest.RSA, password},
	} {
		t.Run(name, func(t *testing.T) {
			key := sshtest.NewKey(t, c.key)
			srv.ssh.Authorize(key.Public())
			if snap := mustFetch(t, srv.source(Ref{}, identity(key.PEM(c.passphrase), srv.ssh.KnownHosts(), c.passphrase))); snap.Commit != commit {
				t.Errorf("commit %s", snap.Commit)
			}
		})
	}
	t.Run("without a passphrase, and one is given", func(t *testing.T) {
		srv.ssh.Authorize(srv.key.Public())
		mustFetch(t, srv.source(Ref{}, identity(srv.key.PEM(""), srv.ssh.KnownHosts(), password)))
	})
}

// TestCredentialsForSSHThatAreRefused: each has a message with the remedy, and none of it.
func TestCredentialsForSSHThatAreRefused(t *testing.T) {
	srv := newSSHServer(t)
	srv.push("a.yaml", "one\n")
	known, other := srv.ssh.KnownHosts(), sshtest.NewKey(t, sshtest.ED25519)
	locked, clear := srv.key.PEM(password), srv.key.PEM("")
	for name, c := range map[string]struct {
		with func(*Config)
		want error
		text string
		// reaches is whether the server is connected to.
		reaches bool
	}{
		"none":                        {func(c *Config) { c.Credentials = nil }, gitsource.ErrHostKey, "known_hosts", false},
		"no known_hosts":              {identity(clear, nil, ""), gitsource.ErrHostKey, "ssh-keyscan", false},
		"an empty known_hosts":        {identity(clear, []byte("# none\n\n"), ""), gitsource.ErrHostKey, "known_hosts lists no host", false},
		"a known_hosts of something":  {identity(clear, append(bytes.Clone(known), "one two three\n"...), ""), gitsource.ErrHostKey, "line 2 of known_hosts", false},
		"no key":                      {identity(nil, known, ""), gitsource.ErrUnauthorized, "put it as identity", false},
		"a key that is none":          {identity([]byte(password), known, ""), gitsource.ErrUnauthorized, "ssh-keygen", false},
		"a public key":                {identity(ssh.MarshalAuthorizedKey(srv.key.Public()), known, ""), gitsource.ErrUnauthorized, "no private key", false},
		"a passphrase that is absent": {identity(locked, known, ""), gitsource.ErrUnauthorized, "put it as password", false},
		"a wrong passphrase":          {identity(locked, known, "not "+password), gitsource.ErrUnauthorized, "not the passphrase", false},
		"a key that is not allowed":   {identity(other.PEM(""), known, ""), gitsource.ErrUnauthorized, ssh.FingerprintSHA256(other.Public()), true},
	} {
		t.Run(name, func(t *testing.T) {
			before := srv.ssh.Connections.Load()
			msg := fails(t, srv.source(Ref{}, c.with), c.want)
			if !strings.Contains(msg, c.text) || strings.Contains(msg, "PRIVATE") {
				t.Errorf("the message is %s", msg)
			}
			if reached := srv.ssh.Connections.Load() > before; reached != c.reaches {
				t.Errorf("the server was connected to: %t", reached)
			}
		})
	}
}

func TestAKeyIsReplacedWithoutARestart(t *testing.T) {
	srv := newSSHServer(t)
	commit := srv.push("a.yaml", "one\n")
	key := atomic.Value{}
	key.Store(srv.key)
	src := srv.source(Ref{}, func(c *Config) {
		c.Credentials = func(context.Context) (Credentials, error) {
			return Credentials{Identity: key.Load().(sshtest.Key).PEM(""), KnownHosts: srv.ssh.KnownHosts()}, nil
		}
	})
	mustFetch(t, src)
	next := sshtest.NewKey(t, sshtest.RSA)
	srv.ssh.Authorize(next.Public())
	fails(t, src, gitsource.ErrUnauthorized)
	if snap, ok := src.Last(t.Context()); !ok || snap.Commit != commit {
		t.Error("the last snapshot is lost with the key")
	}
	key.Store(next)
	mustFetch(t, src)
}

// TestAHostKeyIsVerifiedBeforeAnythingIsSent: neither the key that logs in nor a request is
// sent to a server that is not the one in known_hosts.
func TestAHostKeyIsVerifiedBeforeAnythingIsSent(t *testing.T) {
	srv := newSSHServer(t)
	commit := srv.push("a.yaml", "one\n")
	src := srv.source(Ref{})
	mustFetch(t, src)
	known := srv.ssh.KnownHosts()
	foreign := sshtest.NewKey(t, sshtest.ED25519)
	for name, c := range map[string]struct {
		hosts      []byte
		serverKeys []ssh.Signer
		text       string
	}{
		"an unknown host":                {sshtest.Lines(&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 22}, foreign.Signer), nil, "does not list that host"},
		"the same host on another port":  {bytes.ReplaceAll(known, []byte("]:"), []byte("]:1")), nil, "does not list that host"},
		"a host key that was changed":    {known, []ssh.Signer{foreign.Signer}, "known_hosts lists ssh-ed25519 SHA256:"},
		"a host key of another type":     {known, []ssh.Signer{sshtest.NewKey(t, sshtest.ECDSA).Signer}, "ecdsa-sha2-nistp256"},
		"a host key that was revoked":    {append([]byte("@revoked "), append(bytes.Clone(known), known...)...), nil, "as revoked"},
		"a certificate authority's line": {append([]byte("@cert-authority "), known...), nil, "list the host's own key"},
	} {
		t.Run(name, func(t *testing.T) {
			original := srv.ssh.HostKeys()
			if c.serverKeys != nil {
				srv.ssh.SetHostKeys(c.serverKeys...)
			}
			defer srv.ssh.SetHostKeys(original...)
			offered := srv.ssh.HostKeys()[0].PublicKey()
			before := srv.ssh.LoginAttempts.Load()
			src := srv.source(Ref{}, identity(srv.key.PEM(""), c.hosts, ""), func(c *Config) { c.Dir = src.cache.Folder() })
			msg := fails(t, src, gitsource.ErrHostKey)
			if !strings.Contains(msg, c.text) {
				t.Errorf("the message is %s", msg)
			}
			if strings.Contains(msg, "offers") && !strings.Contains(msg, ssh.FingerprintSHA256(offered)) {
				t.Errorf("the fingerprint %s is not in the message: %s", ssh.FingerprintSHA256(offered), msg)
			}
			if got := srv.ssh.LoginAttempts.Load() - before; got > 0 {
				t.Errorf("%d attempts to log in at a server that is not verified", got)
			}
			if snap, ok := src.Last(t.Context()); !ok || snap.Commit != commit {
				t.Error("the last snapshot is lost")
			}
		})
	}
	t.Run("one of several host keys is listed", func(t *testing.T) {
		original := srv.ssh.HostKeys()
		listed := sshtest.NewKey(t, sshtest.RSA)
		srv.ssh.SetHostKeys(foreign.Signer, listed.Signer, sshtest.NewKey(t, sshtest.ECDSA).Signer)
		defer srv.ssh.SetHostKeys(original...)
		mustFetch(t, srv.source(Ref{}, identity(srv.key.PEM(""), sshtest.Lines(srv.ssh.Addr(), listed.Signer), "")))
	})
}

// TestSHA1SignsNothing: neither a server that proves its key with SHA-1 nor one that takes no
// other signature of ours is used.
func TestSHA1SignsNothing(t *testing.T) {
	srv := newSSHServer(t)
	srv.push("a.yaml", "one\n")
	old := func(key sshtest.Key) ssh.Signer {
		signer, err := ssh.NewSignerWithAlgorithms(key.Signer.(ssh.AlgorithmSigner), []string{ssh.KeyAlgoRSA})
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	t.Run("of the server", func(t *testing.T) {
		original := srv.ssh.HostKeys()
		srv.ssh.SetHostKeys(old(sshtest.NewKey(t, sshtest.RSA)))
		defer srv.ssh.SetHostKeys(original...)
		if msg := fails(t, srv.source(Ref{}), gitsource.ErrUnreachable); !strings.Contains(msg, "host key") {
			t.Error(msg)
		}
	})
	t.Run("of the client", func(t *testing.T) {
		key := sshtest.NewKey(t, sshtest.RSA)
		srv.ssh.Authorize(key.Public())
		srv.ssh.LoginAlgorithms(ssh.KeyAlgoRSA)
		defer srv.ssh.LoginAlgorithms()
		fails(t, srv.source(Ref{}, identity(key.PEM(""), srv.ssh.KnownHosts(), "")), gitsource.ErrUnauthorized)
	})
}

func TestWhatIsGoneIsNotFoundOverSSH(t *testing.T) {
	srv := newSSHServer(t)
	fails(t, srv.source(Ref{}), gitsource.ErrEmpty)
	commit := srv.push("a.yaml", "one\n")
	src := srv.source(Ref{})
	mustFetch(t, src)
	fails(t, srv.source(Ref{Branch: "none"}), gitsource.ErrNotFound)
	fails(t, srv.source(Ref{Commit: strings.Repeat("ab", 20)}), gitsource.ErrNotFound)
	msg := fails(t, srv.source(Ref{}, func(c *Config) { c.URL = srv.ssh.URL("other.git") }), gitsource.ErrNotFound)
	if !strings.Contains(msg, "no such repository") || strings.Contains(msg, srv.root) {
		t.Errorf("the message is %s", msg)
	}
	srv.gitIn(filepath.Join(srv.root, "repo.git"), "branch", "-m", "main", "moved")
	fails(t, src, gitsource.ErrNotFound)
	if snap, ok := src.Last(t.Context()); !ok || snap.Commit != commit {
		t.Error("the last snapshot went with the branch")
	}
}

func TestAnUnchangedBranchIsOneListAndNoFailureAtTheServer(t *testing.T) {
	srv := newSSHServer(t)
	srv.push("a.yaml", "one\n")
	src := srv.source(Ref{})
	mustFetch(t, src)
	if lists, packs := srv.requests(func() { mustFetch(t, src) }); lists != 1 || packs != 0 {
		t.Errorf("it took %d connections and %d transfers", lists, packs)
	}
	srv.Close()
	if got := srv.ssh.Failed.Load(); got > 0 {
		t.Errorf("%d commands failed at the server", got)
	}
}

// TestASSHServerMayAllowOneCommandForEachConnection: what takes several then takes as many
// connections.
func TestASSHServerMayAllowOneCommandForEachConnection(t *testing.T) {
	srv := newSSHServer(t).offers(true, true)
	first := srv.push("a.yaml", "one\n")
	srv.commits(80, "more")
	tip := srv.git("rev-parse", "HEAD")
	srv.update("main")
	for name, limit := range map[string]int{"several": 0, "one": 1} {
		t.Run(name, func(t *testing.T) {
			srv.ssh.Inject(sshtest.Faults{Sessions: limit})
			lists, packs := srv.requests(func() {
				if yes, err := srv.repository().Contains(t.Context(), mainRef, tip, first); err != nil || !yes {
					t.Errorf("%t, %v", yes, err)
				}
			})
			if packs < 2 || limit == 1 && lists != packs || limit == 0 && lists != 1 {
				t.Errorf("%d connections for %d transfers", lists, packs)
			}
		})
	}
}

func TestAConnectionEndsWithItsContext(t *testing.T) {
	srv := newSSHServer(t)
	srv.push("a.yaml", "one\n")
	began := make(chan struct{})
	gone := make(chan struct{})
	srv.ssh.Inject(sshtest.Faults{Command: func(c *sshtest.Command) {
		close(began)
		c.Block()
		close(gone)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	_, err := srv.source(Ref{}).Fetch(ctx)
	if !errors.Is(err, gitsource.ErrUnreachable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-gone
}

// TestSSHReadsNothingOfThisMachine has everything in the environment and the home that other
// clients of ssh use: a configuration that leads elsewhere, a key and a list of hosts that
// would do, and an agent.
func TestSSHReadsNothingOfThisMachine(t *testing.T) {
	srv := newSSHServer(t)
	srv.push("a.yaml", "one\n")
	home := t.TempDir()
	agent, err := net.Listen("unix", filepath.Join(home, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	var used atomic.Bool
	go func() {
		for {
			conn, err := agent.Accept()
			if err != nil {
				return
			}
			used.Store(true)
			_ = conn.Close()
		}
	}()
	t.Setenv("HOME", home)
	t.Setenv("SSH_AUTH_SOCK", agent.Addr().String())
	t.Setenv("SSH_KNOWN_HOSTS", filepath.Join(home, ".ssh", "known_hosts"))
	t.Setenv("GIT_SSH_COMMAND", "false")
	for _, proxy := range []string{"ALL_PROXY", "all_proxy", "HTTPS_PROXY"} {
		t.Setenv(proxy, "socks5://127.0.0.1:1")
	}
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config": "Host *\n  Hostname 127.0.0.2\n  Port 1\n  User other\n", "known_hosts": string(srv.ssh.KnownHosts()), "id_ed25519": string(srv.key.PEM("")),
	} {
		if err := os.WriteFile(filepath.Join(home, ".ssh", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, srv.source(Ref{}, identity(srv.key.PEM(""), nil, "")), gitsource.ErrHostKey)
	fails(t, srv.source(Ref{}, identity(nil, srv.ssh.KnownHosts(), "")), gitsource.ErrUnauthorized)
	fails(t, srv.source(Ref{}, identity(sshtest.NewKey(t, sshtest.ED25519).PEM(""), srv.ssh.KnownHosts(), "")), gitsource.ErrUnauthorized)
	mustFetch(t, srv.source(Ref{}))
	if used.Load() {
		t.Error("the agent was connected to")
	}
}
