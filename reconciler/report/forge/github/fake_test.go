package github_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge/github"
)

// hub emulates GitHub for the repository ada/nodes, by GitHub's public description
// of its REST API, version 2022-11-28: paths, fields, orders, page sizes, Link
// headers, validators, and what it refuses.
type hub struct {
	server *httptest.Server

	mu       sync.Mutex
	pulls    []*pull
	comments []*issueComment
	statuses []map[string]any
	nextID   int64
	clock    time.Time
	me       map[string]any
	// tokens are those that are good, with their permissions; nil are those of a user's, who may do everything but
	// write checks. granted is what the installation of the App grants, app its key.
	tokens   map[string]map[string]any
	granted  map[string]any
	app      []byte
	checks   []*checkRun
	requests []string // method and path with query; 304 are marked
	// before is asked before an answer is made; true means it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
	// lag hides comments of this ID and above from lists.
	lag int64
}

type pull struct {
	number       int
	open, draft  bool
	title, login string
	branch, sha  string
	headRepo     int64 // 0: deleted
	updated      time.Time
	merged       time.Time
}

type issueComment struct {
	id     int64
	number int
	user   map[string]any
	body   string
}

const (
	token     = "github_pat_11AAAA0000secret"
	nodesRepo = int64(100)
)

func sha(n int) string { return fmt.Sprintf("%040x", n) }

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{
		clock: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), nextID: 1000, tokens: map[string]map[string]any{token: nil},
		me: map[string]any{"id": 7, "login": "poolwright-bot", "type": "User"},
	}
	mux := http.NewServeMux()
	const repo = "/repos/ada/nodes"
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) { write(w, http.StatusOK, h.me) })
	mux.HandleFunc("GET "+repo+"/pulls", h.listPulls)
	mux.HandleFunc("GET "+repo+"/issues/{number}/comments", h.listComments)
	mux.HandleFunc("POST "+repo+"/issues/{number}/comments", h.createComment)
	mux.HandleFunc("PATCH "+repo+"/issues/comments/{id}", h.editComment)
	mux.HandleFunc("DELETE "+repo+"/issues/comments/{id}", h.deleteComment)
	mux.HandleFunc("GET "+repo+"/commits/{sha}/status", h.combined)
	mux.HandleFunc("POST "+repo+"/statuses/{sha}", h.createStatus)
	mux.HandleFunc("GET "+repo+"/commits/{sha}/check-runs", h.listChecks)
	mux.HandleFunc("GET "+repo+"/check-runs/{id}/annotations", h.listAnnotations)
	mux.HandleFunc("POST "+repo+"/check-runs", h.createCheck)
	mux.HandleFunc("PATCH "+repo+"/check-runs/{id}", h.updateCheck)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { refuse(w, http.StatusNotFound, "Not Found") })
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.requests = append(h.requests, r.Method+" "+r.URL.RequestURI())
		switch {
		case h.before != nil && h.before(w, r):
		case r.UserAgent() == "":
			refuse(w, http.StatusForbidden, "Request forbidden by administrative rules.")
		case r.Header.Get("X-GitHub-Api-Version") != "2022-11-28":
			refuse(w, http.StatusBadRequest, "no version was asked for")
		case !h.authorized(r):
			refuse(w, http.StatusUnauthorized, "Bad credentials")
		default:
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(h.server.Close)
	return h
}

// authorized reports whether the request has a good token.
func (h *hub) authorized(r *http.Request) bool {
	_, ok := h.tokens[credential(r)]
	return ok
}

func credential(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token
}

// forge connects with the token.
func (h *hub) forge(t *testing.T) *github.Forge {
	t.Helper()
	return h.connect(t, github.Config{Token: token})
}

// connect makes a client of the hub with the credential and the transport of a configuration.
func (h *hub) connect(t *testing.T, config github.Config) *github.Forge {
	t.Helper()
	config.Address, config.Repository, config.Now = h.server.URL, "ada/nodes", h.now
	f, err := github.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (h *hub) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clock
}

// change edits the state as a person would, one second later.
func (h *hub) change(edit func(now time.Time)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock = h.clock.Add(time.Second)
	edit(h.clock)
}

// add opens n pull requests.
func (h *hub) add(n int) {
	for range n {
		h.change(func(now time.Time) {
			number := len(h.pulls) + 1
			h.pulls = append(h.pulls, &pull{
				number: number, open: true, title: fmt.Sprintf("Change %d", number), login: "ada",
				branch: fmt.Sprintf("change-%d", number), sha: sha(number), headRepo: nodesRepo, updated: now,
			})
		})
	}
}

// counted are the requests since the last call.
func (h *hub) counted() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.requests
	h.requests = nil
	return out
}

func write(w http.ResponseWriter, code int, v any) {
	content, _ := json.Marshal(v)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(content)
}

func refuse(w http.ResponseWriter, code int, message string) {
	write(w, code, map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(code)})
}

// paged cuts a list and writes the Link header as GitHub does: next and last
// but on the last page, first and prev but on the first.
func paged[T any](w http.ResponseWriter, r *http.Request, all []T) []T {
	number := func(key string, otherwise int) int {
		if n, err := strconv.Atoi(r.URL.Query().Get(key)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	size, page := min(number("per_page", 30), 100), number("page", 1)
	last := max(1, (len(all)+size-1)/size)
	var links []string
	link := func(rel string, page int) {
		q := r.URL.Query()
		q.Set("page", strconv.Itoa(page))
		links = append(links, fmt.Sprintf(`<http://%s%s?%s>; rel="%s"`, r.Host, r.URL.Path, q.Encode(), rel))
	}
	if page > 1 {
		link("prev", page-1)
	}
	if page < last {
		link("next", page+1)
		link("last", last)
	}
	if page > 1 {
		link("first", 1)
	}
	if links != nil {
		w.Header().Set("Link", strings.Join(links, ", "))
	}
	from := min(len(all), (page-1)*size)
	return all[from:min(len(all), from+size)]
}

func (h *hub) listPulls(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var found []*pull
	for _, p := range h.pulls {
		if state := q.Get("state"); state == "all" || state == "closed" && !p.open || state != "closed" && p.open {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b *pull) int {
		order := a.number - b.number
		if q.Get("sort") == "updated" {
			order = a.updated.Compare(b.updated)
		}
		if q.Get("direction") == "desc" {
			return -order
		}
		return order
	})
	list := []any{}
	for _, p := range paged(w, r, found) {
		list = append(list, p.json())
	}
	h.validated(w, r, list)
}

// validated answers 304 where the validator fits.
func (h *hub) validated(w http.ResponseWriter, r *http.Request, v any) {
	content, _ := json.Marshal(v)
	tag := fmt.Sprintf(`W/"%x"`, sha256.Sum256(content))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		h.requests[len(h.requests)-1] += " 304"
		w.WriteHeader(http.StatusNotModified)
		return
	}
	write(w, http.StatusOK, v)
}

func (p *pull) json() map[string]any {
	stamp := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.Format(time.RFC3339)
	}
	repository := func(id int64) any {
		if id == 0 {
			return nil
		}
		return map[string]any{"id": id, "full_name": "ada/nodes", "private": true}
	}
	state := "closed"
	if p.open {
		state = "open"
	}
	return map[string]any{
		"id": 5_000_000_000 + p.number, "number": p.number, "state": state, "locked": false, "title": p.title, "draft": p.draft,
		"html_url": fmt.Sprintf("https://github.com/ada/nodes/pull/%d", p.number), "body": nil,
		"user": map[string]any{"login": p.login, "id": 1, "type": "User"}, "created_at": "2026-01-01T00:00:00Z", "updated_at": stamp(p.updated),
		"merged_at": stamp(p.merged), "merge_commit_sha": sha(900 + p.number), "labels": []any{}, "milestone": nil,
		"head": map[string]any{"label": p.login + ":" + p.branch, "ref": p.branch, "sha": p.sha, "repo": repository(p.headRepo)},
		"base": map[string]any{"label": "ada:main", "ref": "main", "sha": sha(1_000_000), "repo": repository(nodesRepo)},
	}
}

func (h *hub) commentJSON(c *issueComment) map[string]any {
	return map[string]any{
		"id": c.id, "body": c.body, "user": c.user, "author_association": "MEMBER", "created_at": "2026-01-01T00:00:00Z",
		"html_url": fmt.Sprintf("https://github.com/ada/nodes/pull/%d#issuecomment-%d", c.number, c.id),
	}
}

func (h *hub) listComments(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.PathValue("number"))
	if number > len(h.pulls) {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	var found []*issueComment
	for _, c := range h.comments {
		if c.number == number && (h.lag == 0 || c.id < h.lag) {
			found = append(found, c)
		}
	}
	list := []any{}
	for _, c := range paged(w, r, found) {
		list = append(list, h.commentJSON(c))
	}
	write(w, http.StatusOK, list)
}

func body(w http.ResponseWriter, r *http.Request) (string, bool) {
	var sent struct{ Body *string }
	if json.NewDecoder(r.Body).Decode(&sent) != nil || sent.Body == nil || *sent.Body == "" {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return "", false
	}
	if len([]rune(*sent.Body)) > 65536 {
		write(w, http.StatusUnprocessableEntity, map[string]any{"message": "Validation Failed", "errors": []any{
			map[string]any{"resource": "IssueComment", "field": "data", "code": "unprocessable", "message": "Body is too long (maximum is 65536 characters)"},
		}})
		return "", false
	}
	return *sent.Body, true
}

// addComment is a comment by anyone.
func (h *hub) addComment(number int, user map[string]any, text string) *issueComment {
	h.nextID++
	c := &issueComment{id: h.nextID, number: number, user: user, body: text}
	h.comments = append(h.comments, c)
	return c
}

func (h *hub) createComment(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.PathValue("number"))
	if text, ok := body(w, r); ok {
		write(w, http.StatusCreated, h.commentJSON(h.addComment(number, h.me, text)))
	}
}

func (h *hub) find(w http.ResponseWriter, r *http.Request) int {
	i := slices.IndexFunc(h.comments, func(c *issueComment) bool { return strconv.FormatInt(c.id, 10) == r.PathValue("id") })
	switch {
	case i < 0:
		refuse(w, http.StatusNotFound, "Not Found")
	case fmt.Sprint(h.comments[i].user["id"]) != fmt.Sprint(h.me["id"]):
		refuse(w, http.StatusForbidden, "Must have admin rights to Repository.")
		i = -1
	}
	return i
}

func (h *hub) editComment(w http.ResponseWriter, r *http.Request) {
	if i := h.find(w, r); i >= 0 {
		if text, ok := body(w, r); ok {
			h.comments[i].body = text
			write(w, http.StatusOK, h.commentJSON(h.comments[i]))
		}
	}
}

func (h *hub) deleteComment(w http.ResponseWriter, r *http.Request) {
	if i := h.find(w, r); i >= 0 {
		h.comments = slices.Delete(h.comments, i, i+1)
		w.WriteHeader(http.StatusNoContent)
	}
}

// combined shows the newest status of each context.
func (h *hub) combined(w http.ResponseWriter, r *http.Request) {
	if permissions := h.tokens[credential(r)]; permissions != nil && permissions["statuses"] == nil {
		refuse(w, http.StatusForbidden, "Resource not accessible by integration")
		return
	}
	newest := []map[string]any{}
	for _, s := range slices.Backward(h.statuses) {
		same := func(o map[string]any) bool { return o["context"] == s["context"] }
		if s["sha"] == r.PathValue("sha") && !slices.ContainsFunc(newest, same) {
			newest = append(newest, s)
		}
	}
	write(w, http.StatusOK, map[string]any{"state": "pending", "sha": r.PathValue("sha"), "total_count": len(newest), "statuses": paged(w, r, newest)})
}

func (h *hub) createStatus(w http.ResponseWriter, r *http.Request) {
	if permissions := h.tokens[credential(r)]; permissions != nil && permissions["statuses"] != "write" {
		refuse(w, http.StatusForbidden, "Resource not accessible by integration")
		return
	}
	var sent map[string]any
	_ = json.NewDecoder(r.Body).Decode(&sent)
	description, _ := sent["description"].(string)
	target, set := sent["target_url"].(string)
	u, err := url.Parse(target)
	if len([]rune(description)) > 140 || len(sent["context"].(string)) > 255 || set && (err != nil || !strings.HasPrefix(u.Scheme, "http")) ||
		!slices.Contains([]any{"error", "failure", "pending", "success"}, sent["state"]) {
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	sent["sha"] = r.PathValue("sha")
	h.statuses = append(h.statuses, sent)
	write(w, http.StatusCreated, sent)
}
