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

// updateStatus has the commit status of a check's context follow the check run, where there is such a status: GitHub has both, and
// a branch rule that requires the context requires both. It is of the time before checks were granted. Without the permission
// for statuses nothing can be done, and that is no error.
func (f *Forge) updateStatus(ctx context.Context, sha string, status forge.Status) error {
	if key := (statusKey{sha, status.Context}); f.statuses.Get(key) == absent(key) || !f.hasStatuses() {
		return nil
	}
	err := f.status(ctx, sha, status, true)
	if notGranted(err) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.noStatusesUntil = f.now().Add(checkAgain)
		return nil
	}
	return err
}

// hasStatuses reports whether statuses beside check runs are to be tried.
func (f *Forge) hasStatuses() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.now().Before(f.noStatusesUntil)
}

// absent is what is kept of a context without a status.
func absent(key statusKey) forge.Status { return forge.Status{Context: key.context} }

// status sets a commit status; with existing only where the context has one. GitHub takes 1,000 statuses of a context
// and commit and then no more, so an equal one is never written again.
func (f *Forge) status(ctx context.Context, sha string, status forge.Status, existing bool) error {
	status.State = status.State.Basic()
	doing := fmt.Sprintf("setting status %q in %s/%s", status.Context, f.owner, f.name)
	key := statusKey{sha, status.Context}
	if f.statuses.Get(key) == status {
		return nil
	}
	f.statuses.Remove(key)
	current, err := f.newestStatus(ctx, doing, key)
	if err != nil {
		return err
	}
	if existing && current == (forge.Status{}) {
		f.statuses.Put(key, absent(key))
		return nil
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
