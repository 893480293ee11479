package gitlab_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/forgetest"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitlab"
)

const (
	token   = "glpat-0123456789abcdefghij"
	project = "platform/gpu.team/nodes"
)

var (
	ada = server.User{ID: 1, Name: "ada"}
	bot = server.User{ID: 7, Name: "project_3_bot"}
)

// lab is the stand-in for a GitLab, which listens.
type lab struct {
	*server.Server
	url string
}

func newLab(t *testing.T, open int) *lab {
	t.Helper()
	s := server.New(project, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), map[string]server.User{token: bot, "ada": ada})
	s.Open(open, ada)
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	return &lab{s, listening.URL}
}

func (l *lab) forge(t *testing.T) *gitlab.Forge { return l.forgeBy(t, nil) }

func (l *lab) forgeBy(t *testing.T, transport http.RoundTripper) *gitlab.Forge {
	t.Helper()
	f, err := gitlab.New(gitlab.Config{Address: l.url, Project: project, Token: token, Transport: transport, Now: l.Time})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// mergeRequest edits one.
func (l *lab) mergeRequest(number int, edit func(m *server.MergeRequest)) {
	l.Change(func(now time.Time) {
		l.MergeRequests[number-1].Updated = now
		edit(l.MergeRequests[number-1])
	})
}

func (l *lab) comments(number int) (out []forgetest.ThreadEntry) {
	l.Change(func(time.Time) {
		for _, n := range l.Notes {
			if n.IID == int64(number) {
				out = append(out, forgetest.ThreadEntry{Mine: n.Author == bot, Body: n.Body})
			}
		}
	})
	return out
}

func TestGitLabConforms(t *testing.T) {
	l := newLab(t, 130)
	pushed := strings.Repeat("ab", 20)
	forgetest.Run(t, forgetest.Server{
		First: 1, Second: 2,
		Connect: func(transport http.RoundTripper) forge.Forge { return l.forgeBy(t, transport) },
		Push: func(number int) string {
			l.mergeRequest(number, func(m *server.MergeRequest) { m.SHA = pushed })
			return pushed
		},
		Close: func(number int) { l.mergeRequest(number, func(m *server.MergeRequest) { m.State = "closed" }) },
		Merge: func(number int) {
			l.mergeRequest(number, func(m *server.MergeRequest) {
				m.State, m.Merged, m.MergeCommitSHA = "merged", m.Updated, strings.Repeat("cd", 20)
			})
		},
		Comments: l.comments,
		Imitate:  func(number int, body string) { l.Change(func(time.Time) { l.AddNote(int64(number), ada, body) }) },
		Delete: func(number, index int) {
			l.Change(func(time.Time) {
				at := -1
				l.Notes = slices.DeleteFunc(l.Notes, func(n *server.Note) bool {
					if n.IID == int64(number) {
						at++
					}
					return n.IID == int64(number) && at == index
				})
			})
		},
		Statuses: func(sha, context string) (n int) {
			l.Change(func(time.Time) {
				for _, s := range l.Statuses {
					if s.SHA == sha && s.Name == context {
						n++
					}
				}
			})
			return n
		},
	})
}
