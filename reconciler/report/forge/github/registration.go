package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// Registrar registers Apps from a manifest, without any credential. It is for one repository, on which the App is to be installed.
type Registrar struct {
	owner, name string
	address     string
	transport   http.RoundTripper
	now         func() time.Time
	client      *github.Client
}

// RegisteredApp is an App that was registered.
type RegisteredApp struct {
	ID int64
	// URL is the page of the App.
	URL string
	// Key is its private key in PEM, which must not be printed.
	Key string
}

// NewRegistrar makes no request. It takes a Config without a credential.
func NewRegistrar(config Config) (*Registrar, error) {
	if config.Token != "" || config.App != nil || config.Now == nil {
		return nil, errors.New("registering a GitHub App: it takes a clock and no credential")
	}
	if config.Address == "" {
		config.Address = Address
	}
	address, err := rest.Address(config.Address)
	if err != nil {
		return nil, err
	}
	r := &Registrar{address: address, transport: rest.NewTransport(config.Transport, config.Now), now: config.Now}
	if r.owner, r.name, err = rest.Repository(config.Repository); err != nil {
		return nil, err
	}
	r.client, err = newClient(address, r.transport)
	return r, err
}

// Permissions are those of an App that Poolwright comments on pull requests as, in the form of an App's manifest; with
// contents it reads the repository's content, too.
func (r *Registrar) Permissions(contents bool) map[string]string {
	out := map[string]string{"checks": "write", "metadata": "read", "pull_requests": "write", "statuses": "write"}
	if contents {
		out["contents"] = "read"
	}
	return out
}

// Complete exchanges the code that GitHub sends the browser back with for what was registered. A code is good for one
// request within an hour. No error has the code or what it was exchanged for.
func (r *Registrar) Complete(ctx context.Context, code string) (RegisteredApp, error) {
	const doing = "exchanging the code for the GitHub App"
	if code == "" || strings.ContainsFunc(code, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) {
		return RegisteredApp{}, fmt.Errorf("%s: it is not letters and digits alone", doing)
	}
	made, response, err := r.client.Apps.CompleteAppManifest(ctx, code)
	if err != nil {
		return RegisteredApp{}, r.failed(doing, code, response, err)
	}
	out := RegisteredApp{ID: made.GetID(), URL: made.GetHTMLURL(), Key: made.GetPEM()}
	if out.ID <= 0 || out.URL == "" || out.Key == "" {
		return RegisteredApp{}, r.failed(doing, code, nil, errors.New("the response holds no App"))
	}
	return out, nil
}

// Installation is the number of the App's installation that reaches the repository; 0 where it is not installed there.
func (r *Registrar) Installation(ctx context.Context, app RegisteredApp) (int64, error) {
	doing := fmt.Sprintf("reading the installation of App %d on %s/%s", app.ID, r.owner, r.name)
	signing, err := (&App{ID: app.ID, Key: []byte(app.Key)}).jwt(r.address, r.transport)
	if err != nil {
		return 0, err
	}
	client, err := newClient(r.address, signing)
	if err != nil {
		return 0, err
	}
	found, response, err := client.Apps.GetRepositoryInstallation(ctx, r.owner, r.name)
	switch {
	case response != nil && response.Response != nil && response.StatusCode == http.StatusNotFound:
		return 0, nil
	case err != nil:
		return 0, r.failed(doing, app.Key, response, err)
	case found.GetID() <= 0:
		return 0, r.failed(doing, app.Key, nil, errors.New("the response holds no installation"))
	}
	return found.GetID(), nil
}

func (r *Registrar) failed(doing, secret string, response *github.Response, err error) error {
	f := &Forge{owner: r.owner, name: r.name, secret: secret}
	return f.failed(doing, identity, response, err)
}
