// Package gitlab is the forge GitLab, on gitlab.com and self-managed, with a personal,
// project or group access token.
//
// It refuses plain http to another machine, and to run quick actions: a line of a comment
// that GitLab could take for one reaches it as text. Start reading at New.
package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/polling"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

const (
	// bodyBytes is a limit of our own: GitLab takes 1,000,000 characters, but a page that
	// holds more is read by nobody and slow to open.
	bodyBytes = 256 << 10
	// pageSize is the most that GitLab gives.
	pageSize = 100
	// maxPages is a bound against pages that never end.
	maxPages = 200
	// keptBytes is the most that is kept of the notes of a merge request.
	keptBytes = 8 << 20
	// writesAtOnce are sent without a pause, all further ones one a second: gitlab.com
	// takes 60 notes a minute of one user.
	writesAtOnce = 20
)

// Config is the project and the credential. All but Transport is required.
type Config struct {
	// Address is where people open the forge: https://gitlab.com.
	Address string
	// Project is the path of the project, with all groups: "group/subgroup/name".
	Project string
	// Token is a personal, project or group access token with the scope api.
	Token string
	// Transport carries the requests; nil means Go's default one.
	Transport http.RoundTripper
	// Now is the clock.
	Now func() time.Time
}

// Forge is one project at GitLab. It implements forge.Forge; its pull requests are GitLab's
// merge requests, numbered within the project.
type Forge struct {
	config Config
	http   *http.Client

	// writeLimiter spaces writes.
	writeLimiter *rate.Limiter
	comments     comments.Cache[comments.Key, int64]
	statuses     comments.Cache[statusKey, setStatus]

	mu sync.Mutex
	me int64 // our user's number, 0 before it is known
	// heads are those of the newest listing, by their commits.
	heads map[string]head
	// started is when the newest pipeline of a commit was created, of pipelines up to the number lastPipeline.
	started      map[string]time.Time
	lastPipeline int64
}

var _ forge.Forge = (*Forge)(nil)

// New makes no request: credentials and permissions show with the first.
func New(config Config) (*Forge, error) {
	var err error
	if config.Address, err = rest.Address(config.Address); err != nil {
		return nil, err
	}
	if config.Token == "" || config.Now == nil {
		return nil, errors.New("connecting to GitLab: a token and a clock are needed")
	}
	if err := checkProject(config.Project); err != nil {
		return nil, err
	}
	return &Forge{
		config: config, http: rest.NewClient(rest.NewTransport(config.Transport, config.Now)), writeLimiter: rate.NewLimiter(1, writesAtOnce),
	}, nil
}

// segment is what GitLab allows for groups and projects.
var segment = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]{0,254}$`)

// maxSegments is how many groups GitLab nests, and the project.
const maxSegments = 21

func checkProject(path string) error {
	parts := strings.Split(path, "/")
	valid := len(parts) >= 2 && len(parts) <= maxSegments
	for _, part := range parts {
		valid = valid && segment.MatchString(part) && strings.Trim(part, ".") != ""
	}
	if !valid {
		return fmt.Errorf("reading the project's path: %q is not of the form group/name, or group/subgroup/name", path)
	}
	return nil
}

// Limit is ours.
func (f *Forge) Limit() int { return bodyBytes }

// PullRequests implements forge.Forge.
func (f *Forge) PullRequests(ctx context.Context, since forge.Listing) (forge.Listing, error) {
	next, err := polling.Next(ctx, since, f.config.Now(), f.page)
	if err != nil {
		return forge.Listing{}, err
	}
	if err := f.readPipelines(ctx); err != nil {
		return forge.Listing{}, err
	}
	return f.withPipelines(since, next), nil
}

// page reads one page of the listing. GitLab offers no keyset for merge requests, so pages are
// numbered; polling detects those that shift.
func (f *Forge) page(ctx context.Context, q polling.Query) (polling.Page, error) {
	query := url.Values{"scope": {"all"}, "state": {"opened"}, "order_by": {"created_at"}, "sort": {"asc"}}
	if q.Recent {
		query = url.Values{"scope": {"all"}, "state": {"all"}, "order_by": {"updated_at"}, "sort": {"desc"}}
	}
	var page polling.Page
	add := func(m mergeRequest) error {
		if m.IID <= 0 {
			return errors.New("the response holds a merge request without a number")
		}
		read := item(m)
		polling.Bound(&read.PullRequest)
		page.Items = append(page.Items, read)
		return nil
	}
	var err error
	page.Next, err = readPage(ctx, f, f.project("merge_requests"), query, q.Number, pageSize, add)
	if err == nil && page.Next == 0 && !q.Recent {
		// GitLab has a state of its own for those that it is merging. They are few.
		query.Set("state", "locked")
		err = eachItem(ctx, f, f.project("merge_requests"), query, add)
	}
	if err != nil {
		return polling.Page{}, f.failed("listing merge requests of "+f.config.Project, reading, err)
	}
	return page, nil
}

func item(m mergeRequest) polling.Item {
	out := polling.Item{Open: m.State == "opened" || m.State == "locked", PullRequest: forge.PullRequest{
		Number: int(m.IID), Title: m.Title, Author: m.Author.Username, URL: m.WebURL, Draft: m.Draft,
		Head:    forge.Branch{Name: m.SourceBranch, SHA: rest.SHA(m.SHA)},
		Base:    forge.Branch{Name: m.TargetBranch},
		HeadRef: fmt.Sprintf("refs/merge-requests/%d/head", m.IID),
		Fork:    m.SourceProjectID == 0 || m.SourceProjectID != m.TargetProjectID,
		Updated: m.UpdatedAt.UTC(),
	}}
	if m.State == "merged" {
		out.Merged, out.MergeCommit = m.MergedAt.UTC(), mergeCommit(m)
		if m.MergedAt.IsZero() { // GitLab leaves it out for some that were imported
			out.Merged = m.UpdatedAt.UTC()
		}
	}
	return out
}

// mergeCommit is what the merge made on the target branch: a merge commit, or only that of
// a squash, or, fast-forwarded, the head itself.
func mergeCommit(m mergeRequest) string {
	for _, sha := range []string{m.MergeCommitSHA, m.SquashCommitSHA, m.SHA} {
		if sha = rest.SHA(sha); sha != "" {
			return sha
		}
	}
	return ""
}
