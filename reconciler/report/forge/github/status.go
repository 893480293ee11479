package github

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

type statusKey struct{ sha, context string }

// Status implements forge.Forge. As an App that may write checks it is a check run without more than the status has.
func (f *Forge) Status(ctx context.Context, sha string, status forge.Status) error {
	return f.Check(ctx, sha, forge.Check{Status: status})
}

// status sets a commit status. GitHub takes 1,000 statuses of a context and
// commit and then no more, so an equal one is never written again.
func (f *Forge) status(ctx context.Context, sha string, status forge.Status) error {
	status.State = status.State.Basic()
	doing := fmt.Sprintf("setting status %q in %s/%s", status.Context, f.owner, f.name)
	key := statusKey{sha, status.Context}
	if f.statuses.Get(key) == status {
		return nil
	}
	current, err := f.newestStatus(ctx, doing, key)
	if err != nil {
		return err
	}
	if current != status {
		if err := f.mayWrite(ctx, doing); err != nil {
			return err
		}
		_, response, err := f.setting.Repositories.CreateStatus(ctx, f.owner, f.name, sha, github.RepoStatus{
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

// newestStatus reads the newest status of a context, the zero Status if there is none.
func (f *Forge) newestStatus(ctx context.Context, doing string, key statusKey) (forge.Status, error) {
	options := &github.ListOptions{Page: 1, PerPage: 100}
	for range commentPages {
		combined, response, err := f.setting.Repositories.GetCombinedStatus(ctx, f.owner, f.name, key.sha, options)
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
