package gitlab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"unicode/utf8"
)

// listPipelines shows all that match, the newest first.
func (s *Server) listPipelines(c apiCall) {
	q := c.URL.Query()
	list := []any{}
	for _, p := range slices.Backward(s.Pipelines) {
		if sha, ref := q.Get("sha"), q.Get("ref"); (sha == "" || sha == p.SHA) && (ref == "" || ref == p.Ref) {
			list = append(list, map[string]any{"id": p.ID, "project_id": s.ProjectID, "sha": p.SHA, "ref": p.Ref, "source": p.Source, "created_at": stamp(p.Created)})
		}
	}
	c.write(http.StatusOK, paged(c, list))
}

// listStatuses shows the newest status of each name in each pipeline, and with all=true each.
func (s *Server) listStatuses(c apiCall, sha string) {
	q := c.URL.Query()
	list := []map[string]any{}
	for _, st := range slices.Backward(s.Statuses) {
		name, ref := q.Get("name"), q.Get("ref")
		same := func(o map[string]any) bool { return o["name"] == st.Name && o["pipeline_id"] == st.PipelineID }
		if st.SHA == sha && (name == "" || name == st.Name) && (ref == "" || ref == st.Ref) &&
			(q.Get("all") == "true" || !slices.ContainsFunc(list, same)) {
			list = append(list, st.json())
		}
	}
	c.write(http.StatusOK, paged(c, list))
}

func (st *Status) json() map[string]any {
	return map[string]any{
		"id": st.ID, "sha": st.SHA, "ref": st.Ref, "status": st.State, "name": st.Name, "description": null(st.Description),
		"target_url": null(st.Link), "pipeline_id": st.PipelineID, "allow_failure": false, "created_at": "2026-01-01T00:00:00.000Z",
	}
}

// sentStatus is what a request sets.
type sentStatus struct {
	State       string `json:"state"`
	Ref         string `json:"ref"`
	Name        string `json:"name"`
	Description string `json:"description"`
	TargetURL   string `json:"target_url"`
	PipelineID  int64  `json:"pipeline_id"`
}

// setStatus adds a status, or changes the one of the pipeline that has not ended. The pipeline is the newest of the commit, and
// of the reference and the number if the request has them; one is created where there is none. A commit that is in no branch, as the
// head of a fork, then takes a status only where the request has the reference.
func (s *Server) setStatus(c apiCall, sha string) {
	var sent sentStatus
	if err := json.NewDecoder(c.Body).Decode(&sent); err != nil || !slices.Contains([]string{"pending", "running", "success", "failed", "canceled"}, sent.State) {
		Refuse(c, http.StatusBadRequest, "400 (Bad request) \"state\" not given")
		return
	}
	known, branch := s.branchOf(sha)
	in := s.newestPipeline(sha, sent)
	if in != nil {
		branch = in.Ref
	}
	ref := cmp.Or(sent.Ref, branch)
	switch {
	case !known:
		Refuse(c, http.StatusNotFound, "404 Commit Not Found")
		return
	case ref == "":
		Refuse(c, http.StatusNotFound, "404 References for commit Not Found")
		return
	case in == nil && sent.PipelineID != 0:
		Refuse(c, http.StatusNotFound, "404 Pipeline for pipeline_id, sha and ref Not Found")
		return
	case utf8.RuneCountInString(sent.Name) > 255 || utf8.RuneCountInString(sent.Description) > 255:
		Refuse(c, http.StatusBadRequest, map[string]any{"description": []string{"is too long (maximum is 255 characters)"}})
		return
	case in == nil:
		in = s.AddPipeline(sha, ref, "external")
	}
	s.writeStatus(c, in, sent)
}

// newestPipeline is the one that a status is set in, nil where there is none.
func (s *Server) newestPipeline(sha string, sent sentStatus) *Pipeline {
	for _, p := range slices.Backward(s.Pipelines) {
		if p.SHA == sha && (sent.Ref == "" || sent.Ref == p.Ref) && (sent.PipelineID == 0 || sent.PipelineID == p.ID) {
			return p
		}
	}
	return nil
}

func (s *Server) writeStatus(c apiCall, in *Pipeline, sent sentStatus) {
	i := slices.IndexFunc(s.Statuses, func(st *Status) bool {
		return st.PipelineID == in.ID && st.Name == sent.Name && (st.State == "pending" || st.State == "running")
	})
	switch {
	case i < 0:
		s.lastID++
		s.Statuses = append(s.Statuses, &Status{ID: s.lastID, PipelineID: in.ID, SHA: in.SHA, Ref: in.Ref, Name: sent.Name})
		i = len(s.Statuses) - 1
	case sent.State == "pending" || sent.State == s.Statuses[i].State:
		Refuse(c, http.StatusBadRequest, fmt.Sprintf("Cannot transition status via :enqueue from :%s (Reason(s): Status cannot transition via \"enqueue\")", s.Statuses[i].State))
		return
	}
	st := s.Statuses[i]
	st.State, st.Description, st.Link = sent.State, sent.Description, sent.TargetURL
	c.write(http.StatusCreated, st.json())
}

// branchOf reports whether the project has a commit, and the branch of the project that it is in. Besides heads of merge requests,
// it has those that merges made.
func (s *Server) branchOf(sha string) (known bool, branch string) {
	for _, m := range s.MergeRequests {
		switch {
		case m.SHA == sha && m.SourceProject == s.ProjectID:
			return true, m.Source
		case m.SHA == sha:
			known = true
		case sha != "" && (m.MergeCommitSHA == sha || m.SquashSHA == sha):
			return true, m.Target
		}
	}
	return known, ""
}
