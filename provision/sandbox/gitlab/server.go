// Package gitlab is a server with the part of GitLab's API that a forge's client needs: the merge
// requests of one project, their notes, pipelines, and the statuses of commits in them.
//
// It is written from GitLab's documentation of its REST API, version 4, and of webhooks: paths, fields,
// orders, pages, and what is refused. It is no GitLab, and nothing but its tests compares it with one.
// It hosts no Git, and refuses every other path with 404. Start reading at Server.
package gitlab

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// User is who makes a request or wrote something.
type User struct {
	ID   int64
	Name string
}

// MergeRequest is one of the project. States are opened, closed, locked and merged.
type MergeRequest struct {
	IID                       int64
	Title, State, Description string
	Author                    User
	Source, Target, SHA       string
	SourceProject             int64 // 0: deleted
	Draft                     bool
	Updated, Merged           time.Time
	MergeCommitSHA, SquashSHA string
}

// Note is a comment on a merge request.
type Note struct {
	ID, IID int64
	Author  User
	Body    string
	System  bool
}

// Status is that of a commit. States are GitLab's: pending, running, success, failed and canceled.
type Status struct {
	ID, PipelineID                           int64
	SHA, Ref, Name, State, Description, Link string
}

// Pipeline is one of a commit. Sources are GitLab's, such as push, merge_request_event and external: that is one which GitLab
// created for a status.
type Pipeline struct {
	ID               int64
	SHA, Ref, Source string
	Created          time.Time
}

// Server is an http.Handler. Its fields are read and changed within Change only, once it serves.
type Server struct {
	// Project is the path of the project, ProjectID its number.
	Project   string
	ProjectID int64
	// Tokens are the users that may make requests.
	Tokens map[string]User
	// MergeRequests, Notes, Pipelines and Statuses are in the order of their numbers.
	MergeRequests []*MergeRequest
	Notes         []*Note
	Pipelines     []*Pipeline
	Statuses      []*Status
	// Commands are the quick actions that notes contained, and GitLab would have carried out.
	Commands []string
	// Requests are the method, the path and the query of each request.
	Requests []string
	// Before is called before a response is made; true means that it made one.
	Before func(w http.ResponseWriter, r *http.Request) bool
	// HiddenFrom hides notes of this number and above from lists, as a replica that lags behind. 0 hides none.
	HiddenFrom int64
	// Now is the server's clock.
	Now time.Time

	mu     sync.Mutex
	lastID int64
}

// maxNote is how many characters GitLab takes of a note.
const maxNote = 1_000_000

// New makes the server of one project, with one user per token.
func New(project string, now time.Time, tokens map[string]User) *Server {
	return &Server{Project: project, ProjectID: 3, Tokens: tokens, Now: now, lastID: 1000}
}

// Change edits the state as a person would, a second later.
func (s *Server) Change(edit func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Now = s.Now.Add(time.Second)
	edit(s.Now)
}

// Time is the server's clock.
func (s *Server) Time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Now
}

// Open opens n merge requests of branches of the project, a second apart.
func (s *Server) Open(n int, author User) {
	for range n {
		s.Change(func(now time.Time) {
			iid := int64(len(s.MergeRequests) + 1)
			s.MergeRequests = append(s.MergeRequests, &MergeRequest{
				IID: iid, Title: fmt.Sprintf("Change %d", iid), State: "opened", Author: author, Source: fmt.Sprintf("change-%d", iid), Target: "main",
				SHA: fmt.Sprintf("%040x", iid), SourceProject: s.ProjectID, Updated: now,
			})
		})
	}
}

// AddNote adds a note of anybody. It is called within Change, or before the server serves.
func (s *Server) AddNote(iid int64, author User, body string) *Note {
	s.lastID++
	n := &Note{ID: s.lastID, IID: iid, Author: author, Body: body}
	s.Notes = append(s.Notes, n)
	return n
}

// AddPipeline starts a pipeline. It is called within Change, or before the server serves.
func (s *Server) AddPipeline(sha, ref, source string) *Pipeline {
	s.lastID++
	p := &Pipeline{ID: s.lastID, SHA: sha, Ref: ref, Source: source, Created: s.Now}
	s.Pipelines = append(s.Pipelines, p)
	return p
}

// Counted are the requests since the call before.
func (s *Server) Counted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.Requests
	s.Requests = nil
	return out
}

// apiCall is one request.
type apiCall struct {
	http.ResponseWriter
	*http.Request
	user User
	// rest is the path below the project, in parts.
	rest []string
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Requests = append(s.Requests, r.Method+" "+r.URL.RequestURI())
	if s.Before != nil && s.Before(w, r) {
		return
	}
	token := r.Header.Get("PRIVATE-TOKEN")
	if scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " "); scheme == "Bearer" && token == "" {
		token = bearer
	}
	user, ok := s.Tokens[token]
	if !ok {
		Refuse(w, http.StatusUnauthorized, "401 Unauthorized")
		return
	}
	c := apiCall{ResponseWriter: w, Request: r, user: user}
	if r.URL.Path == "/api/v4/user" && r.Method == http.MethodGet {
		c.write(http.StatusOK, map[string]any{"id": user.ID, "username": user.Name, "state": "active"})
		return
	}
	if !c.below(s) {
		Refuse(w, http.StatusNotFound, "404 Project Not Found")
		return
	}
	s.route(c)
}

// below reads the path of the project: its number, or its path in one escaped part.
func (c *apiCall) below(s *Server) bool {
	rest, ok := strings.CutPrefix(c.URL.EscapedPath(), "/api/v4/projects/")
	id, below, _ := strings.Cut(rest, "/")
	project, err := url.PathUnescape(id)
	c.rest = strings.Split(below, "/")
	return ok && err == nil && (project == s.Project || id == strconv.FormatInt(s.ProjectID, 10))
}

// route carries a request out.
func (s *Server) route(c apiCall) {
	switch {
	case c.part(0) == "merge_requests" && c.part(2) == "notes":
		s.notes(c, c.part(1), c.part(3))
	case c.Method == http.MethodGet:
		s.routeGet(c)
	case c.Method == http.MethodPost && c.part(0) == "statuses" && len(c.rest) == 2:
		s.setStatus(c, c.part(1))
	default:
		Refuse(c, http.StatusNotFound, "404 Not Found")
	}
}

func (s *Server) routeGet(c apiCall) {
	switch {
	case c.part(0) == "merge_requests" && len(c.rest) == 1:
		s.listMergeRequests(c)
	case c.part(0) == "pipelines" && len(c.rest) == 1:
		s.listPipelines(c)
	case c.part(0) == "repository" && c.part(1) == "commits" && c.part(3) == "statuses":
		s.listStatuses(c, c.part(2))
	default:
		Refuse(c, http.StatusNotFound, "404 Not Found")
	}
}

// part is a part of the path below the project; empty where the path is shorter.
func (c apiCall) part(i int) string {
	if i < len(c.rest) {
		return c.rest[i]
	}
	return ""
}

func (c apiCall) write(code int, v any) {
	c.Header().Set("Content-Type", "application/json")
	c.WriteHeader(code)
	_ = json.NewEncoder(c.ResponseWriter).Encode(v) // a client that went away
}

// Header is that of the response.
func (c apiCall) Header() http.Header { return c.ResponseWriter.Header() }

// Write writes the response's body.
func (c apiCall) Write(b []byte) (int, error) { return c.ResponseWriter.Write(b) }

// Refuse writes an error as GitLab does.
func Refuse(w http.ResponseWriter, code int, message any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"message": message}) // a client that went away
}

// maxCounted is up to how many items GitLab counts them.
const maxCounted = 10_000

// paged cuts a list, and writes the headers of a page.
func paged[T any](c apiCall, all []T) []T {
	number := func(key string, otherwise int) int {
		if n, err := strconv.Atoi(c.URL.Query().Get(key)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	size, page := min(number("per_page", 20), 100), number("page", 1)
	last := max(1, (len(all)+size-1)/size)
	var links []string
	link := func(rel string, page int) {
		q := c.URL.Query()
		q.Set("page", strconv.Itoa(page))
		links = append(links, fmt.Sprintf(`<http://%s%s?%s>; rel="%s"`, c.Host, c.URL.EscapedPath(), q.Encode(), rel))
	}
	h := c.Header()
	h.Set("X-Page", strconv.Itoa(page))
	h.Set("X-Per-Page", strconv.Itoa(size))
	h.Set("X-Next-Page", "")
	if page > 1 {
		link("prev", page-1)
	}
	if page < last {
		link("next", page+1)
		h.Set("X-Next-Page", strconv.Itoa(page+1))
	}
	link("first", 1)
	if len(all) <= maxCounted {
		link("last", last)
		h.Set("X-Total", strconv.Itoa(len(all)))
		h.Set("X-Total-Pages", strconv.Itoa(last))
	}
	h.Set("Link", strings.Join(links, ", "))
	from := min(len(all), (page-1)*size)
	return all[from:min(len(all), from+size)]
}
