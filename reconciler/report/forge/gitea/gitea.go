// Package gitea is the forges Gitea and Forgejo, which share one API.
//
// Neither supports conditional requests for pull requests, so a poll without change
// costs one page. The package refuses plain http to another machine. Start reading at
// New.
package gitea

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"code.gitea.io/sdk/gitea"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/polling"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

const (
	// bodyBytes is a limit of our own: Gitea has none, but a page that holds
	// more is read by nobody and slow to open.
	bodyBytes = 256 << 10
	// pageSize is the most that Gitea gives by default.
	pageSize = 50
	// endless is a bound against pages that never end.
	endless = 200
)

// Config is the repository and the credential. All but Transport is required.
type Config struct {
	// Address is the forge's, as people open it: https://git.example.org.
	Address string
	// Repository is "owner/name".
	Repository string
	// Token is of a user who may write to the repository's issues, with the
	// scopes write:issue, write:repository and read:user.
	Token string
	// Transport carries the requests; nil means Go's default one.
	Transport http.RoundTripper
	// Now is the clock.
	Now func() time.Time
}

// Forge is one repository at a Gitea or Forgejo. It implements forge.Forge.
type Forge struct {
	config      Config
	owner, name string
	http        *http.Client

	comments comments.Cache[comments.Key, int64]
	statuses comments.Cache[statusKey, forge.Status]

	mu sync.Mutex
	me int64 // our user's number, 0 before it is known
}

var _ forge.Forge = (*Forge)(nil)

// New makes no request: credentials and permissions show with the first.
func New(config Config) (*Forge, error) {
	var err error
	if config.Address, err = rest.Address(config.Address); err != nil {
		return nil, err
	}
	if config.Token == "" || config.Now == nil {
		return nil, errors.New("connecting to Gitea: a token and a clock are needed")
	}
	f := &Forge{config: config, http: rest.NewClient(rest.NewTransport(config.Transport, config.Now))}
	if f.owner, f.name, err = rest.Repository(config.Repository); err != nil {
		return nil, err
	}
	return f, nil
}

// client is the library's for one call, because it takes one context only. Without a
// version to compare with it makes no request of its own, and takes Forgejo's numbers,
// which it could not read.
func (f *Forge) client(ctx context.Context) (*gitea.Client, error) {
	client, err := gitea.NewClient(f.config.Address, gitea.SetGiteaVersion(""), gitea.SetContext(ctx),
		gitea.SetHTTPClient(f.http), gitea.SetToken(f.config.Token), gitea.SetUserAgent("poolwright"))
	if err != nil {
		return nil, f.failed("connecting to Gitea", reading, nil, err)
	}
	return client, nil
}

// Limit is ours.
func (f *Forge) Limit() int { return bodyBytes }

// PullRequests implements forge.Forge.
func (f *Forge) PullRequests(ctx context.Context, since forge.Listing) (forge.Listing, error) {
	return polling.Next(ctx, since, f.config.Now(), f.page)
}

// page reads one page of the listing.
func (f *Forge) page(ctx context.Context, q polling.Query) (polling.Page, error) {
	client, err := f.client(ctx)
	if err != nil {
		return polling.Page{}, err
	}
	options := gitea.ListPullRequestsOptions{
		ListOptions: gitea.ListOptions{Page: q.Number, PageSize: pageSize}, State: gitea.StateOpen, Sort: "oldest",
	}
	if q.Recent {
		options.State, options.Sort = gitea.StateAll, "recentupdate"
	}
	doing := "listing pull requests of " + f.owner + "/" + f.name
	list, response, err := client.ListRepoPullRequests(f.owner, f.name, options)
	if err != nil {
		return polling.Page{}, f.failed(doing, reading, response, err)
	}
	page := polling.Page{Next: response.NextPage, Items: make([]polling.Item, 0, len(list))}
	for _, p := range list {
		if p == nil || p.Index <= 0 {
			return polling.Page{}, f.failed(doing, reading, nil, errors.New("the response holds a pull request without a number"))
		}
		page.Items = append(page.Items, item(p))
	}
	return page, nil
}

func item(p *gitea.PullRequest) polling.Item {
	out := polling.Item{Open: p.State == gitea.StateOpen, PullRequest: forge.PullRequest{
		Number: int(p.Index), Title: p.Title, URL: p.HTMLURL, Draft: p.Draft,
		Head: branch(p.Head), Base: branch(p.Base), Updated: moment(p.Updated),
	}}
	if p.Poster != nil {
		out.Author = p.Poster.UserName
	}
	out.Fork = p.Head == nil || p.Base == nil || p.Head.RepoID == 0 || p.Head.RepoID != p.Base.RepoID
	if p.HasMerged && !out.Open {
		out.Merged = moment(p.Merged)
		if p.MergedCommitID != nil {
			out.MergeCommit = rest.SHA(*p.MergedCommitID)
		}
	}
	return out
}

func branch(b *gitea.PRBranchInfo) forge.Branch {
	if b == nil {
		return forge.Branch{}
	}
	return forge.Branch{Name: b.Ref, SHA: rest.SHA(b.Sha)}
}

func moment(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
