package forgeclient

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func pullingSync(provider v1alpha1.ForgeProvider, git, url string) *v1alpha1.Sync {
	s := &v1alpha1.Sync{}
	s.Spec.Source.Git.URL = git
	s.Spec.PullRequests = &v1alpha1.PullRequests{Provider: provider, URL: url, SecretRef: v1alpha1.SecretRef{Name: "forge"}}
	return s
}

func TestARepositoryIsReadFromTheAddressThatPeopleCloneItBy(t *testing.T) {
	const hub, lab, tea = v1alpha1.ForgeGitHub, v1alpha1.ForgeGitLab, v1alpha1.ForgeGitea
	tests := []struct {
		provider       v1alpha1.ForgeProvider
		git, url       string
		api, name, err string
	}{
		{hub, "https://github.com/Platform/nodes.git", "", "https://api.github.com", "Platform/nodes", ""},
		{hub, "https://GitHub.com/platform/nodes/", "", "https://api.github.com", "platform/nodes", ""},
		{hub, "https://www.github.com/platform/.github", "", "https://api.github.com", "platform/.github", ""},
		{hub, "https://ghe.example.com:8443/platform/nodes.git/", "", "https://ghe.example.com:8443/api/v3", "platform/nodes", ""},
		{hub, "https://example.ghe.com/platform/nodes", "", "https://api.example.ghe.com", "platform/nodes", ""},
		{hub, "https://mirror.example.com/nodes", "https://github.com/platform/nodes", "https://api.github.com", "platform/nodes", ""},
		{hub, "http://127.0.0.1:3000/platform/nodes", "", "http://127.0.0.1:3000/api/v3", "platform/nodes", ""},
		{hub, "https://github.com/prefix/platform/nodes", "", "", "", "no repositories below /prefix"},
		{lab, "https://gitlab.com/platform/nodes.git", "", "https://gitlab.com", "platform/nodes", ""},
		{lab, "https://gitlab.example.com:8443/platform/gpu.team/nodes/", "", "https://gitlab.example.com:8443", "platform/gpu.team/nodes", ""},
		{lab, "ssh://git@gitlab.com/platform/gpu/nodes.git", "https://gitlab.com/platform/gpu/nodes", "https://gitlab.com", "platform/gpu/nodes", ""},
		{lab, "https://gitlab.com/nodes.git", "", "", "", "owner/name"},
		{lab, "https://gitlab.com/platform%2Fnodes", "", "", "", "https://host/owner/name"},
		{tea, "https://git.example.com/platform/nodes.git", "", "https://git.example.com", "platform/nodes", ""},
		{tea, "https://example.com/git/forge/platform/nodes.git", "", "https://example.com/git/forge", "platform/nodes", ""},
		{v1alpha1.ForgeForgejo, "https://codeberg.org/platform/nodes", "", "https://codeberg.org", "platform/nodes", ""},
		{tea, "https://git.example.com/nodes.git", "", "", "", "spec.source.git.url"},
		{tea, "https://git.example.com/platform/.git", "", "", "", "owner/name"},
		{tea, "https://git.example.com//nodes", "", "", "", "owner/name"},
		{tea, "https://git.example.com/", "https://git.example.com/nodes", "", "", "spec.pullRequests.url"},
		{tea, "https://ada:s3cret@git.example.com/a/b", "", "", "", "credentials"},
		{tea, "https://git.example.com/a/b?token=s3cret", "", "", "", "query"},
		{tea, "https://git.example.com/a%2Fb/c", "", "", "", "https://host/owner/name"},
		{tea, "git@git.example.com:a/b.git", "", "", "", "https://host/owner/name"},
		{tea, "ssh://git@git.example.com/a/b.git", "", "", "", "set spec.pullRequests.url to https://host/owner/name"},
		{tea, "ssh://git@git.example.com/a/b.git", "https://git.example.com/a/b", "https://git.example.com", "a/b", ""},
		{tea, "https://s3cret\x7f@[::1/a/b", "", "", "", "https://host/owner/name"},
		{tea, "", "", "", "", "https://host/owner/name"},
	}
	for _, tt := range tests {
		got, err := RepositoryOf(pullingSync(tt.provider, tt.git, tt.url))
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s %s: got %+v, %v", tt.git, tt.url, got, err)
			}
			continue
		}
		if err != nil || got.API != tt.api || got.Name != tt.name || got.loopbackOnly != strings.HasPrefix(tt.api, "http://") {
			t.Errorf("%s %s: got %+v, %v", tt.git, tt.url, got, err)
		}
	}
}

func appKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func TestACredentialThatCannotBeIsNamedByItsSecretAndKey(t *testing.T) {
	const hub, lab, tea = v1alpha1.ForgeGitHub, v1alpha1.ForgeGitLab, v1alpha1.ForgeGitea
	key := appKey(t)
	tests := []struct {
		name     string
		provider v1alpha1.ForgeProvider
		url      string
		secret   map[string]string
		want     string // of the error; empty: it works
	}{
		{"a token for GitHub", hub, "", map[string]string{"token": "s3cret\n"}, ""},
		{"a token for Gitea", tea, "", map[string]string{"token": "s3cret"}, ""},
		{"a token for GitLab", lab, "", map[string]string{"token": "glpat-s3cret\n"}, ""},
		{"nothing for GitLab", lab, "", map[string]string{"password": "s3cret"}, `Secret "forge": it has no key token`},
		{"a project that cannot be", lab, "https://gitlab.com/a/b$c/d", map[string]string{"token": "s3cret"}, "group/name"},
		{"an App", hub, "", map[string]string{"githubAppID": "12\n", "githubAppInstallationID": " 34", "githubAppPrivateKey": key}, ""},
		{"nothing", hub, "", nil, `Secret "forge": it has no key token: put a token there, or the keys githubAppID`},
		{"nothing for Gitea", tea, "", map[string]string{"password": "s3cret"}, `Secret "forge": it has no key token`},
		{"an App for Gitea", tea, "", map[string]string{"githubAppID": "12", "githubAppInstallationID": "34", "githubAppPrivateKey": key}, "no key token"},
		{"both", hub, "", map[string]string{"token": "s3cret", "githubAppID": "12"}, "remove one"},
		{"an App without its number", hub, "", map[string]string{"githubAppInstallationID": "34", "githubAppPrivateKey": key}, "githubAppID has to be"},
		{"an App whose installation is a text", hub, "", map[string]string{"githubAppID": "12", "githubAppInstallationID": "s3cret", "githubAppPrivateKey": key}, "githubAppInstallationID has to be"},
		{"an App of minus one", hub, "", map[string]string{"githubAppID": "-1", "githubAppInstallationID": "2", "githubAppPrivateKey": key}, "githubAppID has to be"},
		{"an App without a key", hub, "", map[string]string{"githubAppID": "12", "githubAppInstallationID": "34"}, "githubAppPrivateKey"},
		{"an App with a key that is none", hub, "", map[string]string{"githubAppID": "12", "githubAppInstallationID": "34", "githubAppPrivateKey": "s3cret"}, "private key"},
		{"a token of two lines", tea, "", map[string]string{"token": "s3cret\ns3cret"}, "white space"},
		{"a token with a header in it", hub, "", map[string]string{"token": "s3cret\r\nX-Evil: 1"}, "white space"},
		{"a token of other letters", hub, "", map[string]string{"token": "s3crét"}, "white space"},
		{"an authority that is none", tea, "", map[string]string{"token": "s3cret", "ca.crt": "s3cret"}, "key ca.crt holds no certificate"},
		{"plain http to another machine", tea, "http://git.example.com/a/b", map[string]string{"token": "s3cret"}, "use https://"},
		{"a name that cannot be", tea, "https://git.example.com/a b/c", map[string]string{"token": "s3cret"}, "owner/name"},
		{"another forge", "Bitbucket", "", map[string]string{"token": "s3cret"}, "spec.pullRequests.provider"},
	}
	for _, tt := range tests {
		secret := map[string][]byte{}
		for key, value := range tt.secret {
			secret[key] = []byte(value)
		}
		f, err := New(pullingSync(tt.provider, "https://git.example.com/platform/nodes.git", tt.url), secret, time.Now, unfenced)
		switch {
		case tt.want == "" && (err != nil || f == nil):
			t.Errorf("%s: got %v", tt.name, err)
		case tt.want != "" && (err == nil || f != nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, %v", tt.name, f, err)
		case err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "PRIVATE KEY-")):
			t.Errorf("%s: a value is told: %v", tt.name, err)
		}
	}
	if _, err := New(&v1alpha1.Sync{}, nil, time.Now, unfenced); err == nil {
		t.Error("a Sync without pull requests has a forge")
	}
}

func unfenced(next http.RoundTripper) http.RoundTripper { return next }

// closed is a fence that lets no write pass.
type closed struct{ next http.RoundTripper }

var errClosed = errors.New("this replica does not lead")

// RoundTrip implements http.RoundTripper.
func (c closed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return nil, errClosed
	}
	return c.next.RoundTrip(r)
}

func TestAClosedFenceKeepsWritesFromEachForge(t *testing.T) {
	for _, provider := range []v1alpha1.ForgeProvider{v1alpha1.ForgeGitHub, v1alpha1.ForgeGitLab, v1alpha1.ForgeGitea, v1alpha1.ForgeForgejo} {
		var writes atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				writes.Add(1)
			}
			w.Header().Set("Content-Type", "application/json")
			empty := "[]"
			if strings.HasSuffix(r.URL.Path, "/status") {
				empty = "{}"
			}
			_, _ = io.WriteString(w, empty)
		}))
		t.Cleanup(server.Close)
		for name, fence := range map[string]func(http.RoundTripper) http.RoundTripper{
			"closed": func(next http.RoundTripper) http.RoundTripper { return closed{next} }, "open": unfenced,
		} {
			f, err := New(pullingSync(provider, server.URL+"/platform/nodes", ""), map[string][]byte{"token": []byte("s3cret")}, time.Now, fence)
			if err != nil {
				t.Fatal(err)
			}
			writes.Store(0)
			err = f.Status(t.Context(), strings.Repeat("a", 40), forge.Status{Context: "c", State: forge.Success})
			if passed := writes.Load() > 0; passed != (name == "open") || name == "closed" && err == nil {
				t.Errorf("%s, %s: %d writes reached the forge, and the call returned %v", provider, name, writes.Load(), err)
			}
		}
	}
}

// listening is a forge that answers listings with none, and notes what it sees.
func listening(t *testing.T, start func(http.Handler) *httptest.Server) (*httptest.Server, *atomic.Value) {
	t.Helper()
	var observed atomic.Value
	observed.Store("")
	server := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		observed.Store(r.URL.EscapedPath() + " " + r.Header.Get("Authorization") + r.Header.Get("PRIVATE-TOKEN"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "[]")
	}))
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	return server, &observed
}

func requested(t *testing.T, provider v1alpha1.ForgeProvider, url string, more map[string][]byte) error {
	t.Helper()
	secret := map[string][]byte{"token": []byte("s3cret")}
	maps.Copy(secret, more)
	f, err := New(pullingSync(provider, url, ""), secret, time.Now, unfenced)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = f.PullRequests(ctx, forge.Listing{})
	if err != nil && strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the token is told: %v", err)
	}
	return err
}

func TestEachForgesOwnAPIIsUsed(t *testing.T) {
	server, observed := listening(t, httptest.NewServer)
	for _, tt := range []struct {
		provider   v1alpha1.ForgeProvider
		path, want string
	}{
		{v1alpha1.ForgeGitHub, "/platform/nodes.git", "/api/v3/repos/platform/nodes/pulls Bearer s3cret"},
		{v1alpha1.ForgeGitLab, "/platform/gpu/nodes.git", "/api/v4/projects/platform%2Fgpu%2Fnodes/pipelines s3cret"},
		{v1alpha1.ForgeGitea, "/git/platform/nodes/", "/git/api/v1/repos/platform/nodes/pulls token s3cret"},
		{v1alpha1.ForgeForgejo, "/platform/nodes", "/api/v1/repos/platform/nodes/pulls token s3cret"},
	} {
		if err := requested(t, tt.provider, server.URL+tt.path, nil); err != nil || observed.Load() != tt.want {
			t.Errorf("%s: got %q, %v", tt.provider, observed.Load(), err)
		}
	}
}

func TestAPrivateAuthorityIsTrustedWhereTheSecretNamesIt(t *testing.T) {
	server, observed := listening(t, httptest.NewTLSServer)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := requested(t, v1alpha1.ForgeGitea, server.URL+"/a/b", nil); err == nil || observed.Load() != "" {
		t.Errorf("an unknown authority: got %v, and it saw %q", err, observed.Load())
	}
	if err := requested(t, v1alpha1.ForgeGitea, server.URL+"/a/b", map[string][]byte{"ca.crt": ca}); err != nil || observed.Load() == "" {
		t.Errorf("got %v", err)
	}
}

func TestATokenDoesNotFollowARedirectElsewhere(t *testing.T) {
	elsewhere, observed := listening(t, httptest.NewServer)
	forwarding := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(forwarding.Close)
	for _, provider := range []v1alpha1.ForgeProvider{v1alpha1.ForgeGitHub, v1alpha1.ForgeGitLab, v1alpha1.ForgeGitea} {
		if err := requested(t, provider, forwarding.URL+"/a/b", nil); err == nil || observed.Load() != "" {
			t.Errorf("%s: got %v, and the other host saw %q", provider, err, observed.Load())
		}
	}
}

func TestNoForgeLeadsToAMetadataServiceOrOverPlainHTTPAway(t *testing.T) {
	for address, refused := range map[string][2]bool{ // by https, by http
		"127.0.0.1:443": {false, false}, "[::1]:443": {false, false}, "[::ffff:127.0.0.1]:80": {false, false},
		"10.0.0.1:443": {false, true}, "192.0.2.1:443": {false, true}, "[2001:db8::1]:443": {false, true},
		"169.254.169.254:80": {true, true}, "[::ffff:169.254.169.254]:80": {true, true}, "169.254.170.2:443": {true, true},
		"[fe80::1%eth0]:443": {true, true}, "[fd00:ec2::254]:80": {true, true}, "0.0.0.0:443": {true, true}, "[::]:443": {true, true},
		"224.0.0.1:443": {true, true}, "no address": {true, true},
	} {
		for i, loopbackOnly := range []bool{false, true} {
			if err := mayConnect(address, loopbackOnly); (err != nil) != refused[i] {
				t.Errorf("%s, plain http %v: got %v", address, loopbackOnly, err)
			}
		}
	}
	err := requested(t, v1alpha1.ForgeGitea, "https://169.254.169.254/a/b", nil)
	var known *forge.Error
	if !errors.As(err, &known) || !strings.Contains(known.Message, "metadata") {
		t.Errorf("got %v", err)
	}
}
