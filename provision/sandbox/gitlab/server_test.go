package gitlab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	ada = User{ID: 1, Name: "ada"}
	bob = User{ID: 2, Name: "bob"}
)

func start(open int) *Server {
	s := New("platform/gpu/nodes", time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), map[string]User{"ada": ada, "bob": bob})
	s.Open(open, ada)
	return s
}

// send makes a request as curl would, and reads the response.
func send(t *testing.T, s *Server, token, method, path string, sent any) (*http.Response, any) {
	t.Helper()
	content, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(method, "http://gitlab.example.com/api/v4"+path, bytes.NewReader(content))
	r.Header.Set("PRIVATE-TOKEN", token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	var got any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return w.Result(), got
}

const below = "/projects/platform%2Fgpu%2Fnodes"

func TestWhoeverHasNoTokenIsRefused(t *testing.T) {
	s := start(1)
	for _, path := range []string{"/user", below + "/merge_requests", "/projects/9/merge_requests"} {
		if response, _ := send(t, s, "eve", http.MethodGet, path, nil); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/api/v4/user", nil)
	r.Header.Set("Authorization", "Bearer bob")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"username":"bob"`) {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}

func TestOneProjectIsThereByItsPathAndItsNumber(t *testing.T) {
	s := start(1)
	for path, want := range map[string]int{
		below + "/merge_requests": 200, "/projects/3/merge_requests": 200, "/projects/4/merge_requests": 404, "/projects/platform/gpu/nodes/merge_requests": 404,
		below + "/merge_requests/2/notes": 404, below + "/merge_requests/1/notes": 200, below + "/issues": 404, below + "/merge_requests/x/notes": 404,
	} {
		if response, _ := send(t, s, "ada", http.MethodGet, path, nil); response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
}

func TestPagesLeadToEachOther(t *testing.T) {
	s := start(45)
	path, count := below+"/merge_requests?state=opened&order_by=created_at&sort=asc&per_page=20", 0
	for page := 1; path != ""; page++ {
		response, got := send(t, s, "ada", http.MethodGet, path, nil)
		count += len(got.([]any))
		link, next := response.Header.Get("Link"), response.Header.Get("X-Next-Page")
		if response.Header.Get("X-Total") != "45" || (next == "") == strings.Contains(link, `rel="next"`) || next != "" && next != fmt.Sprint(page+1) {
			t.Fatalf("page %d: %v", page, response.Header)
		}
		path = ""
		if next != "" {
			path = below + "/merge_requests?state=opened&order_by=created_at&sort=asc&per_page=20&page=" + next
		}
	}
	if count != 45 {
		t.Errorf("%d of 45", count)
	}
	s.Open(maxCounted, ada)
	response, _ := send(t, s, "ada", http.MethodGet, below+"/merge_requests", nil)
	if response.Header.Get("X-Total") != "" || strings.Contains(response.Header.Get("Link"), `rel="last"`) {
		t.Errorf("so many are not counted: %v", response.Header)
	}
}

func TestListsAreFilteredAndSorted(t *testing.T) {
	s := start(3)
	s.Change(func(now time.Time) { s.MergeRequests[0].State, s.MergeRequests[0].Updated = "merged", now })
	for query, want := range map[string][]float64{
		"": {3, 2, 1}, "state=opened&sort=asc": {2, 3}, "state=all&order_by=updated_at&sort=desc": {1, 3, 2}, "state=merged": {1},
	} {
		_, got := send(t, s, "ada", http.MethodGet, below+"/merge_requests?"+query, nil)
		var numbers []float64
		for _, m := range got.([]any) {
			numbers = append(numbers, m.(map[string]any)["iid"].(float64))
		}
		if diff := cmp.Diff(want, numbers); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

func TestANoteIsItsAuthors(t *testing.T) {
	s := start(1)
	notes := below + "/merge_requests/1/notes"
	_, made := send(t, s, "ada", http.MethodPost, notes, map[string]string{"body": "hello \n"})
	one := fmt.Sprintf("%s/%.0f", notes, made.(map[string]any)["id"])
	for _, tt := range []struct {
		name, token, method, path, body string
		want                            int
	}{
		{"another user edits it", "bob", http.MethodPut, one, "x", 403},
		{"another user deletes it", "bob", http.MethodDelete, one, "", 403},
		{"its author edits it", "ada", http.MethodPut, one, "changed", 200},
		{"an empty one", "ada", http.MethodPut, one, "", 400},
		{"one that is too long", "ada", http.MethodPost, notes, strings.Repeat("é", maxNote+1), 400},
		{"one that is as long as may be", "ada", http.MethodPost, notes, strings.Repeat("é", maxNote), 201},
		{"one that is not there", "ada", http.MethodPut, notes + "/1", "x", 404},
		{"another method", "ada", http.MethodPatch, notes, "x", 405},
		{"its author deletes it", "ada", http.MethodDelete, one, "", 204},
		{"it is gone", "ada", http.MethodDelete, one, "", 404},
	} {
		if response, _ := send(t, s, tt.token, tt.method, tt.path, map[string]string{"body": tt.body}); response.StatusCode != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, response.StatusCode, tt.want)
		}
	}
}

func TestQuickActionsAreTakenOutOfNotes(t *testing.T) {
	s := start(1)
	for text, want := range map[string]string{
		"a\n/merge\nb": "a\n\nb", "/CLOSE now": "", "a\n\r/merge": "a", " /merge": " /merge", "```\n/merge\n```": "```\n/merge\n```", "a /close": "a /close", "/mergex": "/mergex",
	} {
		s.Commands, s.Notes = nil, nil
		send(t, s, "ada", http.MethodPost, below+"/merge_requests/1/notes", map[string]string{"body": text})
		if got := s.Notes[0].Body; got != want && text != "/mergex" || (len(s.Commands) > 0) != (got != text) {
			t.Errorf("%q: got %q and %q", text, got, s.Commands)
		}
	}
}

func TestStatusesHaveTransitions(t *testing.T) {
	s := start(2)
	s.MergeRequests[1].SourceProject = 9
	mine, forks := fmt.Sprintf("%040x", 1), fmt.Sprintf("%040x", 2)
	for _, tt := range []struct {
		name, sha, state, ref string
		want, count           int
	}{
		{"no state", mine, "", "", 400, 0},
		{"a state of another forge", mine, "error", "", 400, 0},
		{"a commit that is not there", strings.Repeat("f", 40), "pending", "", 404, 0},
		{"the head of a fork", forks, "pending", "", 404, 0},
		{"the head of a fork with its reference", forks, "pending", "refs/merge-requests/2/head", 201, 1},
		{"pending", mine, "pending", "", 201, 2},
		{"pending again", mine, "pending", "", 400, 2},
		{"running", mine, "running", "", 201, 2},
		{"pending after running", mine, "pending", "", 400, 2},
		{"success", mine, "success", "", 201, 2},
		{"success again, which is another", mine, "success", "", 201, 3},
		{"failed", mine, "failed", "", 201, 4},
	} {
		response, got := send(t, s, "ada", http.MethodPost, below+"/statuses/"+tt.sha, map[string]string{"state": tt.state, "name": "plan", "ref": tt.ref})
		if response.StatusCode != tt.want || len(s.Statuses) != tt.count {
			t.Errorf("%s: %d with %d statuses: %v", tt.name, response.StatusCode, len(s.Statuses), got)
		}
	}
	_, newest := send(t, s, "ada", http.MethodGet, below+"/repository/commits/"+mine+"/statuses?name=plan", nil)
	_, all := send(t, s, "ada", http.MethodGet, below+"/repository/commits/"+mine+"/statuses?all=true", nil)
	if len(newest.([]any)) != 1 || newest.([]any)[0].(map[string]any)["status"] != "failed" || len(all.([]any)) != 3 {
		t.Errorf("got %v of %v", newest, all)
	}
	if got := s.Counted(); !slices.Contains(got, "POST /api/v4"+below+"/statuses/"+mine) || len(s.Counted()) != 0 {
		t.Errorf("requests: %q", got)
	}
}

func TestStatusesAreInPipelines(t *testing.T) {
	s := start(1)
	sha, ref := fmt.Sprintf("%040x", 1), "refs/merge-requests/1/head"
	push, merge := s.AddPipeline(sha, "change-1", "push").ID, s.AddPipeline(sha, ref, "merge_request_event").ID
	for _, tt := range []struct {
		name string
		sent map[string]any
		code int
		in   int64
	}{
		{"the newest", map[string]any{}, 201, merge},
		{"the newest of a reference", map[string]any{"ref": "change-1"}, 201, push},
		{"that of a number", map[string]any{"pipeline_id": push}, 201, push},
		{"that of a number and its reference", map[string]any{"pipeline_id": merge, "ref": ref}, 201, merge},
		{"that of a number and another reference", map[string]any{"pipeline_id": merge, "ref": "change-1"}, 404, 0},
		{"no pipeline", map[string]any{"pipeline_id": 1}, 404, 0},
		{"a reference without one, which gets one", map[string]any{"ref": "copy"}, 201, merge + 5},
	} {
		tt.sent["state"], tt.sent["name"] = "failed", "plan"
		response, got := send(t, s, "ada", http.MethodPost, below+"/statuses/"+sha, tt.sent)
		in, _ := got.(map[string]any)["pipeline_id"].(float64)
		if response.StatusCode != tt.code || int64(in) != tt.in {
			t.Errorf("%s: %d, in pipeline %.0f", tt.name, response.StatusCode, in)
		}
	}
	_, newest := send(t, s, "ada", http.MethodGet, below+"/repository/commits/"+sha+"/statuses?name=plan", nil)
	_, pipelines := send(t, s, "ada", http.MethodGet, below+"/pipelines?sha="+sha, nil)
	if len(newest.([]any)) != 3 || len(pipelines.([]any)) != 3 || pipelines.([]any)[0].(map[string]any)["source"] != "external" {
		t.Errorf("got %v in %v", newest, pipelines)
	}
}
