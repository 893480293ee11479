package e2e

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// sshFixture serves a syncFixture's repository by ssh.
type sshFixture struct {
	server     *sshtest.Server
	key        sshtest.Key
	passphrase string
}

func newSSHFixture(t *testing.T, s *syncFixture) *sshFixture {
	t.Helper()
	f := &sshFixture{
		server: sshtest.New(t, filepath.Join(s.Dir, "gitea", "data", "gitea-repositories")),
		key:    sshtest.NewKey(t, sshtest.ED25519), passphrase: "a-passphrase-0451",
	}
	f.server.Authorize(f.key.Public())
	s.hide(f.passphrase)
	// Lines of the private key, as they would be in an error that repeats it.
	for line := range strings.Lines(string(f.key.PEM(f.passphrase))) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
			s.hide(line)
		}
	}
	return f
}

// secret writes the Secret that the Sync names, in the place of the one for https.
func (f *sshFixture) secret(s *syncFixture, data map[string][]byte) {
	s.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "git-ssh", Namespace: s.system}}
	if err := client.IgnoreNotFound(s.hand.Delete(s.Context(), secret)); err != nil {
		s.Fatal(err)
	}
	secret.ResourceVersion, secret.Data = "", data
	if err := s.hand.Create(s.Context(), secret); err != nil {
		s.Fatal(err)
	}
}

// right is what logs in.
func (f *sshFixture) right() map[string][]byte {
	return map[string][]byte{"identity": f.key.PEM(f.passphrase), "known_hosts": f.server.KnownHosts(), "password": []byte(f.passphrase)}
}

func (f *sshFixture) with(key string, value []byte) map[string][]byte {
	data := f.right()
	data[key] = value
	return data
}

func TestARepositoryIsFollowedBySSH(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "ssh")
	f := newSSHFixture(t, s)
	f.secret(s, f.right())
	url := f.server.URL(s.owner.Name + "/nodes.git")
	original, foreign := f.server.HostKeys(), sshtest.NewKey(t, sshtest.ED25519)
	mend := func(s *syncFixture) { f.secret(s, f.right()) }
	endure(t, s, []sourceFault{
		{"the server has another host key", func(*syncFixture) { f.server.SetHostKeys(foreign.Signer) }, func(*syncFixture) { f.server.SetHostKeys(original...) }, "HostKeyVerificationFailed", ssh.FingerprintSHA256(foreign.Public())},
		{"known_hosts is missing", func(s *syncFixture) { f.secret(s, f.with("known_hosts", nil)) }, mend, "HostKeyVerificationFailed", "no key known_hosts"},
		{"the passphrase is wrong", func(s *syncFixture) { f.secret(s, f.with("password", []byte("a-wrong-password-0451"))) }, mend, "AuthenticationFailed", "not the passphrase"},
		{"the key is not allowed any more", func(*syncFixture) { f.server.Authorize(foreign.Public()) }, func(*syncFixture) { f.server.Authorize(f.key.Public()) }, "AuthenticationFailed", "deploy key"},
		{"the server closes connections", func(*syncFixture) {
			f.server.Inject(sshtest.Faults{Connection: func(c net.Conn) { _ = c.Close() }})
		}, func(*syncFixture) { f.server.Inject(sshtest.Faults{}) }, "SourceUnavailable", "closed the connection"},
	}, func(sync *v1alpha1.Sync) {
		sync.Spec.Source.Git.URL, sync.Spec.Source.Git.SecretRef.Name = url, "git-ssh"
	})
	s.declare("v2", five...)
	s.repo.commit("Change")
	s.ready()
	s.holds("a", "v2")
}

func TestAddressesOfSSHThatCannotBeFollowedAreRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "scp")
	s.start()
	s.follow(func(sync *v1alpha1.Sync) { sync.Spec.Suspend = true })
	for url, remedy := range map[string]string{
		"git@git.example.com:platform/nodes.git":        "also in place of git@host:path",
		"ssh://git.example.com/platform/nodes.git":      "url must be https://host/path",
		"ssh://git:pass@git.example.com/platform/nodes": "url must be https://host/path",
		"ssh://git@git.example.com/platform/nodes.git":  "needs secretRef",
	} {
		sync := s.spelled("refused", func(sync *v1alpha1.Sync) {
			sync.Spec.Source.Git.URL, sync.Spec.Source.Git.SecretRef = url, nil
		})
		if err := s.hand.Create(s.Context(), sync); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
