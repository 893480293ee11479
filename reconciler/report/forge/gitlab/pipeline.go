package gitlab

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// pipeline is one of the project. GitLab keeps a status in a pipeline, and a merge request shows, and can require, only
// what is in its newest one.
type pipeline struct {
	ID        int64     `json:"id"`
	SHA       string    `json:"sha"`
	Ref       string    `json:"ref"`
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at"`
}

// decides reports whether the pipeline may be the one of a merge request. GitLab takes no status for the others.
func (p pipeline) decides() bool {
	switch p.Source {
	case "parent_pipeline", "webide", "ondemand_dast_scan", "ondemand_dast_validation":
		return false
	}
	return p.ID > 0
}

// head is what is known of a commit that merge requests have as their head.
type head struct {
	// branch is that of the project, empty where there is none.
	branch string
	// ref is a reference that GitLab keeps for a merge request.
	ref string
	// refs are those whose pipelines belong to open merge requests.
	refs []string
}

// headsOf maps commits to what holds them. Where a branch of the project has a commit, references of forks' merge
// requests with the same head are left out, so that the status is shown where the branch is.
func headsOf(listing forge.Listing) map[string]head {
	out := map[string]head{}
	for _, p := range listing.Open {
		if h := out[p.Head.SHA]; !p.Fork {
			h.branch, h.ref = p.Head.Name, p.Ref()
			h.refs = append(h.refs, h.branch, h.ref)
			out[p.Head.SHA] = h
		}
	}
	for _, p := range listing.Open {
		if h := out[p.Head.SHA]; p.Fork && h.branch == "" {
			h.ref = p.Ref()
			h.refs = append(h.refs, h.ref)
			out[p.Head.SHA] = h
		}
	}
	for _, p := range listing.Merged {
		if _, open := out[p.Head.SHA]; !open {
			out[p.Head.SHA] = head{ref: p.Ref()}
		}
	}
	return out
}

// newPipelinePages bounds how far new pipelines are followed back.
const newPipelinePages = 10

// readPipelines reads when the pipelines were created that are new since the last call, and the newest 100 at the first.
func (f *Forge) readPipelines(ctx context.Context) error {
	f.mu.Lock()
	last := f.lastPipeline
	f.mu.Unlock()
	started, newest, reached := map[string]time.Time{}, last, last == 0
	query := url.Values{"order_by": {"id"}, "sort": {"desc"}}
	for number, read := 1, 0; number != 0 && read < newPipelinePages; read++ {
		next, err := readPage(ctx, f, f.project("pipelines"), query, number, pageSize, func(p pipeline) error {
			newest, reached = max(newest, p.ID), reached || p.ID <= last
			if p.ID > last && p.decides() && p.CreatedAt.After(started[p.SHA]) {
				started[p.SHA] = p.CreatedAt.UTC()
			}
			return nil
		})
		if unreadable(err) {
			return nil
		}
		if err != nil {
			return f.failed("listing pipelines of "+f.config.Project, reading, err)
		}
		if number = next; reached {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastPipeline = newest
	if f.started == nil {
		f.started = map[string]time.Time{}
	}
	maps.Copy(f.started, started)
	return nil
}

// unreadable reports that the project has no pipelines, or that the token's user may not read them.
func unreadable(err error) bool {
	refused, ok := errors.AsType[*apiError](err)
	return ok && (refused.code == http.StatusForbidden || refused.code == http.StatusNotFound)
}

// withPipelines takes a pipeline that was created for a head for a change of its merge requests, so that what is published
// for them is verified: the new pipeline has no status yet.
func (f *Forge) withPipelines(since, next forge.Listing) forge.Listing {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heads = headsOf(next)
	maps.DeleteFunc(f.started, func(sha string, _ time.Time) bool {
		_, known := f.heads[sha]
		return !known
	})
	next.Open = slices.Clone(next.Open)
	for i := range next.Open {
		p := &next.Open[i]
		if at := f.started[p.Head.SHA]; at.After(p.Updated) {
			p.Updated = at
		}
	}
	next.Unchanged = since.Cursor != (forge.Cursor{}) && slices.Equal(next.Open, since.Open) && slices.Equal(next.Merged, since.Merged)
	return next
}

// targets are where a status of the commit belongs: in the newest pipeline of each reference of its open merge requests.
// GitLab prefers pipelines of merge requests to those of branches, by rules that its versions change, so both get it. Where there
// is no such pipeline, the target has no number, and its reference is the branch.
func (f *Forge) targets(ctx context.Context, doing, sha string, of head) ([]pipeline, error) {
	var all []pipeline
	query := url.Values{"sha": {sha}, "order_by": {"id"}, "sort": {"desc"}}
	_, err := readPage(ctx, f, f.project("pipelines"), query, 1, pageSize, func(p pipeline) error {
		if p.decides() && p.SHA == sha {
			all = append(all, p)
		}
		return nil
	})
	if err != nil && !unreadable(err) {
		return nil, f.failed(doing, setting, err)
	}
	slices.SortStableFunc(all, func(a, b pipeline) int { return cmp.Compare(b.ID, a.ID) })
	var out []pipeline
	for _, p := range all {
		if slices.Contains(of.refs, p.Ref) && !slices.ContainsFunc(out, func(o pipeline) bool { return o.Ref == p.Ref }) {
			out = append(out, p)
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case of.branch == "" && len(all) > 0:
		return all[:1], nil
	}
	return []pipeline{{SHA: sha, Ref: of.branch}}, nil
}
