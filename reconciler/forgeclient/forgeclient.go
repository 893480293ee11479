// Package forgeclient makes the client of the forge that a Sync's pull requests are
// at (spec.pullRequests), from the Sync and the Secret that it names.
//
// It refuses addresses that would take a token to another host, to a link-local address or
// over plain HTTP. No error repeats a value of the Secret. The keys of the Secret are Flux's, so
// that one can serve both. Start reading at New.
package forgeclient

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/fluxcd/pkg/runtime/secrets"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitea"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitlab"
)

// New makes the client of the forge that a Sync's pull requests are at, with the content
// of the Secret that spec.pullRequests.secretRef names. It makes no request. Its errors
// name the field, or the Secret and its key, and the remedy. A Forge keeps what it wrote,
// so the caller keeps it for as long as the Sync and the Secret stay as they are. Each of its
// requests is sent through the transport that fence makes of the one that connects.
func New(sync *v1alpha1.Sync, secret map[string][]byte, now func() time.Time, fence func(http.RoundTripper) http.RoundTripper) (forge.Forge, error) {
	spec := sync.Spec.PullRequests
	if spec == nil {
		return nil, errors.New("connecting to the forge: the Sync has no spec.pullRequests")
	}
	at, err := RepositoryOf(sync)
	if err != nil {
		return nil, err
	}
	connecting, err := newTransport(at.loopbackOnly, spec.SecretRef.Name, secret[secrets.KeyCACert])
	if err != nil {
		return nil, err
	}
	transport := fence(connecting)
	switch spec.Provider {
	case v1alpha1.ForgeGitHub:
		config := github.Config{Address: at.API, Repository: at.Name, Transport: transport, Now: now}
		if config.Token, config.App, err = githubCredential(spec.SecretRef.Name, secret); err != nil {
			return nil, err
		}
		f, err := github.New(config)
		if err != nil {
			return nil, fmt.Errorf("reading %s and Secret %q: %w", at.field, spec.SecretRef.Name, err)
		}
		return f, nil
	case v1alpha1.ForgeGitLab, v1alpha1.ForgeGitea, v1alpha1.ForgeForgejo:
		token, err := tokenOf(spec.SecretRef.Name, secret, "put a token there")
		if err != nil {
			return nil, err
		}
		f, err := withToken(spec.Provider, at, token, transport, now)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", at.field, err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("reading spec.pullRequests.provider: %q is not one of GitHub, GitLab, Gitea, Forgejo", spec.Provider)
}

// withToken is the client of a provider that has only tokens.
func withToken(provider v1alpha1.ForgeProvider, at Repository, token string, transport http.RoundTripper, now func() time.Time) (forge.Forge, error) {
	if provider == v1alpha1.ForgeGitLab {
		return gitlab.New(gitlab.Config{Address: at.API, Project: at.Name, Token: token, Transport: transport, Now: now})
	}
	return gitea.New(gitea.Config{Address: at.API, Repository: at.Name, Token: token, Transport: transport, Now: now})
}

// apps are the keys of a GitHub App.
const apps = secrets.KeyGitHubAppID + ", " + secrets.KeyGitHubAppInstallationID + " and " + secrets.KeyGitHubAppPrivateKey

// NewInstallation makes what gives out tokens of a GitHub App with which the repository of spec.source.git is read, with
// the content of the Secret that spec.source.git.secretRef names. It makes no request; those for tokens go by proxy,
// where that is not nil. Its errors are as of New.
func NewInstallation(sync *v1alpha1.Sync, secret map[string][]byte, proxy *url.URL, now func() time.Time) (*github.Installation, error) {
	git := sync.Spec.Source.Git
	if git.SecretRef == nil {
		return nil, errors.New("reading spec.source.git: provider github needs secretRef")
	}
	at, err := repositoryAt(gitURL, git.URL, v1alpha1.ForgeGitHub)
	if err != nil {
		return nil, err
	}
	app, err := appOf(git.SecretRef.Name, secret)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(at.loopbackOnly, git.SecretRef.Name, secret[secrets.KeyCACert])
	if err != nil {
		return nil, err
	}
	if proxy != nil && !at.loopbackOnly {
		transport.Proxy = http.ProxyURL(proxy)
	}
	i, err := github.NewInstallation(github.Config{Address: at.API, Repository: at.Name, App: app, Transport: transport, Now: now})
	if err != nil {
		return nil, fmt.Errorf("reading %s and Secret %q: %w", at.field, git.SecretRef.Name, err)
	}
	return i, nil
}

// NewRegistrar makes what registers GitHub Apps for the repository at an address such as https://github.com/owner/name. It makes
// no request.
func NewRegistrar(address string, now func() time.Time) (*github.Registrar, error) {
	at, err := repositoryAt("the repository's address", address, v1alpha1.ForgeGitHub)
	if err != nil {
		return nil, err
	}
	transport, err := newTransport(at.loopbackOnly, "", nil)
	if err != nil {
		return nil, err
	}
	return github.NewRegistrar(github.Config{Address: at.API, Repository: at.Name, Transport: transport, Now: now})
}

// githubCredential is a token or an App; having both, it would be unclear as whom the
// comments are written.
func githubCredential(name string, secret map[string][]byte) (token string, app *github.App, err error) {
	some := len(secret[secrets.KeyGitHubAppID])+len(secret[secrets.KeyGitHubAppInstallationID])+len(secret[secrets.KeyGitHubAppPrivateKey]) > 0
	switch {
	case some && len(secret[secrets.KeyToken]) > 0:
		return "", nil, fmt.Errorf("reading Secret %q: it has the key %s and keys of a GitHub App: remove one or the other", name, secrets.KeyToken)
	case !some:
		token, err = tokenOf(name, secret, "put a token there, or the keys "+apps+" of a GitHub App")
		return token, nil, err
	}
	app, err = appOf(name, secret)
	return "", app, err
}

// appOf reads the keys of a GitHub App, which are Flux's.
func appOf(name string, secret map[string][]byte) (*github.App, error) {
	app := &github.App{Key: secret[secrets.KeyGitHubAppPrivateKey]}
	for key, into := range map[string]*int64{secrets.KeyGitHubAppID: &app.ID, secrets.KeyGitHubAppInstallationID: &app.Installation} {
		id, err := strconv.ParseInt(string(bytes.TrimSpace(secret[key])), 10, 64)
		*into = id
		if err != nil || id <= 0 {
			return nil, fmt.Errorf("reading Secret %q: the key %s has to be a positive number: a GitHub App takes all of %s", name, key, apps)
		}
	}
	if len(bytes.TrimSpace(app.Key)) == 0 {
		return nil, fmt.Errorf("reading Secret %q: it has no key %s: put the App's private key there, in PEM", name, secrets.KeyGitHubAppPrivateKey)
	}
	return app, nil
}

// tokenOf refuses what no forge gives out, such as a token with its file's
// other lines: the HTTP client would, too, but with a poorer error.
func tokenOf(name string, secret map[string][]byte, remedy string) (string, error) {
	token := string(bytes.TrimSpace(secret[secrets.KeyToken]))
	if token == "" {
		return "", fmt.Errorf("reading Secret %q: it has no key %s: %s", name, secrets.KeyToken, remedy)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("reading Secret %q: the key %s holds white space or characters that no token has: put the token alone there", name, secrets.KeyToken)
	}
	return token, nil
}

// Repository is a repository at its provider.
type Repository struct {
	// field is where the address was read from.
	field string
	// API is the address that its client takes, Name is owner/name, at GitLab with all groups.
	API, Name string
	// loopbackOnly is for an address that is plain HTTP.
	loopbackOnly bool
}

// gitURL is the field with the address that a Sync's repository is cloned by.
const gitURL = "spec.source.git.url"

// RepositoryOf reads a Sync's repository at its provider from the address that it is
// cloned by. The path may lie below a prefix, but neither at GitHub nor at GitLab, where all of
// it is the project's.
func RepositoryOf(sync *v1alpha1.Sync) (Repository, error) {
	at, raw := Repository{field: gitURL}, sync.Spec.Source.Git.URL
	provider := v1alpha1.ForgeProvider("")
	if spec := sync.Spec.PullRequests; spec != nil {
		provider = spec.Provider
		if spec.URL != "" {
			at.field, raw = "spec.pullRequests.url", spec.URL
		}
	}
	if at.field == gitURL && strings.HasPrefix(raw, "ssh://") {
		return Repository{}, errors.New("reading spec.source.git.url: it is an ssh address, and the API of the forge is reached by https: set spec.pullRequests.url to https://host/owner/name")
	}
	return repositoryAt(at.field, raw, provider)
}

// repositoryAt reads an address of a repository, which was read from a field.
func repositoryAt(field, raw string, provider v1alpha1.ForgeProvider) (Repository, error) {
	at := Repository{field: field}
	u, err := parseURL(raw)
	if err != nil {
		return Repository{}, fmt.Errorf("reading %s: %w", at.field, err)
	}
	parts := strings.Split(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), "/")
	if len(parts) < 2 || parts[len(parts)-1] == "" || parts[len(parts)-2] == "" {
		return Repository{}, fmt.Errorf("reading %s: its path does not end with owner/name", at.field)
	}
	prefix := len(parts) - 2
	if provider == v1alpha1.ForgeGitLab {
		prefix = 0
	}
	at.Name, parts = strings.Join(parts[prefix:], "/"), parts[:prefix]
	at.loopbackOnly = u.Scheme == "http"
	at.API = strings.Join(append([]string{u.Scheme + "://" + u.Host}, parts...), "/")
	if provider == v1alpha1.ForgeGitHub {
		if len(parts) > 0 {
			return Repository{}, fmt.Errorf("reading %s: GitHub has no repositories below /%s: give https://host/owner/name", at.field, strings.Join(parts, "/"))
		}
		at.API = githubAPI(u)
	}
	return at, nil
}

// parseURL reads an address of a repository. Its text may hold a credential, so no error
// repeats it.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawPath != "" {
		return nil, errors.New("it is not of the form https://host/owner/name")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("it may hold neither credentials nor a query or fragment")
	}
	return u, nil
}

// githubAPI is where GitHub's API is: beside github.com and beside a company's
// ghe.com, or below the host of an Enterprise Server.
func githubAPI(u *url.URL) string {
	switch host := strings.ToLower(u.Hostname()); {
	case host == "github.com" || host == "www.github.com":
		return github.Address
	case strings.HasSuffix(host, ".ghe.com"):
		return u.Scheme + "://api." + strings.ToLower(u.Host)
	}
	return u.Scheme + "://" + u.Host + "/api/v3"
}
