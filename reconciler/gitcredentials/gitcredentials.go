// Package gitcredentials reads the Secrets of a Sync's Git repository: passwords, tokens, keys, those of a GitHub
// App, and the proxy.
//
// It keeps none of them but the token of a GitHub App, which it requests anew before it expires. Start reading at Reader.Read.
package gitcredentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/runtime/secrets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forgeclient"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// Reader reads the Secrets of a Sync's repository, past every cache: the controller may read the Secrets of
// its own namespace by name, and list none. Their keys are those of Flux. No error repeats a value.
type Reader struct {
	live client.Reader
	sync *v1alpha1.Sync
	now  func() time.Time

	mu sync.Mutex
	// app gives out tokens, as of the Secrets of which these are the versions.
	app      *github.Installation
	versions string
}

// New is what reads the Secrets that the Sync names, by a client without a cache.
func New(live client.Reader, sync *v1alpha1.Sync, now func() time.Time) *Reader {
	return &Reader{live: live, sync: sync, now: now}
}

// Read returns the credentials of now; it is called before each fetch. Its errors wrap one of gitsource's where a
// Secret or a server refuses.
func (g *Reader) Read(ctx context.Context) (gogit.Credentials, error) {
	git := g.sync.Spec.Source.Git
	proxy, version, err := g.proxy(ctx)
	if err != nil || git.SecretRef == nil {
		return gogit.Credentials{Proxy: proxy}, err
	}
	secret, err := g.secret(ctx, "secretRef", git.SecretRef.Name)
	if err != nil {
		return gogit.Credentials{}, err
	}
	var out gogit.Credentials
	switch {
	case git.Provider == v1alpha1.GitProviderGitHub:
		out, err = g.githubCredentials(ctx, secret, proxy, secret.ResourceVersion+" "+version)
	case strings.HasPrefix(git.URL, "ssh://"):
		out, err = sshCredentials(ctx, secret)
	default:
		out, err = httpsCredentials(secret)
	}
	out.Proxy = proxy
	return out, err
}

// secret reads a Secret that a field names.
func (g *Reader) secret(ctx context.Context, field, name string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := g.live.Get(ctx, client.ObjectKey{Namespace: g.sync.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%w: %s names Secret %s, which is not in namespace %s", gitsource.ErrUnauthorized, field, name, g.sync.Namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	// A key without a value is as good as none.
	maps.DeleteFunc(secret.Data, func(_ string, value []byte) bool { return len(value) == 0 })
	return &secret, nil
}

// proxy is that of spec.source.git.proxySecretRef, and the version of the Secret; nil where there is none.
func (g *Reader) proxy(ctx context.Context) (*url.URL, string, error) {
	ref := g.sync.Spec.Source.Git.ProxySecretRef
	if ref == nil {
		return nil, "", nil
	}
	secret, err := g.secret(ctx, "proxySecretRef", ref.Name)
	if err != nil {
		return nil, "", err
	}
	proxy, err := secrets.ProxyURLFromSecret(ctx, secret)
	if err != nil || proxy.Host == "" {
		// The library's error may quote the address, in which there may be a password.
		return nil, "", fmt.Errorf("%w: Secret %s has no key address with http://, https:// or socks5:// and the host and port of a proxy", gitsource.ErrUnauthorized, ref.Name)
	}
	return proxy, secret.ResourceVersion, nil
}

// githubCredentials are a token of the GitHub App's installation, which is requested anew before it expires.
func (g *Reader) githubCredentials(ctx context.Context, secret *corev1.Secret, proxy *url.URL, versions string) (gogit.Credentials, error) {
	app, err := g.installation(secret, proxy, versions)
	if err != nil {
		return gogit.Credentials{}, fmt.Errorf("%w: %w", gitsource.ErrUnauthorized, err)
	}
	token, err := app.Token(ctx)
	if err != nil {
		kind := gitsource.ErrUnreachable
		if refused, ok := errors.AsType[*forge.Error](err); ok && refused.Until.IsZero() && refusesApp(refused.Code) {
			kind = gitsource.ErrUnauthorized
		}
		return gogit.Credentials{}, fmt.Errorf("%w: %w", kind, err)
	}
	return gogit.Credentials{Username: "x-access-token", Password: token, CABundle: secret.Data[secrets.KeyCACert]}, nil
}

// refusesApp reports whether GitHub gives an App no token, by a status of which trying again is of no use.
func refusesApp(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// installation keeps what gives out tokens, and so the last token, until a Secret changes.
func (g *Reader) installation(secret *corev1.Secret, proxy *url.URL, versions string) (*github.Installation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.app != nil && g.versions == versions {
		return g.app, nil
	}
	app, err := forgeclient.NewInstallation(g.sync, secret.Data, proxy, g.now)
	if err != nil {
		return nil, err
	}
	g.app, g.versions = app, versions
	return app, nil
}

// Invalidate has the next fetch request a token anew.
func (g *Reader) Invalidate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.app != nil {
		g.app.Invalidate()
	}
}

// httpsCredentials are the keys of a Secret that https takes. They are not read by
// secrets.BasicAuthFromSecret, which refuses a password without a username: many servers take a token so.
func httpsCredentials(secret *corev1.Secret) (gogit.Credentials, error) {
	c := gogit.Credentials{
		Username:    string(secret.Data[secrets.KeyUsername]),
		Password:    string(secret.Data[secrets.KeyPassword]),
		BearerToken: string(secret.Data[secrets.KeyBearerToken]),
		CABundle:    secret.Data[secrets.KeyCACert],
		Certificate: secret.Data[secrets.KeyTLSCert],
		PrivateKey:  secret.Data[secrets.KeyTLSPrivateKey],
	}
	var refused string
	switch {
	case c.Password != "" && c.BearerToken != "":
		refused = "has both keys password and bearerToken, of which one is sent; remove the other"
	case len(c.Certificate) > 0 && len(c.PrivateKey) == 0:
		refused = "has key tls.crt without tls.key; put the private key of the client's certificate there"
	case len(c.PrivateKey) > 0 && len(c.Certificate) == 0:
		refused = "has key tls.key without tls.crt; put the client's certificate there"
	case c.Password == "" && c.BearerToken == "" && len(c.CABundle) == 0 && len(c.Certificate) == 0:
		refused = "has no key password; put the password or token there"
	default:
		return c, nil
	}
	return gogit.Credentials{}, fmt.Errorf("%w: Secret %s %s", gitsource.ErrUnauthorized, secret.Name, refused)
}

// sshCredentials are the keys of a Secret that ssh takes. The public key, which may be there
// as identity.pub, is part of the private one.
func sshCredentials(ctx context.Context, secret *corev1.Secret) (gogit.Credentials, error) {
	auth, err := secrets.SSHAuthFromSecret(ctx, secret)
	var missing *secrets.KeyNotFoundError
	switch {
	case errors.As(err, &missing) && missing.Key == secrets.KeySSHKnownHosts:
		return gogit.Credentials{}, fmt.Errorf("%w: Secret %s has no key known_hosts; put the server's lines there, as ssh-keyscan prints them", gitsource.ErrHostKey, secret.Name)
	case errors.As(err, &missing):
		return gogit.Credentials{}, fmt.Errorf("%w: Secret %s has no key %s; put the private key for ssh there", gitsource.ErrUnauthorized, secret.Name, missing.Key)
	case err != nil:
		return gogit.Credentials{}, fmt.Errorf("reading Secret %s: %w", secret.Name, err)
	}
	return gogit.Credentials{Identity: auth.PrivateKey, KnownHosts: []byte(auth.KnownHosts), Password: auth.Password}, nil
}
