// Package forgetest is the conformance suite that every Forge passes, against the forge itself or a server
// written from its documentation: what a listing shows, that one comment stays one, and that statuses are
// written once.
//
// It refuses nothing: what one forge alone has is tested beside its client. Start reading at Run.
package forgetest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// ThreadEntry is one comment on a pull request.
type ThreadEntry struct {
	// Mine is true where our own user wrote it.
	Mine bool
	Body string
}

// Server is a repository at a forge, with two open pull requests into main that nobody commented on, and what
// people do there. Its functions fail the test that they were made for.
type Server struct {
	// First and Second are the numbers of the pull requests.
	First, Second int
	// Connect makes a client with our own user's credential with an empty cache, as a new process has it. Nil is Go's transport.
	Connect func(transport http.RoundTripper) forge.Forge
	// Push gives the pull request's branch another commit, and returns it. Close closes one, Merge merges one.
	Push         func(number int) string
	Close, Merge func(number int)
	// Comments are those of a pull request, oldest first. Imitate has another user comment, Delete takes the comment of this
	// index away.
	Comments func(number int) []ThreadEntry
	Imitate  func(number int, body string)
	Delete   func(number, index int)
	// Statuses is how many statuses of a context were written for a commit, or how many states its checks had.
	Statuses func(sha, context string) int
	// Checks are the checks of a context beside a commit, newest first. It is nil where the credential sets statuses only.
	Checks func(sha, context string) []PostedCheck
}

// PostedCheck is a check at the forge.
type PostedCheck struct {
	// Conclusion is empty where it is not concluded.
	Conclusion     string
	Title, Summary string
	Annotations    []forge.LineAnnotation
}

// imitation is what another user writes below our marker.
const imitation = "imitation"

var marker = forge.NewMarker("plan", "team/nodes", "conformance")

// Run runs the suite.
func Run(t *testing.T, s Server) {
	t.Helper()
	for _, law := range []struct {
		name string
		run  func(*testing.T, Server)
	}{
		{"a listing without a change is unchanged", unchanged},
		{"one comment is kept, whatever else is there", oneComment},
		{"replicas that comment at once leave one comment", replicas},
		{"a tail is replaced and what stands above it stays", footer},
		{"text that is too long is cut, and then equal", limit},
		{"a status is written when it changes, and only then", status},
		{"what is written again because its response was lost is there once", lostResponses},
		{"a check is one, with its annotations, where the credential may set checks", check},
		{"a push, a merge and a close show in the next listing", follow},
	} {
		t.Run(law.name, func(t *testing.T) { law.run(t, s) })
	}
}

// connect makes a client as a new process does.
func (s Server) connect() forge.Forge { return s.Connect(nil) }

func list(t *testing.T, f forge.Forge, since forge.Listing) forge.Listing {
	t.Helper()
	listing, err := f.PullRequests(t.Context(), since)
	if err != nil {
		t.Fatal(err)
	}
	return listing
}

// await lists until the listing is as it should be: forges take note of pushes a moment after they have taken them.
func await(t *testing.T, f forge.Forge, since forge.Listing, what string, is func(forge.Listing) bool) forge.Listing {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		if since = list(t, f, since); is(since) {
			return since
		}
		select {
		case <-deadline:
			t.Fatalf("waiting for %s: %+v", what, since)
		case <-tick.C:
		}
	}
}

func unchanged(t *testing.T, s Server) {
	f := s.connect()
	listing := list(t, f, forge.Listing{})
	if len(listing.Open) < 2 || listing.Unchanged {
		t.Fatalf("got %+v", listing)
	}
	for _, p := range listing.Open {
		if p.Number <= 0 || p.Title == "" || p.Author == "" || len(p.Head.SHA) != 40 || p.Head.Name == "" || p.Base.Name != "main" || p.Ref() == "" || p.Updated.IsZero() {
			t.Errorf("got %+v", p)
		}
	}
	await(t, f, listing, "rest", func(l forge.Listing) bool { return l.Unchanged })
}

func post(t *testing.T, f forge.Forge, number int, c forge.Comment) forge.PostedComment {
	t.Helper()
	posted, err := f.Comment(t.Context(), number, c)
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

// own are our comments with the marker, without it.
func own(s Server, number int, m forge.Marker) (out []string) {
	for _, c := range s.Comments(number) {
		if c.Mine && m.IsPrefixOf(c.Body) {
			out = append(out, strings.TrimPrefix(c.Body, string(m)+"\n"))
		}
	}
	return out
}

func oneComment(t *testing.T, s Server) {
	s.Imitate(s.First, string(marker)+"\n"+imitation)
	f := s.connect()
	steps := []struct {
		name    string
		by      forge.Forge
		before  func()
		body    string
		edit    bool
		written bool
		want    string
	}{
		{name: "nothing is edited where there is none", by: f, body: "first", edit: true},
		{name: "the first", by: f, body: "first", written: true, want: "first"},
		{name: "the same", by: f, body: "first", want: "first"},
		{name: "the same by another process", by: s.connect(), body: "first", want: "first"},
		{name: "another by another process", by: s.connect(), body: "second", edit: true, written: true, want: "second"},
		{name: "a person deleted it", by: f, before: func() { s.Delete(s.First, len(s.Comments(s.First))-1) }, body: "second", written: true, want: "second"},
	}
	for _, step := range steps {
		if step.before != nil {
			step.before()
		}
		posted := post(t, step.by, s.First, forge.Comment{Marker: marker, Body: step.body, EditOnly: step.edit})
		if got := strings.Join(own(s, s.First, marker), "|"); got != step.want || posted.Written != step.written || (posted.URL == "") != (step.want == "") {
			t.Fatalf("%s: got %q and %+v, want %q", step.name, got, posted, step.want)
		}
	}
	other := forge.NewMarker("plan", "team/nodes", "another")
	post(t, f, s.First, forge.Comment{Marker: other, Body: "of another cluster"})
	if got := len(own(s, s.First, marker)) + len(own(s, s.First, other)); got != 2 || s.Comments(s.First)[0].Body != string(marker)+"\n"+imitation {
		t.Errorf("%d are ours of %+v", got, s.Comments(s.First))
	}
}

func replicas(t *testing.T, s Server) {
	m := forge.NewMarker("plan", "team/nodes", "replicas")
	const count = 4
	done := make(chan error, count)
	for range count {
		f := s.connect()
		go func() {
			_, err := f.Comment(t.Context(), s.Second, forge.Comment{Marker: m, Body: "race"})
			done <- err
		}()
	}
	for range count {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if got := own(s, s.Second, m); len(got) != 1 || got[0] != "race" {
		t.Errorf("got %q", got)
	}
}

func footer(t *testing.T, s Server) {
	m, f := forge.NewMarker("plan", "team/nodes", "footer"), s.connect()
	const mark = "\n\n<!-- poolwright:tail -->\n"
	for _, step := range []struct {
		c    forge.Comment
		want string
	}{
		{forge.Comment{Body: "### reviewed"}, "### reviewed"},
		{forge.Comment{Footer: "applied"}, "### reviewed" + mark + "applied"},
		{forge.Comment{Footer: "rolled out", EditOnly: true}, "### reviewed" + mark + "rolled out"},
		{forge.Comment{}, "### reviewed"},
	} {
		step.c.Marker = m
		post(t, f, s.Second, step.c)
		if got := own(s, s.Second, m); len(got) != 1 || got[0] != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

func limit(t *testing.T, s Server) {
	m, f := forge.NewMarker("plan", "team/nodes", "limit"), s.connect()
	body := "<details><summary>all</summary>\n\n```diff\n" + strings.Repeat("+ ümlaut 😀\n", 60_000) + "```\n</details>\n"
	for i := range 2 {
		if posted := post(t, f, s.Second, forge.Comment{Marker: m, Body: body}); posted.Written != (i == 0) {
			t.Errorf("written: %v", posted.Written)
		}
	}
	if got := own(s, s.Second, m); len(got) != 1 || len(got[0]) > f.Limit() || strings.Count(got[0], "<details>") != strings.Count(got[0], "</details>") || strings.Count(got[0], "```") != 2 {
		t.Errorf("%d comments", len(got))
	}
}

func status(t *testing.T, s Server) {
	f := s.connect()
	sha := list(t, f, forge.Listing{}).Open[0].Head.SHA
	is := forge.Status{Context: "poolwright/conformance (one)", State: forge.Pending, Description: "planning", URL: "https://example.org/1"}
	set := func(state forge.State, description string) {
		is.State, is.Description = state, description
		for _, by := range []forge.Forge{f, f, s.connect()} {
			if err := by.Status(t.Context(), sha, is); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(forge.Pending, "planning")
	set(forge.Success, strings.Repeat("4 nodes replaced ", 20))
	set(forge.Errored, "not planned")
	if err := f.Status(t.Context(), "main/../..", is); err == nil {
		t.Error("a path went for a commit")
	}
	if got := s.Statuses(sha, is.Context); got < 2 || got > 3 {
		t.Errorf("%d were written for three changes", got)
	}
}

// check sets checks by several processes, and compares the newest with what was set last.
func check(t *testing.T, s Server) {
	f := s.connect()
	sha := list(t, f, forge.Listing{}).Open[0].Head.SHA
	c := forge.Check{Status: forge.Status{Context: "poolwright/conformance (check)", URL: "https://example.org/1"}}
	for i := range forge.MaxAnnotations + 20 {
		c.Annotations = append(c.Annotations, forge.LineAnnotation{
			Path: "clusters/dev/pools.yaml", Line: i + 1, Level: forge.LevelFailure, Title: "NodePool/gpu", Message: strings.Repeat("ü", 3_000),
		})
	}
	all := c.Annotations
	for _, step := range []struct {
		name    string
		state   forge.State
		summary string
		lines   int
		want    PostedCheck
		most    int
	}{
		{"it is being planned", forge.Pending, "", 0, PostedCheck{Title: "headline", Summary: "headline"}, 1},
		{"more annotations than one request takes, and than one check has", forge.ActionRequired, strings.Repeat("😀", 100_000), len(all), PostedCheck{Conclusion: "action_required", Title: "headline"}, 1},
		{"the same conclusion and one annotation more", forge.ActionRequired, "### held", 60, PostedCheck{Conclusion: "action_required", Title: "headline", Summary: "### held"}, 2},
		{"another conclusion", forge.Neutral, "### warned", 1, PostedCheck{Conclusion: "neutral", Title: "headline", Summary: "### warned"}, 3},
		{"it could not be made", forge.Errored, "### broken", 0, PostedCheck{Conclusion: "failure", Title: "headline", Summary: "### broken"}, 4},
		{"planned anew", forge.Pending, "### again", 0, PostedCheck{Title: "headline", Summary: "### again"}, 5},
		{"and done", forge.Success, "### done", 0, PostedCheck{Conclusion: "success", Title: "headline", Summary: "### done"}, 5},
	} {
		c.State, c.Description, c.Summary, c.Annotations = step.state, "headline", step.summary, all[:step.lines]
		for _, by := range []forge.Forge{f, f, s.connect()} {
			w, ok := by.(forge.CheckWriter)
			if !ok {
				t.Skip("the forge has no checks")
			}
			if err := w.Check(t.Context(), sha, c); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		if s.Checks == nil {
			continue
		}
		posted := s.Checks(sha, c.Context)
		if len(posted) == 0 || len(posted) > step.most {
			t.Fatalf("%s: %d checks", step.name, len(posted))
		}
		if got := posted[0]; !step.want.matches(got) {
			t.Errorf("%s: got %q %q %.100q", step.name, got.Conclusion, got.Title, got.Summary)
		}
		checkAnnotations(t, posted[0].Annotations, all[:min(step.lines, forge.MaxAnnotations)])
	}
	if s.Checks == nil {
		if got := s.Statuses(sha, c.Context); got < 5 || got > 7 {
			t.Errorf("%d statuses were written in place of checks", got)
		}
	}
}

// matches reports whether what was posted has the conclusion, the title and the summary; an empty one matches any summary that is not empty.
func (want PostedCheck) matches(got PostedCheck) bool {
	summary := got.Summary == want.Summary || want.Summary == "" && got.Summary != ""
	return got.Conclusion == want.Conclusion && got.Title == want.Title && summary
}

// checkAnnotations compares annotations with those that were set, but for their messages, which are cut.
func checkAnnotations(t *testing.T, got, want []forge.LineAnnotation) {
	t.Helper()
	got = slices.Clone(got)
	for i := range got {
		if got[i].Message != "" && i < len(want) {
			got[i].Message = want[i].Message
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d annotations are not the %d that were set", len(got), len(want))
	}
}

func follow(t *testing.T, s Server) {
	f := s.connect()
	find := func(list []forge.PullRequest, number int) forge.PullRequest {
		i := slices.IndexFunc(list, func(p forge.PullRequest) bool { return p.Number == number })
		if i < 0 {
			return forge.PullRequest{}
		}
		return list[i]
	}
	listing := list(t, f, forge.Listing{})
	sha := s.Push(s.First)
	listing = await(t, f, listing, "the push", func(l forge.Listing) bool { return find(l.Open, s.First).Head.SHA == sha })
	s.Merge(s.Second)
	listing = await(t, f, listing, "the merge", func(l forge.Listing) bool {
		return find(l.Merged, s.Second).Number == s.Second && find(l.Open, s.Second).Number == 0
	})
	if got := find(listing.Merged, s.Second); len(got.MergeCommit) != 40 || got.Merged.IsZero() {
		t.Errorf("merged: %+v", got)
	}
	s.Close(s.First)
	listing = await(t, f, listing, "the close", func(l forge.Listing) bool { return find(l.Open, s.First).Number == 0 })
	if find(listing.Merged, s.First).Number != 0 {
		t.Errorf("closed is not merged: %+v", listing.Merged)
	}
}
