package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

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

// setStatus is a status and when the newest pipeline was created that has it.
type setStatus struct {
	buildStatus
	started time.Time
}

// isMet reports whether a status that is there is the one that is desired, or one that GitLab does not set to it.
func (want buildStatus) isMet(current buildStatus) bool {
	return current == want || want.state == pending && (current.state == pending || current.state == running)
}

// buildState is GitLab's word for a state. It has one for both a plan that is refused and
// one that could not be made; the description distinguishes them.
func buildState(s forge.State) string {
	switch s {
	case forge.Pending:
		return pending
	case forge.Success, forge.Neutral:
		return "success"
	case forge.Failure, forge.Errored, forge.ActionRequired:
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
	f.mu.Lock()
	of, set := f.heads[sha], setStatus{want, f.started[sha]}
	f.mu.Unlock()
	if f.statuses.Get(key) == set {
		return nil
	}
	f.statuses.Remove(key)
	existing, err := f.existing(ctx, doing, key)
	if err != nil {
		return err
	}
	targets, err := f.targets(ctx, doing, sha, of)
	if err != nil {
		return err
	}
	for _, target := range targets {
		if want.isMet(newestIn(target, existing)) {
			continue
		}
		if err := f.set(ctx, doing, key, of, target, want); err != nil {
			return err
		}
	}
	f.statuses.Put(key, set)
	return nil
}

// set sets a status in a pipeline. Where there is none, GitLab creates one for a branch that has the commit; for a commit that is
// in no branch, such as a fork's, it has to have the reference.
func (f *Forge) set(ctx context.Context, doing string, key statusKey, of head, target pipeline, want buildStatus) error {
	sent := setStatusOptions{
		State: want.state, Name: key.context, Description: want.description, TargetURL: want.url, Ref: target.Ref, PipelineID: target.ID,
	}
	for {
		if err := f.mayWrite(ctx, doing); err != nil {
			return err
		}
		_, err := f.call(ctx, http.MethodPost, f.project("statuses", key.sha), nil, sent, nil)
		refused, ok := errors.AsType[*apiError](err)
		switch {
		case err == nil:
			return nil
		case ok && refused.code == http.StatusNotFound && sent.Ref == "" && of.ref != "":
			sent.Ref = of.ref
		default:
			if ok && refused.code == http.StatusBadRequest && f.isSet(ctx, doing, key, target, want) {
				return nil
			}
			return f.failed(doing, setting, err)
		}
	}
}

// isSet reports whether the status is in a pipeline by now. GitLab refuses to set what is pending or running to the same state, which a
// request whose response was lost, or another process, may have set after the statuses were read.
func (f *Forge) isSet(ctx context.Context, doing string, key statusKey, target pipeline, want buildStatus) bool {
	existing, err := f.existing(ctx, doing, key)
	return err == nil && want.isMet(newestIn(target, existing))
}

// newestIn is the newest status of a pipeline, the zero buildStatus if there is none. Where the pipeline is not known, of the
// status or of the target, it is that of the reference.
func newestIn(target pipeline, existing []commitStatus) buildStatus {
	var newest commitStatus
	for _, s := range existing {
		in := s.PipelineID == target.ID
		if s.PipelineID == 0 || target.ID == 0 {
			in = s.Ref == target.Ref || target.Ref == ""
		}
		if in && s.ID > newest.ID {
			newest = s
		}
	}
	return buildStatus{newest.Status, newest.Description, newest.TargetURL}
}

// existing reads the statuses of a context. GitLab keeps one for each pipeline of the commit.
func (f *Forge) existing(ctx context.Context, doing string, key statusKey) (out []commitStatus, err error) {
	err = eachItem(ctx, f, f.project("repository", "commits", key.sha, "statuses"), url.Values{"name": {key.context}}, func(s commitStatus) error {
		if s.Name == key.context {
			out = append(out, s)
		}
		return nil
	})
	if err != nil {
		return nil, f.failed(doing, setting, err)
	}
	return out, nil
}
