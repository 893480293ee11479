// Package github is the forge GitHub, also GitHub Enterprise Server: as an App
// or with a token.
//
// It refuses to request more than it needs: an App's installation tokens are made for the
// one repository, one for pull requests, one for checks and one for commit
// statuses. It never reads or writes code. Start reading at New.
package github

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v88/github"
	"golang.org/x/time/rate"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// Address is the API of github.com.
const Address = "https://api.github.com"

// bodyBytes is GitHub's limit of 65,536 characters, taken as bytes, less room
// for the marker.
const bodyBytes = 65536 - 1024

// writesAtOnce go out without a pause, all further ones one a second: GitHub
// takes some 80 writes a minute from one user before its secondary limits, and
// a base branch that moves changes every comment.
const writesAtOnce = 20

const userAgent = "poolwright"

// Config is the repository and the credential.
type Config struct {
	// Address of the API without a trailing slash; of an Enterprise Server it
	// ends with /api/v3. Empty means Address.
	Address string
	// Repository is "owner/name".
	Repository string
	// Token is a personal token. Either it or App is required.
	Token string
	// App is a GitHub App's installation.
	App *App
	// Transport carries the requests; nil means Go's default one.
	Transport http.RoundTripper
	// Now is the clock. It is required.
	Now func() time.Time
}

// App is a GitHub App that is installed where the repository is.
type App struct {
	ID, Installation int64
	// Key is the App's private key in PEM.
	Key []byte
}

// Forge is one repository at GitHub. It implements forge.Forge.
type Forge struct {
	owner, name string
	secret      string
	now         func() time.Time
	client      *github.Client
	clients

	// writeLimiter spaces writes.
	writeLimiter *rate.Limiter
	comments     comments.Cache[comments.Key, int64]
	statuses     comments.Cache[statusKey, forge.Status]
	// checks are digests of the check runs that were set.
	checks comments.Cache[statusKey, string]

	mu sync.Mutex
	me *author
	// noChecksUntil is until when check runs are not tried.
	noChecksUntil time.Time
	// noStatusesUntil is until when statuses beside check runs are not tried.
	noStatusesUntil time.Time
}

// clients are those beside the one for pull requests.
type clients struct {
	app      *github.Client // authenticates as the App itself; nil with a token
	setting  *github.Client // sets commit statuses
	checking *github.Client // sets check runs; nil with a token
	appID    int64          // 0 with a token
}

var _ forge.Forge = (*Forge)(nil)

// New makes no request: credentials and permissions show with the first.
func New(config Config) (*Forge, error) {
	if config.Address == "" {
		config.Address = Address
	}
	address, err := rest.Address(config.Address)
	if err != nil {
		return nil, err
	}
	f := &Forge{secret: config.Token, now: config.Now, writeLimiter: rate.NewLimiter(1, writesAtOnce)}
	if f.owner, f.name, err = rest.Repository(config.Repository); err != nil {
		return nil, err
	}
	transport := http.RoundTripper(rest.NewTransport(config.Transport, f.now))
	switch {
	case f.now == nil:
		return nil, errors.New("connecting to GitHub: a clock is needed")
	case (config.Token == "") == (config.App == nil):
		return nil, errors.New("connecting to GitHub: either a token or an App is needed, not both")
	case config.App == nil:
		f.client, err = newClient(address, transport, github.WithAuthToken(config.Token))
		f.setting = f.client
		return f, err
	}
	return f, f.asApp(*config.App, address, transport)
}

func newClient(address string, transport http.RoundTripper, more ...github.ClientOptionsFunc) (*github.Client, error) {
	base := address + "/"
	client, err := github.NewClient(append([]github.ClientOptionsFunc{
		github.WithHTTPClient(rest.NewClient(transport)), github.WithURLs(&base, nil),
		github.WithUserAgent(userAgent), github.WithDisableRateLimitCheck(), // the transport keeps limits
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("connecting to GitHub: %w", err)
	}
	return client, nil
}

// asApp authenticates as an installation, with tokens each of which can do no more than one thing that is
// needed here: who has not granted checks yet still has comments and statuses.
func (f *Forge) asApp(app App, address string, transport http.RoundTripper) error {
	f.appID = app.ID
	for _, c := range []struct {
		client **github.Client
		needs  permission
		grants github.InstallationPermissions
	}{
		{&f.client, commenting, github.InstallationPermissions{PullRequests: new("write")}},
		{&f.setting, setting, github.InstallationPermissions{Statuses: new("write")}},
		{&f.checking, checking, github.InstallationPermissions{Checks: new("write")}},
	} {
		signing, err := app.signing(address, tokenGuard{base: transport, repository: f.owner + "/" + f.name, needs: []string{c.needs.fine}})
		if err != nil {
			return err
		}
		installed := ghinstallation.NewFromAppsTransport(signing, app.Installation)
		installed.InstallationTokenOptions = &github.InstallationTokenOptions{Repositories: []string{f.name}, Permissions: &c.grants}
		if *c.client, err = newClient(address, installed); err != nil {
			return err
		}
		if f.app == nil {
			if f.app, err = newClient(address, signing); err != nil {
				return err
			}
		}
	}
	return nil
}

// signing authenticates as the App itself, for tokens of its installation.
func (a App) signing(address string, transport http.RoundTripper) (*ghinstallation.AppsTransport, error) {
	signing, err := a.jwt(address, transport)
	if err != nil {
		return nil, err
	}
	if a.ID <= 0 || a.Installation <= 0 {
		return nil, fmt.Errorf("connecting to GitHub: App %d and installation %d have to be positive numbers", a.ID, a.Installation)
	}
	return signing, nil
}

// jwt signs requests with the App's key.
func (a App) jwt(address string, transport http.RoundTripper) (*ghinstallation.AppsTransport, error) {
	signing, err := ghinstallation.NewAppsTransport(transport, a.ID, a.Key)
	if err != nil {
		// The library's error may quote the key.
		return nil, errors.New("reading the GitHub App's private key: it is not an RSA key in PEM")
	}
	signing.BaseURL = address
	return signing, nil
}

// Limit is GitHub's.
func (f *Forge) Limit() int { return bodyBytes }
