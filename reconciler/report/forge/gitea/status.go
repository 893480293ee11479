package gitea

import (
	"context"
	"fmt"

	"code.gitea.io/sdk/gitea"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

type statusKey struct{ sha, context string }

// Status implements forge.Forge.
func (f *Forge) Status(ctx context.Context, sha string, status forge.Status) error {
	status.Context, status.Description = comments.Context(status.Context), comments.Description(status.Description)
	status.State = status.State.Basic()
	doing := fmt.Sprintf("setting status %q in %s/%s", status.Context, f.owner, f.name)
	if sha = rest.SHA(sha); sha == "" || status.Context == "" {
		return fmt.Errorf("%s: it takes a commit's whole hash and a context", doing)
	}
	key := statusKey{sha, status.Context}
	if f.statuses.Get(key) == status {
		return nil
	}
	f.statuses.Remove(key)
	client, err := f.client(ctx)
	if err != nil {
		return err
	}
	current, err := f.status(client, doing, key)
	if err != nil {
		return err
	}
	if current != status {
		_, response, err := client.CreateStatus(f.owner, f.name, sha, gitea.CreateStatusOption{
			State: gitea.StatusState(status.State), Context: status.Context, Description: status.Description, TargetURL: status.URL,
		})
		if err != nil {
			return f.failed(doing, setting, response, err)
		}
	}
	f.statuses.Put(key, status)
	return nil
}

// status reads the newest status of a context, the zero Status if there is
// none. Gitea's order is not to be relied on, its numbers are.
func (f *Forge) status(client *gitea.Client, doing string, key statusKey) (forge.Status, error) {
	var newest gitea.Status
	for page, pages := 1, 0; page != 0 && pages < endless; pages++ {
		list, response, err := client.ListStatuses(f.owner, f.name, key.sha,
			gitea.ListStatusesOption{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return forge.Status{}, f.failed(doing, setting, response, err)
		}
		for _, s := range list {
			if s != nil && s.Context == key.context && s.ID > newest.ID {
				newest = *s
			}
		}
		page = response.NextPage
	}
	if newest.ID == 0 {
		return forge.Status{}, nil
	}
	return forge.Status{Context: key.context, State: forge.State(newest.State), Description: newest.Description, URL: newest.TargetURL}, nil
}
