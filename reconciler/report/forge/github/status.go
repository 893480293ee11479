package github

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

type statusKey struct{ sha, context string }

// Status implements forge.Forge. GitHub takes 1,000 statuses of a context and
// commit and then no more, so an equal one is never written again.
func (f *Forge) Status(ctx context.Context, sha string, status forge.Status) error {
	status.Context, status.Description = comments.Context(status.Context), comments.Description(status.Description)
	doing := fmt.Sprintf("setting status %q in %s/%s", status.Context, f.owner, f.name)
	if sha = rest.SHA(sha); sha == "" || status.Context == "" {
		return fmt.Errorf("%s: it takes a commit's whole hash and a context", doing)
	}
	key := statusKey{sha, status.Context}
	if f.statuses.Get(key) == status {
		return nil
	}
	current, err := f.status(ctx, doing, key)
	if err != nil {
		return err
	}
	if current != status {
		if err := f.mayWrite(ctx, doing); err != nil {
			return err
		}
		_, response, err := f.client.Repositories.CreateStatus(ctx, f.owner, f.name, sha, github.RepoStatus{
			State: new(string(status.State)), Context: &status.Context,
			Description: &status.Description, TargetURL: optional(status.URL),
		})
		if err != nil {
			return f.failed(doing, setting, response, err)
		}
	}
	f.statuses.Put(key, status)
	return nil
}

// status reads the newest status of a context, the zero Status if there is none.
func (f *Forge) status(ctx context.Context, doing string, key statusKey) (forge.Status, error) {
	options := &github.ListOptions{Page: 1, PerPage: 100}
	for range commentPages {
		combined, response, err := f.client.Repositories.GetCombinedStatus(ctx, f.owner, f.name, key.sha, options)
		if err != nil {
			return forge.Status{}, f.failed(doing, setting, response, err)
		}
		if combined == nil { // the response was JSON's null
			return forge.Status{}, f.failed(doing, setting, nil, errors.New("the response holds no statuses"))
		}
		for _, s := range combined.Statuses {
			if s.GetContext() == key.context {
				return forge.Status{Context: key.context, State: forge.State(s.GetState()), Description: s.GetDescription(), URL: s.GetTargetURL()}, nil
			}
		}
		if options.Page = response.NextPage; options.Page == 0 {
			break
		}
	}
	return forge.Status{}, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
