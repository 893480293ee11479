package github_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// tokenServer gives out tokens of an installation, each with its number.
type tokenServer struct {
	*httptest.Server
	key       *rsa.PrivateKey
	given     int
	requested map[string]any
	now       func() time.Time
	// instead is a status with which requests are refused; 0 refuses none.
	instead int
}

func newTokenServer(t *testing.T) *tokenServer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	s := &tokenServer{key: key, now: time.Now}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.instead == http.StatusTemporaryRedirect:
			http.Redirect(w, r, s.URL+"/elsewhere", s.instead)
		case s.instead != 0:
			refuse(w, s.instead, "no")
		case r.URL.Path != "/app/installations/42/access_tokens" || !signedBy(&key.PublicKey, r.Header.Get("Authorization")):
			refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		default:
			_ = json.NewDecoder(r.Body).Decode(&s.requested)
			s.given++
			write(w, http.StatusCreated, map[string]any{"token": fmt.Sprintf("ghs_s3cret%d", s.given), "expires_at": s.now().Add(time.Hour).UTC().Format(time.RFC3339)})
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) installation(t *testing.T, now func() time.Time) *github.Installation {
	t.Helper()
	i, err := github.NewInstallation(github.Config{Address: s.URL, Repository: "ada/nodes", Now: now, App: &github.App{
		ID: appID, Installation: installation, Key: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(s.key)}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestATokenForGitReadsOneRepositoryAndNothingElse, and is requested again before it expires.
func TestATokenForGitReadsOneRepositoryAndNothingElse(t *testing.T) {
	s := newTokenServer(t)
	at := time.Now()
	s.now = func() time.Time { return at }
	i := s.installation(t, s.now)
	next := func(want string) {
		t.Helper()
		if got, err := i.Token(t.Context()); err != nil || got != want {
			t.Errorf("got %q, %v, want %s", got, err, want)
		}
	}
	next("ghs_s3cret1")
	if diff := cmp.Diff(map[string]any{"repositories": []any{"nodes"}, "permissions": map[string]any{"contents": "read"}}, s.requested); diff != "" {
		t.Errorf("requested (-want +got):\n%s", diff)
	}
	next("ghs_s3cret1")
	at = at.Add(49 * time.Minute)
	next("ghs_s3cret1")
	at = at.Add(2 * time.Minute)
	next("ghs_s3cret2")
	next("ghs_s3cret2")
	i.Invalidate()
	next("ghs_s3cret3")
	next("ghs_s3cret3")
}

func TestARefusedTokenIsAnErrorWithTheRemedy(t *testing.T) {
	for status, text := range map[int]string{
		http.StatusUnauthorized: "the App's ID does not belong to its private key", http.StatusForbidden: "suspended", http.StatusNotFound: "no such installation",
		http.StatusUnprocessableEntity: `it needs "Contents: read"`, http.StatusTemporaryRedirect: "", http.StatusInternalServerError: "",
	} {
		s := newTokenServer(t)
		i := s.installation(t, time.Now)
		first, err := i.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.instead = status
		if again, err := i.Token(t.Context()); err != nil || again != first {
			t.Errorf("%d: a token that is valid is not used: %v", status, err)
		}
		other := s.installation(t, time.Now)
		_, err = other.Token(t.Context())
		refused, ok := errors.AsType[*forge.Error](err)
		if !ok || refused.Code != status || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "eyJ") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestAnInstallationThatCannotBeIsRefused(t *testing.T) {
	good := newTokenServer(t)
	key := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(good.key)})
	for name, c := range map[string]github.Config{
		"no App":        {Repository: "ada/nodes", Now: time.Now},
		"no clock":      {Repository: "ada/nodes", App: &github.App{ID: 1, Installation: 2, Key: key}},
		"no repository": {Now: time.Now, App: &github.App{ID: 1, Installation: 2, Key: key}},
		"no number":     {Repository: "ada/nodes", Now: time.Now, App: &github.App{ID: 1, Key: key}},
		"no key":        {Repository: "ada/nodes", Now: time.Now, App: &github.App{ID: 1, Installation: 2, Key: []byte("s3cret")}},
		"no address":    {Address: "s3cret", Repository: "ada/nodes", Now: time.Now, App: &github.App{ID: 1, Installation: 2, Key: key}},
	} {
		if _, err := github.NewInstallation(c); err == nil || name == "no key" && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
