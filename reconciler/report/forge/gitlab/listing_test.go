package gitlab_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitlab"
)

func list(t *testing.T, f forge.Forge, since forge.Listing) forge.Listing {
	t.Helper()
	listing, err := f.PullRequests(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return listing
}

func numbers(list []forge.PullRequest) []int {
	out := make([]int, len(list))
	for i, p := range list {
		out[i] = p.Number
	}
	return out
}

func count(to int) []int {
	out := []int{}
	for n := range to {
		out = append(out, n+1)
	}
	return out
}

func TestEveryPageOfAProjectInSubgroupsIsRead(t *testing.T) {
	l := newLab(t, 350)
	got := list(t, l.forge(t), forge.Listing{})
	if diff := cmp.Diff(count(350), numbers(got.Open)); diff != "" {
		t.Error(diff)
	}
	for _, r := range l.Counted() {
		if !strings.HasPrefix(r, "GET /api/v4/projects/platform%2Fgpu%2Eteam%2Fnodes/") {
			t.Errorf("it requested %s", r)
		}
	}
	if p := got.Open[6]; p.Ref() != "refs/merge-requests/7/head" || p.URL != "https://gitlab.example.com/"+project+"/-/merge_requests/7" || p.Author != "ada" {
		t.Errorf("got %+v", p)
	}
}

func TestTheLinkHeaderLeadsOnWhereThereIsNoOther(t *testing.T) {
	l := newLab(t, 250)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		l.ServeHTTP(recorded, r)
		for name, values := range recorded.Header() {
			if !strings.HasPrefix(name, "X-") {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	}))
	defer s.Close()
	f, err := gitlab.New(gitlab.Config{Address: s.URL, Project: project, Token: token, Now: l.Time})
	if err != nil {
		t.Fatal(err)
	}
	if got := list(t, f, forge.Listing{}); len(got.Open) != 250 {
		t.Errorf("%d are open", len(got.Open))
	}
}

func TestAChangeCostsOnePage(t *testing.T) {
	l := newLab(t, 250)
	f := l.forge(t)
	listing := list(t, f, forge.Listing{})
	tests := []struct {
		name  string
		edit  func(m *server.MergeRequest)
		check func(p forge.Listing) bool
	}{
		{"a forced push", func(m *server.MergeRequest) { m.SHA = strings.Repeat("a", 40) },
			func(p forge.Listing) bool { return p.Open[2].Head.SHA == strings.Repeat("a", 40) }},
		{"a draft", func(m *server.MergeRequest) { m.Draft = true }, func(p forge.Listing) bool { return p.Open[2].Draft }},
		{"one that is being merged", func(m *server.MergeRequest) { m.State = "locked" }, func(p forge.Listing) bool { return p.Open[2].Number == 3 }},
		{"one that is closed", func(m *server.MergeRequest) { m.State = "closed" },
			func(p forge.Listing) bool { return len(p.Open) == 249 && len(p.Merged) == 0 }},
		{"one that is opened again", func(m *server.MergeRequest) { m.State = "opened" }, func(p forge.Listing) bool { return p.Open[2].Number == 3 }},
		{"a fast-forward merge", func(m *server.MergeRequest) { m.State, m.Merged = "merged", m.Updated },
			func(p forge.Listing) bool {
				return p.Merged[0].MergeCommit == strings.Repeat("a", 40) && len(p.Open) == 249
			}},
		{"a squash that is fast-forwarded", func(m *server.MergeRequest) { m.SquashSHA = strings.Repeat("b", 40) },
			func(p forge.Listing) bool { return p.Merged[0].MergeCommit == strings.Repeat("b", 40) }},
		{"a merge commit", func(m *server.MergeRequest) { m.MergeCommitSHA = strings.Repeat("c", 40) },
			func(p forge.Listing) bool { return p.Merged[0].MergeCommit == strings.Repeat("c", 40) }},
	}
	for _, tt := range tests {
		l.mergeRequest(3, tt.edit)
		l.Counted()
		after := list(t, f, listing)
		if got := l.Counted(); !tt.check(after) || len(got) > 3 {
			t.Errorf("%s: open %v, merged %+v, requests %q", tt.name, numbers(after.Open), after.Merged, got)
		}
		listing = after
	}
	l.Counted()
	if got := list(t, f, listing); !got.Unchanged || len(l.Counted()) > 3 {
		t.Errorf("unchanged: %v", got.Unchanged)
	}
}

func TestWhatIsClosedWhilePagesAreReadHidesNone(t *testing.T) {
	l := newLab(t, 250)
	closed := false
	l.Change(func(time.Time) {
		l.Before = func(_ http.ResponseWriter, r *http.Request) bool {
			if q := r.URL.Query(); q.Get("state") == "opened" && q.Get("page") == "2" && !closed {
				closed = true
				l.Now = l.Now.Add(time.Second)
				l.MergeRequests[5].State, l.MergeRequests[5].Updated = "closed", l.Now
			}
			return false
		}
	})
	got := list(t, l.forge(t), forge.Listing{})
	want := slices.DeleteFunc(count(250), func(n int) bool { return n == 6 })
	if diff := cmp.Diff(want, numbers(got.Open)); diff != "" {
		t.Error(diff)
	}
}

func TestForksAndHostileResponsesAreDetected(t *testing.T) {
	l := newLab(t, 4)
	l.Change(func(time.Time) {
		l.MergeRequests[0].SourceProject = 200
		l.MergeRequests[1].SourceProject, l.MergeRequests[1].SHA = 0, ""
		l.MergeRequests[2].SHA, l.MergeRequests[2].Source = "../../x", "a`b\n<script>"
		l.MergeRequests[3].SHA = strings.Repeat("A", 40)
	})
	got := list(t, l.forge(t), forge.Listing{}).Open
	if !got[0].Fork || !got[1].Fork || got[2].Fork || got[3].Fork {
		t.Errorf("forks: %+v", got)
	}
	if got[1].Head.SHA != "" || got[2].Head.SHA != "" || got[2].Head.Name != "a`b\n<script>" || got[3].Head.SHA != strings.Repeat("a", 40) {
		t.Errorf("got %+v", got)
	}
}
