package gitlab_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	server "github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

var marker = forge.NewMarker("plan", "team/nodes", "one")

func post(t *testing.T, f forge.Forge, number int, c forge.Comment) forge.PostedComment {
	t.Helper()
	c.Marker = marker
	posted, err := f.Comment(t.Context(), number, c)
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

// writes are the requests that change something.
func writes(requests []string) []string {
	return slices.DeleteFunc(requests, func(r string) bool { return strings.HasPrefix(r, "GET ") })
}

func TestNoLineOfACommentIsAQuickAction(t *testing.T) {
	l := newLab(t, 1)
	f := l.forge(t)
	for _, text := range []string{
		"/merge", "text\n/close", "text\r\n/merge", "text\n\r/merge", "text\n/CLOSE now", "````diff\n```\n/merge\n```\n````", "- a\n\n/merge\n", "<details>\n/merge\n</details>",
	} {
		for i, c := range []forge.Comment{{Body: text}, {Body: "b", Footer: text}} {
			post(t, f, 1, c)
			if again := post(t, f, 1, c); again.Written {
				t.Errorf("%q in %d: the same was written again", text, i)
			}
		}
	}
	// A person put one into our note, into code, where GitLab leaves it: the next tail must not bring it to life.
	l.Change(func(time.Time) { l.Notes[0].Body = string(marker) + "\nsee\n/merge\n" })
	post(t, f, 1, forge.Comment{Footer: "applied"})
	if len(l.Commands) > 0 {
		t.Errorf("GitLab would have carried out %q", l.Commands)
	}
	if got := l.comments(1); len(got) != 1 || !strings.Contains(got[0].Body, "\u200b/merge") {
		t.Errorf("got %+v", got)
	}
}

func TestNotesOfTheSystemAndOfOthersAreLeftAlone(t *testing.T) {
	l := newLab(t, 1)
	l.Change(func(time.Time) {
		l.AddNote(1, ada, string(marker)+"\nan imitation")
		l.AddNote(1, bot, string(marker)+"\nof the system").System = true
		for range 240 { // ours will be on the third page
			l.AddNote(1, ada, "chatter")
		}
	})
	f := l.forge(t)
	if posted := post(t, f, 1, forge.Comment{Body: "ours"}); !posted.Written || posted.URL != fmt.Sprintf("%s/%s/-/merge_requests/1#note_%d", l.url, project, l.Notes[242].ID) {
		t.Errorf("got %+v", posted)
	}
	post(t, l.forge(t), 1, forge.Comment{Body: "ours, again"})
	if got := writes(l.Counted()); len(got) != 2 || !strings.HasPrefix(got[1], "PUT ") {
		t.Errorf("wrote %q", got)
	}
	if l.Notes[0].Body != string(marker)+"\nan imitation" || l.Notes[1].Body != string(marker)+"\nof the system" || len(l.Notes) != 243 {
		t.Errorf("others' notes were changed: %d", len(l.Notes))
	}
}

func TestANoteThatTheListDoesNotShowYetIsNotMadeTwice(t *testing.T) {
	l := newLab(t, 1)
	l.Change(func(time.Time) { l.HiddenFrom = 1 })
	f := l.forge(t)
	for _, text := range []string{"first", "second", "third"} {
		post(t, f, 1, forge.Comment{Body: text})
	}
	if got := l.comments(1); len(got) != 1 || !strings.HasSuffix(got[0].Body, "\nthird") {
		t.Errorf("got %+v", got)
	}
}

func TestAStatusKeepsToTheTransitionsOfGitLab(t *testing.T) {
	l := newLab(t, 2)
	f := l.forge(t)
	sha := list(t, f, forge.Listing{}).Open[0].Head.SHA
	l.Counted()
	steps := []struct {
		name   string
		status forge.Status
		state  string
		writes int
	}{
		{"planning", forge.Status{State: forge.Pending, Description: "planning a"}, "pending", 1},
		{"planning still, which GitLab refuses to set", forge.Status{State: forge.Pending, Description: "planning b"}, "pending", 0},
		{"planned", forge.Status{State: forge.Success, Description: "2 objects", URL: "https://example.org/1"}, "success", 1},
		{"planned, the same", forge.Status{State: forge.Success, Description: "2 objects", URL: "https://example.org/1"}, "success", 0},
		{"another plan", forge.Status{State: forge.Success, Description: "3 objects", URL: "https://example.org/1"}, "success", 1},
		{"planning again", forge.Status{State: forge.Pending, Description: "planning c"}, "pending", 1},
		{"refused", forge.Status{State: forge.Failure, Description: "held"}, "failed", 1},
		{"not planned", forge.Status{State: forge.Errored, Description: "no base"}, "failed", 1},
	}
	for _, step := range steps {
		step.status.Context = "poolwright/plan (one)"
		for _, by := range []forge.Forge{f, l.forge(t)} {
			if err := by.Status(t.Context(), sha, step.status); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		newest := l.Statuses[len(l.Statuses)-1]
		if got := writes(l.Counted()); len(got) != step.writes || newest.State != step.state || newest.Ref != "change-1" {
			t.Errorf("%s: wrote %q, got %+v", step.name, got, newest)
		}
	}
	long := forge.Status{Context: strings.Repeat("é", 300), State: forge.Errored, Description: strings.Repeat("é", 300)}
	if err := f.Status(t.Context(), sha, long); err != nil {
		t.Error(err)
	}
}

func TestTheStatusOfAForkNamesTheReferenceThatHoldsItsHead(t *testing.T) {
	l := newLab(t, 1)
	l.mergeRequest(1, func(m *server.MergeRequest) { m.SourceProject, m.Source = 200, "main" })
	sha := fmt.Sprintf("%040x", 1)
	status := forge.Status{Context: "c", State: forge.Success}
	unlisted := l.forge(t)
	var known *forge.Error
	if err := unlisted.Status(t.Context(), sha, status); !errors.As(err, &known) || known.Code != 404 {
		t.Errorf("the stand-in took a status without a reference: %v", err)
	}
	f := l.forge(t)
	list(t, f, forge.Listing{})
	if err := f.Status(t.Context(), sha, status); err != nil || len(l.Statuses) != 1 || l.Statuses[0].Ref != "refs/merge-requests/1/head" {
		t.Errorf("got %+v, %v", l.Statuses, err)
	}
}
