package wire

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitea"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// The keys of the Secret that spec.pullRequests.secretRef names. Those of a
// GitHub App are Flux's, so that one Secret can serve both.
const (
	keyToken        = "token"
	keyCA           = "ca.crt"
	keyApp          = "githubAppID"
	keyInstallation = "githubAppInstallationID"
	keyPrivateKey   = "githubAppPrivateKey"
	keyWebhook      = "webhookSecret"
	keyWebhookOld   = "webhookSecretOld"
)

// newForge connects a Sync's pull requests with the forge that they are at, by
// the content of the Secret that spec.pullRequests.secretRef names. It makes no
// request. Its errors are all for a person to mend: they name the field, or the
// Secret and its key, and what to do; never a value. A Forge remembers what it
// wrote, so whoever asks keeps it for as long as the Sync and the Secret stay as
// they are.
func newForge(sync *v1alpha1.Sync, secret map[string][]byte, now func() time.Time) (forge.Forge, error) {
	spec := sync.Spec.PullRequests
	if spec == nil {
		return nil, errors.New("connecting to the forge: the Sync has no spec.pullRequests")
	}
	at, err := repositoryOf(sync)
	if err != nil {
		return nil, err
	}
	transport, err := forgeTransport(at.onlyHere, spec.SecretRef.Name, secret[keyCA])
	if err != nil {
		return nil, err
	}
	switch spec.Provider {
	case v1alpha1.ForgeGitHub:
		config := github.Config{Address: at.api, Repository: at.name, Transport: transport, Now: now}
		if config.Token, config.App, err = githubCredential(spec.SecretRef.Name, secret); err != nil {
			return nil, err
		}
		f, err := github.New(config)
		if err != nil {
			return nil, fmt.Errorf("reading %s and Secret %q: %w", at.field, spec.SecretRef.Name, err)
		}
		return f, nil
	case v1alpha1.ForgeGitea, v1alpha1.ForgeForgejo:
		token, err := tokenOf(spec.SecretRef.Name, secret, "put a token there")
		if err != nil {
			return nil, err
		}
		f, err := gitea.New(gitea.Config{Address: at.api, Repository: at.name, Token: token, Transport: transport, Now: now})
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", at.field, err)
		}
		return f, nil
	}
	return nil, fmt.Errorf("reading spec.pullRequests.provider: %q is not one of GitHub, Gitea, Forgejo", spec.Provider)
}

// githubCredential is a token or an App; having both, nobody could tell as whom
// the comments are written.
func githubCredential(name string, secret map[string][]byte) (token string, app *github.App, err error) {
	const apps = keyApp + ", " + keyInstallation + " and " + keyPrivateKey
	some := len(secret[keyApp])+len(secret[keyInstallation])+len(secret[keyPrivateKey]) > 0
	switch {
	case some && len(secret[keyToken]) > 0:
		return "", nil, fmt.Errorf("reading Secret %q: it has the key %s and keys of a GitHub App: remove one or the other", name, keyToken)
	case !some:
		token, err = tokenOf(name, secret, "put a token there, or the keys "+apps+" of a GitHub App")
		return token, nil, err
	}
	app = &github.App{Key: secret[keyPrivateKey]}
	for key, into := range map[string]*int64{keyApp: &app.ID, keyInstallation: &app.Installation} {
		if *into, err = strconv.ParseInt(string(bytes.TrimSpace(secret[key])), 10, 64); err != nil || *into <= 0 {
			return "", nil, fmt.Errorf("reading Secret %q: the key %s has to be a positive number: a GitHub App takes all of %s", name, key, apps)
		}
	}
	if len(bytes.TrimSpace(app.Key)) == 0 {
		return "", nil, fmt.Errorf("reading Secret %q: it has no key %s: put the App's private key there, in PEM", name, keyPrivateKey)
	}
	return "", app, nil
}

// tokenOf refuses what no forge gives out, such as a token with its file's
// other lines: the HTTP client would, too, but with less to say.
func tokenOf(name string, secret map[string][]byte, remedy string) (string, error) {
	token := string(bytes.TrimSpace(secret[keyToken]))
	if token == "" {
		return "", fmt.Errorf("reading Secret %q: it has no key %s: %s", name, keyToken, remedy)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r > unicode.MaxASCII || r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("reading Secret %q: the key %s holds white space or characters that no token has: put the token alone there", name, keyToken)
	}
	return token, nil
}

// place is a repository at a forge.
type place struct {
	// field is where the address was read from.
	field string
	// api is the address that its client wants, name is owner/name.
	api, name string
	// onlyHere says that the address is plain http, for this machine alone.
	onlyHere bool
}

// repositoryOf reads a Sync's repository at its forge from the address that
// people clone it by. The path may lie below a prefix, but not at GitHub.
func repositoryOf(sync *v1alpha1.Sync) (place, error) {
	at, raw := place{field: "spec.source.git.url"}, sync.Spec.Source.Git.URL
	provider := v1alpha1.ForgeProvider("")
	if spec := sync.Spec.PullRequests; spec != nil {
		provider = spec.Provider
		if spec.URL != "" {
			at.field, raw = "spec.pullRequests.url", spec.URL
		}
	}
	u, err := bare(raw)
	if err != nil {
		return place{}, fmt.Errorf("reading %s: %w", at.field, err)
	}
	parts := strings.Split(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), "/")
	if len(parts) < 2 || parts[len(parts)-1] == "" || parts[len(parts)-2] == "" {
		return place{}, fmt.Errorf("reading %s: its path does not end with owner/name", at.field)
	}
	at.name, parts = strings.Join(parts[len(parts)-2:], "/"), parts[:len(parts)-2]
	at.onlyHere = u.Scheme == "http"
	at.api = strings.Join(append([]string{u.Scheme + "://" + u.Host}, parts...), "/")
	if provider == v1alpha1.ForgeGitHub {
		if len(parts) > 0 {
			return place{}, fmt.Errorf("reading %s: GitHub has no repositories below /%s: give https://host/owner/name", at.field, strings.Join(parts, "/"))
		}
		at.api = githubAPI(u)
	}
	return at, nil
}

// bare reads an address of a repository. Its text may hold a credential, so no error
// repeats it.
func bare(raw string) (*url.URL, error) {
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

// forgeTransport trusts the system's authorities and ca, and connects to no
// link-local address; plain http only to this machine. What one asks for twice is
// asked over one connection.
func forgeTransport(onlyHere bool, secret string, ca []byte) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("reading Secret %q: the key %s holds no certificate in PEM", secret, keyCA)
		}
		config.RootCAs = roots
	}
	dialer := &net.Dialer{
		Timeout: 10 * time.Second,
		Control: func(_, address string, _ syscall.RawConn) error { return mayConnect(address, onlyHere) },
	}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  20 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}, nil
}

// mayConnect is asked with the address that a forge's name was resolved to, so
// that no name leads to the metadata service of this machine, and none sends a
// token over plain http elsewhere. gitsource/gogit has the same rule for Git.
func mayConnect(address string, onlyHere bool) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connecting to the forge: %w", err)
	}
	ip := to.Addr().Unmap().WithZone("")
	metadata := netip.MustParsePrefix("fd00:ec2::/32")
	switch {
	case ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || metadata.Contains(ip):
		return errors.New("the forge's name leads to a link-local address or one of an instance metadata service, which is refused")
	case onlyHere && !ip.IsLoopback():
		return errors.New("plain http leads away from this machine, which is refused: use https://")
	}
	return nil
}
