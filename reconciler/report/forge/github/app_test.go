package github_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

const (
	appID        = 41
	anotherAppID = 77
	installation = 42
)

// appKey is one key for all tests: to make it takes a while.
var appKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// installed makes the hub one that has an App by its key, and gives out tokens for what it grants. What was requested comes
// to the list.
func installed(t *testing.T, h *hub) (*github.Forge, *[]map[string]any) {
	t.Helper()
	key, err := appKey()
	if err != nil {
		t.Fatal(err)
	}
	var requested []map[string]any
	delete(h.tokens, token)
	h.me = map[string]any{"id": 99, "login": "poolwright-of-ada[bot]", "type": "Bot"}
	h.granted = map[string]any{"pull_requests": "write", "statuses": "write", "checks": "write"}
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		app := r.URL.Path == "/app"
		if !app && r.URL.Path != "/app/installations/42/access_tokens" {
			return false
		}
		switch {
		case !signedBy(&key.PublicKey, r.Header.Get("Authorization")):
			refuse(w, http.StatusUnauthorized, "A JSON web token could not be decoded")
		case app:
			write(w, http.StatusOK, map[string]any{"id": appID, "slug": "poolwright-of-ada", "name": "Poolwright of Ada"})
		default:
			var sent map[string]any
			_ = json.NewDecoder(r.Body).Decode(&sent)
			requested = append(requested, sent)
			permissions, _ := sent["permissions"].(map[string]any)
			for name, access := range permissions {
				if h.granted[name] != access {
					refuse(w, http.StatusUnprocessableEntity, "The permissions requested are not granted to this installation.")
					return true
				}
			}
			given := fmt.Sprintf("ghs_installed%dsecret", len(requested))
			h.tokens[given] = permissions
			write(w, http.StatusCreated, map[string]any{"token": given, "expires_at": time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "permissions": permissions})
		}
		return true
	}
	h.app = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return h.installation(t), &requested
}

// installation connects as the App, with an empty cache.
func (h *hub) installation(t *testing.T) *github.Forge {
	t.Helper()
	return h.installationOf(t, appID)
}

func (h *hub) installationOf(t *testing.T, app int64) *github.Forge {
	t.Helper()
	return h.installationBy(t, app, nil)
}

func (h *hub) installationBy(t *testing.T, app int64, transport http.RoundTripper) *github.Forge {
	t.Helper()
	return h.connect(t, github.Config{App: &github.App{ID: app, Installation: installation, Key: h.app}, Transport: transport})
}

// signedBy verifies a JSON web token by the App's public key.
func signedBy(key *rsa.PublicKey, authorization string) bool {
	parts := strings.Split(strings.TrimPrefix(authorization, "Bearer "), ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	claims, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var got struct {
		Issuer string `json:"iss"`
	}
	_ = json.Unmarshal(claims, &got)
	return err == nil && (got.Issuer == "41" || got.Issuer == "77") && rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
}

func TestAnAppRequestsNoMoreThanItNeeds(t *testing.T) {
	h := newHub(t)
	h.add(1)
	h.addComment(1, map[string]any{"id": 98, "login": "poolwright-of-ada", "type": "User"}, string(marker)+"\nby a person of the same name")
	f, requested := installed(t, h)
	for range 2 {
		post(t, f, 1, forge.Comment{Marker: marker, Body: "of the App"})
	}
	list(t, f, forge.Listing{})
	if err := calls["status"](t.Context(), f); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"repositories": []any{"nodes"}, "permissions": map[string]any{"pull_requests": "write"}},
		{"repositories": []any{"nodes"}, "permissions": map[string]any{"checks": "write"}},
		{"repositories": []any{"nodes"}, "permissions": map[string]any{"statuses": "write"}},
	}
	if diff := cmp.Diff(want, *requested); diff != "" {
		t.Error(diff)
	}
	if got := h.bodies(1); len(got) != 2 || got[1] != "poolwright-of-ada[bot]: "+string(marker)+"\nof the App" {
		t.Errorf("got %q", got)
	}
	tokens, identities := 0, 0
	for _, r := range h.counted() {
		if strings.HasSuffix(r, "/access_tokens") {
			tokens++
		}
		if r == "GET /app" {
			identities++
		}
	}
	if tokens != 3 || identities != 1 {
		t.Errorf("%d tokens and %d identities were asked for", tokens, identities)
	}
}

func TestAnInstallationThatGivesNoTokenNamesTheRemedy(t *testing.T) {
	tests := map[string]struct {
		code int
		body any
		want string
	}{
		"a wrong key":             {401, map[string]any{"message": "A JSON web token could not be decoded"}, "does not belong to its private key"},
		"suspended":               {403, map[string]any{"message": "This installation has been suspended"}, "resume it"},
		"not there":               {404, map[string]any{"message": "Not Found"}, "no such installation"},
		"permissions not granted": {422, map[string]any{"message": "The permissions requested are not granted to this installation."}, `"Pull requests: Read and write"`},
		"nothing":                 {201, nil, "no token"},
		"no token":                {201, map[string]any{"expires_at": "2030-01-01T00:00:00Z"}, "no token"},
		"a list":                  {201, []any{}, "no token"},
		"a time that is none":     {201, map[string]any{"token": "ghs_installed0secret", "expires_at": "soon"}, ""},
		"an outage":               {500, "x", "responded with status 500"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			f, _ := installed(t, h)
			h.before = func(w http.ResponseWriter, r *http.Request) bool { write(w, tt.code, tt.body); return true }
			_, err := f.PullRequests(t.Context(), forge.Listing{})
			var known *forge.Error
			if !errors.As(err, &known) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "ghs_") {
				t.Errorf("got %v", err)
			}
		})
	}
}
