package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/polling"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// PullRequests implements forge.Forge.
func (f *Forge) PullRequests(ctx context.Context, since forge.Listing) (forge.Listing, error) {
	return polling.Next(ctx, since, f.now(), f.page)
}

// page reads one page of the listing.
func (f *Forge) page(ctx context.Context, q polling.Query) (polling.Page, error) {
	path := fmt.Sprintf("repos/%s/%s/pulls?per_page=100&page=%d", f.owner, f.name, q.Number)
	if q.Recent {
		path += "&state=all&sort=updated&direction=desc"
	} else {
		path += "&state=open&sort=created&direction=asc"
	}
	doing := "listing pull requests of " + f.owner + "/" + f.name
	request, err := f.client.NewRequest(ctx, http.MethodGet, path, nil)
	if err != nil {
		return polling.Page{}, f.failed(doing, reading, nil, err)
	}
	if q.ETag != "" {
		request.Header.Set("If-None-Match", q.ETag)
	}
	var list []*github.PullRequest
	response, err := f.client.Do(request, &list)
	if response != nil && response.Response != nil && response.StatusCode == http.StatusNotModified && q.ETag != "" {
		return polling.Page{Unchanged: true, ETag: q.ETag}, nil
	}
	if err != nil {
		return polling.Page{}, f.failed(doing, reading, response, err)
	}
	page := polling.Page{Next: response.NextPage, ETag: response.Header.Get("ETag"), Items: make([]polling.Item, 0, len(list))}
	for _, p := range list {
		if p.GetNumber() <= 0 {
			return polling.Page{}, f.failed(doing, reading, nil, errors.New("the response holds a pull request without a number"))
		}
		page.Items = append(page.Items, item(p))
	}
	return page, nil
}

func item(p *github.PullRequest) polling.Item {
	out := polling.Item{Open: p.GetState() == "open", PullRequest: forge.PullRequest{
		Number: p.GetNumber(), Title: p.GetTitle(), Author: p.GetUser().GetLogin(), URL: p.GetHTMLURL(),
		Head:    forge.Branch{Name: p.GetHead().GetRef(), SHA: rest.SHA(p.GetHead().GetSHA())},
		Base:    forge.Branch{Name: p.GetBase().GetRef(), SHA: rest.SHA(p.GetBase().GetSHA())},
		Draft:   p.GetDraft(),
		Updated: p.GetUpdatedAt().UTC(),
	}}
	from, to := p.GetHead().GetRepo().GetID(), p.GetBase().GetRepo().GetID()
	out.Fork = from == 0 || from != to
	if !out.Open && p.MergedAt != nil {
		// While it is open, GitHub names a commit of its own making here.
		out.Merged, out.MergeCommit = p.GetMergedAt().UTC(), rest.SHA(p.GetMergeCommitSHA())
	}
	return out
}
