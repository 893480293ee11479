package operator

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision/sandbox/signtest"
	"github.com/poolwright/poolwright/provision/sandbox/sshtest"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
	"github.com/poolwright/poolwright/reconciler/rollback"
)

// signIn signs the newest commit of main in a bare repository, and returns what it is then.
func signIn(t *testing.T, bare string, key signtest.Key) string {
	t.Helper()
	git := func(input []byte, args ...string) []byte {
		cmd := exec.Command("git", append([]string{"-C", bare}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		cmd.Stdin = bytes.NewReader(input)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return out
	}
	id := strings.TrimSpace(string(git(key.Commit(git(nil, "cat-file", "commit", "main")), "hash-object", "-t", "commit", "-w", "--stdin")))
	git(nil, "update-ref", "refs/heads/main", id)
	return id
}

// TestASyncFollowsSignedRevisionsAlone goes from the Sync, its Secret and its status in the cluster to the
// fetched revisions.
func TestASyncFollowsSignedRevisionsAlone(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "nodes.git")
	commitTo(t, bare, "a.yaml", "one\n")
	server, login := sshtest.New(t, root), sshtest.NewKey(t, sshtest.ED25519)
	server.Authorize(login.Public())
	ada, rob := signtest.SSH(t, sshtest.NewKey(t, sshtest.ED25519).Signer), signtest.SSH(t, sshtest.NewKey(t, sshtest.ECDSA).Signer)
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev", UID: "1"}}
	sync.Spec.Source.Git = v1alpha1.GitSource{
		URL: server.URL("nodes.git"), Ref: v1alpha1.GitRef{Branch: "main"}, SecretRef: &v1alpha1.SecretRef{Name: "git"},
		Verify: &v1alpha1.GitVerification{Mode: v1alpha1.GitVerificationEveryCommit, SecretRef: v1alpha1.SecretRef{Name: "signers"}},
	}
	credentials := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "git"}, Data: map[string][]byte{"identity": login.PEM(""), "known_hosts": server.KnownHosts()}}
	signers := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "signers"}, Data: signtest.Files(ada)}
	direct := reconcilertest.InstalledClient(t, sync, credentials)
	a := &app{direct: direct, cfg: Config{caches: newCaches(Config{CacheDir: t.TempDir()})}}
	source, err := a.gitSource(sync)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(want error, text string) gitsource.Snapshot {
		t.Helper()
		snap, err := source.Fetch(t.Context())
		if !errors.Is(err, want) || want == nil && err != nil || err != nil && !strings.Contains(err.Error(), text) {
			t.Fatalf("got %q, %v, want %v with %q", snap.Revision, err, want, text)
		}
		return snap
	}
	applied := func(snap gitsource.Snapshot) {
		t.Helper()
		sync.Status.LastAppliedRevision, sync.Status.LastAttemptedRevision, sync.Status.SourceVerificationMode = snap.Revision, snap.Revision, v1alpha1.GitVerificationEveryCommit
		if err := direct.Update(t.Context(), sync); err != nil {
			t.Fatal(err)
		}
	}
	fetch(gitsource.ErrVerification, "verify.secretRef names Secret signers, which is not in namespace poolwright-system")
	if err := direct.Create(t.Context(), signers); err != nil {
		t.Fatal(err)
	}
	fetch(gitsource.ErrCommitSignature, "it is not signed")
	first := signIn(t, bare, ada)
	snap := fetch(nil, "")
	if snap.Commit != first {
		t.Errorf("at %s", snap.Commit)
	}
	applied(snap)

	commitTo(t, bare, "a.yaml", "two\n")
	commitTo(t, bare, "a.yaml", "three\n")
	signIn(t, bare, ada)
	fetch(gitsource.ErrCommitSignature, "it is not signed") // The one between.
	source, err = a.gitSource(sync)                         // As after a restart.
	if err != nil {
		t.Fatal(err)
	}
	fetch(gitsource.ErrCommitSignature, "it is not signed")
	if last, ok := source.(interface {
		Earlier(ctx context.Context, revision, treeID string) (gitsource.Snapshot, bool)
	}).Earlier(t.Context(), snap.Revision, snap.TreeID); !ok || last.Commit != first {
		t.Errorf("what was applied is held: %v, %s", ok, last.Commit)
	}

	sync.Status.LastAppliedRevision, sync.Status.LastAttemptedRevision = "", ""
	if err := direct.Update(t.Context(), sync); err != nil {
		t.Fatal(err)
	}
	applied(fetch(nil, ""))
	commitTo(t, bare, "a.yaml", "four\n")
	fourth := signIn(t, bare, rob)
	fetch(gitsource.ErrCommitSignature, "it is signed by a key that is not in the Secret")
	signers.Data = signtest.Files(ada, rob)
	if err := direct.Update(t.Context(), signers); err != nil {
		t.Fatal(err)
	}
	if got := fetch(nil, ""); got.Commit != fourth {
		t.Errorf("at %s", got.Commit)
	}
}

// TestARollbackIsToASignedCommitAlone: a Sync whose commits have to be signed goes back to one that is, never to one that is
// not, and goes on with the branch from there.
func TestARollbackIsToASignedCommitAlone(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "nodes.git")
	server, login, ada := sshtest.New(t, root), sshtest.NewKey(t, sshtest.ED25519), signtest.SSH(t, sshtest.NewKey(t, sshtest.ED25519).Signer)
	server.Authorize(login.Public())
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev", UID: "1"}}
	sync.Spec.Source.Git = v1alpha1.GitSource{
		URL: server.URL("nodes.git"), Ref: v1alpha1.GitRef{Branch: "main"}, SecretRef: &v1alpha1.SecretRef{Name: "git"},
		Verify: &v1alpha1.GitVerification{Mode: v1alpha1.GitVerificationHEAD, SecretRef: v1alpha1.SecretRef{Name: "signers"}},
	}
	direct := reconcilertest.InstalledClient(t, sync,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "git"}, Data: map[string][]byte{"identity": login.PEM(""), "known_hosts": server.KnownHosts()}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "signers"}, Data: signtest.Files(ada)})
	a := &app{direct: direct, cfg: Config{caches: newCaches(Config{CacheDir: t.TempDir()})}}
	// fetch makes the source anew, as a change of the annotation does.
	fetch := func(want error) string {
		t.Helper()
		source, err := a.gitSource(sync)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := source.Fetch(t.Context())
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Fatalf("got %q, %v, want %v", snap.Revision, err, want)
		}
		if err == nil {
			sync.Status.LastAppliedRevision, sync.Status.LastAttemptedRevision, sync.Status.SourceVerificationMode = snap.Revision, snap.Revision, v1alpha1.GitVerificationHEAD
			if err := direct.Update(t.Context(), sync); err != nil {
				t.Fatal(err)
			}
		}
		return snap.Revision
	}
	rollBack := func(to string) {
		t.Helper()
		change, err := rollback.To(sync, to, "")
		if err != nil {
			t.Fatal(err)
		}
		change(sync)
		if err := direct.Update(t.Context(), sync); err != nil {
			t.Fatal(err)
		}
	}
	commitTo(t, bare, "a.yaml", "one\n")
	first := signIn(t, bare, ada)
	fetch(nil)
	unsigned := commitTo(t, bare, "a.yaml", "two\n")
	fetch(gitsource.ErrCommitSignature)
	commitTo(t, bare, "a.yaml", "three\n")
	third := signIn(t, bare, ada)
	if got := fetch(nil); got != "main@sha1:"+third {
		t.Errorf("followed is %s", got)
	}
	rollBack(unsigned)
	fetch(gitsource.ErrCommitSignature)
	rollBack(first)
	if got := fetch(nil); got != "main@sha1:"+first || rollback.Revision(sync) != got {
		t.Errorf("rolled back to %s, it follows %s", rollback.Revision(sync), got)
	}
	rollback.End(sync)
	if got := fetch(nil); got != "main@sha1:"+third {
		t.Errorf("resumed, it follows %s", got)
	}
}

func TestARevisionEndsWithItsCommit(t *testing.T) {
	id := strings.Repeat("ab", 20)
	for revision, want := range map[string]string{"": "", "main@sha1:": "", "main@sha1:" + id: id, "sha1:" + id: id, "latest@sha256:" + id + id[:24]: "", "sha256:" + id: "", id: ""} {
		if got := commitOf(revision); got != want {
			t.Errorf("of %q it is %q", revision, got)
		}
	}
}

// TestWhereEveryCommitBegins is by what was attempted last, of the same repository and branch.
func TestWhereEveryCommitBegins(t *testing.T) {
	id := strings.Repeat("ab", 20)
	const here, elsewhere = "https://git.example.com/nodes.git", "https://git.example.com/other.git"
	for name, c := range map[string]struct {
		ref           v1alpha1.GitRef
		attempted, of string
		want          string
	}{
		"nothing was attempted":        {v1alpha1.GitRef{Branch: "main"}, "", "", ""},
		"the same branch":              {v1alpha1.GitRef{Branch: "main"}, "main@sha1:" + id, here, id},
		"no branch named":              {v1alpha1.GitRef{}, "main@sha1:" + id, here, id},
		"by a version before this":     {v1alpha1.GitRef{Branch: "main"}, "main@sha1:" + id, "", id},
		"another branch":               {v1alpha1.GitRef{Branch: "main"}, "dev@sha1:" + id, here, ""},
		"another repository":           {v1alpha1.GitRef{Branch: "main"}, "main@sha1:" + id, elsewhere, ""},
		"an artifact of another kind":  {v1alpha1.GitRef{Branch: "latest"}, "latest@sha256:" + id + id[:24], here, ""},
		"the tag before":               {v1alpha1.GitRef{Tag: "v2"}, "v1@sha1:" + id, here, id},
		"a tag of another repository":  {v1alpha1.GitRef{Tag: "v1"}, "v1@sha1:" + id, elsewhere, ""},
		"a tag after another artifact": {v1alpha1.GitRef{Tag: "v1"}, "v1@sha256:" + id + id[:24], here, ""},
	} {
		sync := &v1alpha1.Sync{}
		sync.Spec.Source.Git.URL, sync.Spec.Source.Git.Ref = here, c.ref
		sync.Status.LastAttemptedRevision, sync.Status.LastAttemptedURL = c.attempted, c.of
		// What was applied may be of another repository, too.
		sync.Status.LastAppliedRevision = "main@sha1:" + strings.Repeat("cd", 20)
		if got := verificationBase(sync); got != c.want {
			t.Errorf("%s: it begins behind %q, want %q", name, got, c.want)
		}
	}
}
