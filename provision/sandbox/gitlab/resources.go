package gitlab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// stamp is a time as GitLab writes it, null where there is none.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// null is null for nothing.
func null[T comparable](v T) any {
	if v == *new(T) {
		return nil
	}
	return v
}

func (s *Server) listMergeRequests(c apiCall) {
	q := c.URL.Query()
	state, desc := q.Get("state"), q.Get("sort") != "asc"
	var found []*MergeRequest
	for _, m := range s.MergeRequests {
		if state == "" || state == "all" || state == m.State {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b *MergeRequest) int {
		order := cmp.Compare(a.IID, b.IID)
		if q.Get("order_by") == "updated_at" {
			order = a.Updated.Compare(b.Updated)
		}
		if desc {
			return -order
		}
		return order
	})
	list := []any{}
	for _, m := range paged(c, found) {
		list = append(list, s.mergeRequestJSON(m))
	}
	c.write(http.StatusOK, list)
}

func (s *Server) mergeRequestJSON(m *MergeRequest) map[string]any {
	return map[string]any{
		"id": 5_000_000 + m.IID, "iid": m.IID, "project_id": s.ProjectID, "title": m.Title, "description": m.Description, "state": m.State,
		"created_at": "2026-01-01T00:00:00.000Z", "updated_at": stamp(m.Updated), "merged_at": stamp(m.Merged), "closed_at": nil,
		"target_branch": m.Target, "source_branch": m.Source, "author": m.Author.json(), "assignee": nil, "assignees": []any{},
		"source_project_id": null(m.SourceProject), "target_project_id": s.ProjectID, "labels": []any{}, "draft": m.Draft, "milestone": nil,
		"sha": null(m.SHA), "merge_commit_sha": null(m.MergeCommitSHA), "squash_commit_sha": null(m.SquashSHA), "user_notes_count": 0,
		"discussion_locked": nil, "web_url": fmt.Sprintf("https://gitlab.example.com/%s/-/merge_requests/%d", s.Project, m.IID),
	}
}

func (u User) json() map[string]any {
	return map[string]any{"id": u.ID, "username": u.Name, "name": u.Name, "state": "active"}
}

// notes are the requests below the notes of a merge request; id is that of one, or empty.
func (s *Server) notes(c apiCall, number, id string) {
	iid, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !slices.ContainsFunc(s.MergeRequests, func(m *MergeRequest) bool { return m.IID == iid }) {
		Refuse(c, http.StatusNotFound, "404 Not found")
		return
	}
	switch {
	case c.Method == http.MethodGet && id == "":
		s.listNotes(c, iid)
	case c.Method == http.MethodPost && id == "":
		if body, ok := s.sentBody(c); ok {
			c.write(http.StatusCreated, s.AddNote(iid, c.user, body).json())
		}
	case c.Method == http.MethodPut || c.Method == http.MethodDelete:
		s.changeNote(c, iid, id)
	default:
		Refuse(c, http.StatusMethodNotAllowed, "405 Not Allowed")
	}
}

func (s *Server) listNotes(c apiCall, iid int64) {
	var found []*Note
	for _, n := range s.Notes {
		if n.IID == iid && (s.HiddenFrom == 0 || n.ID < s.HiddenFrom) {
			found = append(found, n)
		}
	}
	if c.URL.Query().Get("sort") != "asc" {
		slices.Reverse(found)
	}
	list := []any{}
	for _, n := range paged(c, found) {
		list = append(list, n.json())
	}
	c.write(http.StatusOK, list)
}

func (s *Server) changeNote(c apiCall, iid int64, id string) {
	i := slices.IndexFunc(s.Notes, func(n *Note) bool { return n.IID == iid && strconv.FormatInt(n.ID, 10) == id })
	switch {
	case i < 0:
		Refuse(c, http.StatusNotFound, "404 Note Not Found")
	case s.Notes[i].Author != c.user:
		Refuse(c, http.StatusForbidden, "403 Forbidden")
	case c.Method == http.MethodDelete:
		s.Notes = slices.Delete(s.Notes, i, i+1)
		c.WriteHeader(http.StatusNoContent)
	default:
		if body, ok := s.sentBody(c); ok {
			s.Notes[i].Body = body
			c.write(http.StatusOK, s.Notes[i].json())
		}
	}
}

func (n *Note) json() map[string]any {
	return map[string]any{
		"id": n.ID, "type": nil, "body": n.Body, "author": n.Author.json(), "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
		"system": n.System, "noteable_type": "MergeRequest", "noteable_iid": n.IID, "resolvable": false, "internal": false,
	}
}

// quickActions are code, which GitLab leaves out of the search, or a line that begins with a command. It has many more
// commands; merge and close stand for them.
var quickActions = regexp.MustCompile("(?s)(?m:^)```.+?\n```(?m:$)|(?m:^)/(?i:merge|close)(?m:[^\n]*$)")

// sentBody reads the text of a note, without what GitLab takes out of it.
func (s *Server) sentBody(c apiCall) (string, bool) {
	var sent struct{ Body string }
	if err := json.NewDecoder(c.Body).Decode(&sent); err != nil || sent.Body == "" {
		Refuse(c, http.StatusBadRequest, "400 (Bad request) \"body\" not given")
		return "", false
	}
	if utf8.RuneCountInString(sent.Body) > maxNote {
		Refuse(c, http.StatusBadRequest, map[string]any{"note": []string{"is too long (maximum is 1000000 characters)"}})
		return "", false
	}
	text := quickActions.ReplaceAllStringFunc(strings.ReplaceAll(sent.Body, "\r", ""), func(found string) string {
		if strings.HasPrefix(found, "/") {
			s.Commands = append(s.Commands, found)
			return ""
		}
		return found
	})
	return strings.TrimRight(text, " \t\n"), true
}
