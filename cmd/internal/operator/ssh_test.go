package operator

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// commitTo commits a file in a bare repository, and returns the commit.
func commitTo(t *testing.T, bare, name, text string) string {
	t.Helper()
	work := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if _, err := os.Stat(bare); err != nil {
		git("init", "-q", "--bare", "-b", "main", bare)
		git("init", "-q", "-b", "main")
		git("remote", "add", "origin", bare)
	} else {
		git("clone", "-q", bare, ".")
	}
	if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "change")
	git("push", "-q", "origin", "HEAD")
	return git("rev-parse", "HEAD")
}

// TestASyncFollowsARepositoryBySSH goes from the Sync and its Secret in the cluster to the
// fetched revisions, of the followed branch and of a pull request.
func TestASyncFollowsARepositoryBySSH(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "nodes.git")
	first := commitTo(t, bare, "a.yaml", "one\n")
	server, key := sshtest.New(t, root), sshtest.NewKey(t, sshtest.ED25519)
	server.Authorize(key.Public())
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev", UID: "1"}}
	sync.Spec.Source.Git = v1alpha1.GitSource{URL: server.URL("nodes.git"), Ref: v1alpha1.GitRef{Branch: "main"}, SecretRef: &v1alpha1.SecretRef{Name: "git"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "git"}}
	direct := reconcilertest.InstalledClient(t, sync, secret)
	a := &app{direct: direct, cfg: Config{caches: newCaches(Config{CacheDir: t.TempDir()})}}
	source, err := a.gitSource(sync)
	if err != nil {
		t.Fatal(err)
	}
	const passphrase = "hunter2-s3cret"
	other := sshtest.NewKey(t, sshtest.ED25519)
	for _, c := range []struct {
		name string
		data map[string][]byte
		want error
		text string
	}{
		{"a Secret without keys", nil, gitsource.ErrUnauthorized, "Secret git has no key identity"},
		{"the keys for https", map[string][]byte{"username": []byte("git"), "password": []byte(passphrase)}, gitsource.ErrUnauthorized, "Secret git has no key identity"},
		{"an empty identity", map[string][]byte{"identity": {}, "known_hosts": []byte(passphrase)}, gitsource.ErrUnauthorized, "Secret git has no key identity"},
		{"no known_hosts", map[string][]byte{"identity": key.PEM("")}, gitsource.ErrHostKey, "Secret git has no key known_hosts"},
		{"empty known_hosts", map[string][]byte{"identity": key.PEM(""), "known_hosts": {}}, gitsource.ErrHostKey, "Secret git has no key known_hosts"},
		{"another host's known_hosts", map[string][]byte{"identity": key.PEM(""), "known_hosts": sshtest.Lines(server.Addr(), other.Signer)}, gitsource.ErrHostKey, "SHA256:"},
		{"another key", map[string][]byte{"identity": other.PEM(""), "known_hosts": server.KnownHosts()}, gitsource.ErrUnauthorized, "deploy key"},
		{"a wrong passphrase", map[string][]byte{"identity": key.PEM(passphrase), "known_hosts": server.KnownHosts(), "password": []byte("not " + passphrase)}, gitsource.ErrUnauthorized, "passphrase"},
		{"all that ssh takes", map[string][]byte{"identity": key.PEM(passphrase), "identity.pub": []byte("any"), "known_hosts": server.KnownHosts(), "password": []byte(passphrase)}, nil, ""},
	} {
		// In this order and with one source: a Secret is corrected without a restart.
		secret.Data = c.data
		if err := direct.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		_, err := source.Fetch(t.Context())
		if !errors.Is(err, c.want) || err != nil && (!strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), passphrase)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if reason, stalled := gitsource.Reason(err); stalled || (reason == "") != (c.want == nil) {
			t.Errorf("%s: reason %q, and final: %t", c.name, reason, stalled)
		}
	}
	second := commitTo(t, bare, "a.yaml", "two\n")
	snap, err := source.Fetch(t.Context())
	if err != nil || snap.Commit != second {
		t.Fatalf("%s, %v", snap.Commit, err)
	}
	if b, err := fs.ReadFile(snap.FS, "a.yaml"); err != nil || string(b) != "two\n" {
		t.Errorf("%q, %v", b, err)
	}
	config := a.gitConfig(sync)
	config.Dir = t.TempDir()
	repository, err := gogit.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	if yes, err := repository.Contains(t.Context(), "refs/heads/main", second, first); err != nil || !yes {
		t.Errorf("%t, %v", yes, err)
	}
}
