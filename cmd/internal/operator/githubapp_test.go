package operator

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/reconcilertest"
)

// enterprise is a GitHub Enterprise Server with one App, by https: its API and Git. Only the last token is good.
type enterprise struct {
	*httptest.Server
	given  atomic.Int32
	status atomic.Int32
}

func newEnterprise(t *testing.T, root string) *enterprise {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}}
	e := &enterprise{}
	e.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v3/") {
			if status := int(e.status.Load()); status != 0 {
				http.Error(w, `{"message": "no"}`, status)
				return
			}
			if r.URL.Path != "/api/v3/app/installations/42/access_tokens" || !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ey") {
				http.Error(w, "{}", http.StatusUnauthorized)
				return
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"token": "ghs_s3cret%d", "expires_at": %q}`, e.given.Add(1), time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			return
		}
		user, token, _ := r.BasicAuth()
		if user != "x-access-token" || token != fmt.Sprintf("ghs_s3cret%d", e.given.Load()) {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, token, http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// TestASyncFollowsARepositoryAsAGitHubApp goes from the Sync and its Secret to the fetched revisions.
func TestASyncFollowsARepositoryAsAGitHubApp(t *testing.T) {
	root := t.TempDir()
	bare := filepath.Join(root, "platform", "nodes.git")
	first := commitTo(t, bare, "a.yaml", "one\n")
	e := newEnterprise(t, root)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev", UID: "1"}}
	sync.Spec.Source.Git = v1alpha1.GitSource{URL: e.URL + "/platform/nodes.git", Ref: v1alpha1.GitRef{Branch: "main"}, Provider: v1alpha1.GitProviderGitHub, SecretRef: &v1alpha1.SecretRef{Name: "app"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "app"}, Data: map[string][]byte{
		"githubAppID": []byte("41"), "githubAppInstallationID": []byte("42\n"), "githubAppPrivateKey": pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.Certificate().Raw}),
	}}
	direct := reconcilertest.InstalledClient(t, sync, secret)
	a := &app{direct: direct, cfg: Config{caches: newCaches(Config{CacheDir: t.TempDir()})}}
	source, err := a.gitSource(sync)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(want error, text string) gitsource.Snapshot {
		t.Helper()
		snap, err := source.Fetch(t.Context())
		if !errors.Is(err, want) || want == nil && err != nil || err != nil && (!strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "PRIVATE")) {
			t.Fatalf("got %q, %v, want %v with %q", snap.Revision, err, want, text)
		}
		return snap
	}
	if snap := fetch(nil, ""); snap.Commit != first {
		t.Errorf("at %s", snap.Commit)
	}
	second := commitTo(t, bare, "a.yaml", "two\n")
	if snap := fetch(nil, ""); snap.Commit != second || e.given.Load() != 1 {
		t.Errorf("at %s with %d tokens", snap.Commit, e.given.Load())
	}

	e.given.Add(1) // The token was revoked.
	fetch(gitsource.ErrUnauthorized, "refuses the configured credentials")
	if snap := fetch(nil, ""); snap.Commit != second || e.given.Load() != 3 {
		t.Errorf("after a refusal it is at %s with %d tokens", snap.Commit, e.given.Load())
	}
	for status, want := range map[int]error{401: gitsource.ErrUnauthorized, 404: gitsource.ErrUnauthorized, 500: gitsource.ErrUnreachable, 429: gitsource.ErrUnreachable} {
		e.status.Store(int32(status))
		secret.Labels = map[string]string{"changed": fmt.Sprint(status)}
		if err := direct.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		fetch(want, "GitHub App")
		if last, ok := source.(interface {
			Last(ctx context.Context) (gitsource.Snapshot, bool)
		}).Last(t.Context()); !ok || last.Commit != second {
			t.Errorf("with status %d the last snapshot is %q", status, last.Commit)
		}
	}
	e.status.Store(0)
	// Until GitHub's limit ends, no request is sent but with another Secret.
	secret.Labels = nil
	if err := direct.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if snap := fetch(nil, ""); snap.Commit != second {
		t.Errorf("at %s", snap.Commit)
	}

	good := secret.Data
	for name, c := range map[string]struct{ key, value, text string }{
		"no number":      {"githubAppID", "s3cret", "the key githubAppID has to be a positive number"},
		"no App's key":   {"githubAppPrivateKey", "", "it has no key githubAppPrivateKey"},
		"another key":    {"githubAppPrivateKey", "s3cret", "it is not an RSA key in PEM"},
		"a certificate":  {"ca.crt", "s3cret", "the key ca.crt holds no certificate"},
		"no App but one": {"githubAppInstallationID", "0", "the key githubAppInstallationID has to be a positive number"},
	} {
		secret.Data = maps.Clone(good)
		secret.Data[c.key] = []byte(c.value)
		if err := direct.Update(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Fetch(t.Context()); !errors.Is(err, gitsource.ErrUnauthorized) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
