package github

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// renewBefore is how long a token has to be valid still when it is given out: it has to last for a fetch, which
// takes five minutes at most.
const renewBefore = 10 * time.Minute

// Installation is a GitHub App that is installed where a repository is. It gives out tokens that can read that
// repository's content and nothing else. It is safe for concurrent use.
type Installation struct {
	signing      *ghinstallation.AppsTransport
	installation int64
	repository   string
	now          func() time.Time

	mu      sync.Mutex
	current *ghinstallation.Transport
}

// NewInstallation makes no request. It takes a Config with an App.
func NewInstallation(config Config) (*Installation, error) {
	if config.App == nil || config.Now == nil {
		return nil, errors.New("connecting to GitHub: an App and a clock are needed")
	}
	if config.Address == "" {
		config.Address = Address
	}
	address, err := rest.Address(config.Address)
	if err != nil {
		return nil, err
	}
	owner, name, err := rest.Repository(config.Repository)
	if err != nil {
		return nil, err
	}
	i := &Installation{installation: config.App.Installation, repository: name, now: config.Now}
	i.signing, err = config.App.signing(address, tokenGuard{base: rest.NewTransport(config.Transport, config.Now), repository: owner + "/" + name, needs: []string{"Contents: read"}})
	return i, err
}

// Invalidate has the next Token request one: the server refused the last, which may have been revoked.
func (i *Installation) Invalidate() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.current = nil
}

// Token returns a token that is valid for ten minutes at least, by a request where the last one is not. Its errors,
// which repeat no token, are those of forge.
func (i *Installation) Token(ctx context.Context) (string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current != nil {
		// The library itself renews a token in its last minute.
		if expires, _, err := i.current.Expiry(); err != nil || expires.Sub(i.now()) < renewBefore {
			i.current = nil
		}
	}
	fresh := i.current
	if fresh == nil {
		fresh = ghinstallation.NewFromAppsTransport(i.signing, i.installation)
		fresh.InstallationTokenOptions = &github.InstallationTokenOptions{
			Repositories: []string{i.repository}, Permissions: &github.InstallationPermissions{Contents: new("read")},
		}
	}
	token, err := fresh.Token(ctx)
	if err != nil {
		return "", fmt.Errorf("authenticating as a GitHub App: %w", err)
	}
	i.current = fresh
	return token, nil
}
