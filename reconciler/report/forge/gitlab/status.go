package gitlab

import (
	"context"
	"fmt"
	"net/http"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

type statusKey struct{ sha, context string }

// The states in which GitLab takes no further pending.
const (
	pending = "pending"
	running = "running"
)

// buildStatus is a status as GitLab has it.
type buildStatus struct {
	state, description, url string
}

// buildState is GitLab's word for a state. It has one for both a plan that is refused and
// one that could not be made; the description distinguishes them.
func buildState(s forge.State) string {
	switch s {
	case forge.Pending:
		return pending
	case forge.Success:
		return "success"
	case forge.Failure, forge.Errored:
		return "failed"
	}
	return "failed"
}

// Status implements forge.Forge. GitLab refuses to set pending what is pending or running, so the
// description of such a status stays.
func (f *Forge) Status(ctx context.Context, sha string, status forge.Status) error {
	status.Context, status.Description = comments.Context(status.Context), comments.Description(status.Description)
	doing := fmt.Sprintf("setting status %q in %s", status.Context, f.config.Project)
	if sha = rest.SHA(sha); sha == "" || status.Context == "" {
		return fmt.Errorf("%s: it takes a commit's whole hash and a context", doing)
	}
	key := statusKey{sha, status.Context}
	want := buildStatus{buildState(status.State), status.Description, status.URL}
	if f.statuses.Get(key) == want {
		return nil
	}
	current, err := f.status(ctx, doing, key)
	if err != nil {
		return err
	}
	waiting := want.state == pending && (current.state == pending || current.state == running)
	if current != want && !waiting {
		if err := f.mayWrite(ctx, doing); err != nil {
			return err
		}
		if _, err := f.call(ctx, http.MethodPost, f.project("statuses", sha), nil, newStatus{
			State: want.state, Name: status.Context, Description: want.description, TargetURL: want.url, Ref: f.forks.Get(sha),
		}, nil); err != nil {
			return f.failed(doing, setting, err)
		}
	}
	f.statuses.Put(key, want)
	return nil
}

// status reads the newest status of a context, the zero buildStatus if there is none. GitLab keeps
// one for each pipeline of the commit.
func (f *Forge) status(ctx context.Context, doing string, key statusKey) (buildStatus, error) {
	var newest commitStatus
	number := 1
	for range maxPages {
		var list []commitStatus
		next, err := f.call(ctx, http.MethodGet, f.project("repository", "commits", key.sha, "statuses"), pages(number, "name", key.context), nil, &list)
		if err != nil {
			return buildStatus{}, f.failed(doing, setting, err)
		}
		for _, s := range list {
			if s.Name == key.context && s.ID > newest.ID {
				newest = s
			}
		}
		if number = next; number == 0 {
			break
		}
	}
	return buildStatus{newest.Status, newest.Description, newest.TargetURL}, nil
}
