package gitprovider

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// Repository is a repository at its provider.
type Repository struct {
	// field is where the address was read from.
	field string
	// API is the address that its client takes, Name is owner/name.
	API, Name string
	// loopbackOnly is for an address that is plain HTTP.
	loopbackOnly bool
}

// RepositoryOf reads a Sync's repository at its provider from the address that it is
// cloned by. The path may lie below a prefix, but not at GitHub.
func RepositoryOf(sync *v1alpha1.Sync) (Repository, error) {
	at, raw := Repository{field: "spec.source.git.url"}, sync.Spec.Source.Git.URL
	provider := v1alpha1.ForgeProvider("")
	if spec := sync.Spec.PullRequests; spec != nil {
		provider = spec.Provider
		if spec.URL != "" {
			at.field, raw = "spec.pullRequests.url", spec.URL
		}
	}
	u, err := parseURL(raw)
	if err != nil {
		return Repository{}, fmt.Errorf("reading %s: %w", at.field, err)
	}
	parts := strings.Split(strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git"), "/")
	if len(parts) < 2 || parts[len(parts)-1] == "" || parts[len(parts)-2] == "" {
		return Repository{}, fmt.Errorf("reading %s: its path does not end with owner/name", at.field)
	}
	at.Name, parts = strings.Join(parts[len(parts)-2:], "/"), parts[:len(parts)-2]
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
