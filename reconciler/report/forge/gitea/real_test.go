package gitea_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/poolwright/poolwright/provision/sandbox"
	"github.com/poolwright/poolwright/provision/sandbox/gitserver"
	"github.com/poolwright/poolwright/provision/sandbox/sandboxtest"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/gitea"
)

// project is a repository of ada's on a real Gitea, with main and the open
// pull request 1 of the branch "change", and our own user, who may write.
type project struct {
	server     *gitserver.Server
	ada, bot   gitserver.Account
	repository gitserver.Repository
	local      *git.Repository
	folder     string
}

const repositoryPath = "/repos/ada/nodes"

func start(t *testing.T) *project {
	t.Helper()
	if testing.Short() {
		t.Skip("left out by -short: a real Gitea takes seconds to start")
	}
	target := sandboxtest.Start(t, sandbox.DefaultConfig())
	p := &project{server: target.Git, folder: t.TempDir()}
	p.ada, p.bot = p.user(t, "ada"), p.user(t, "poolwright")
	var err error
	if p.repository, err = p.server.CreateRepository(t.Context(), p.ada, "nodes", true); err != nil {
		t.Fatal(err)
	}
	p.call(t, p.ada, http.MethodPut, "/collaborators/poolwright", map[string]any{"permission": "write"}, nil)
	if p.bot.Token, err = p.server.CreateToken(t.Context(), p.bot, "ours", "write:issue", "write:repository", "read:user"); err != nil {
		t.Fatal(err)
	}
	p.begin(t)
	p.open(t, p.ada, "change", "Shorten consolidation")
	return p
}

func (p *project) user(t *testing.T, name string) gitserver.Account {
	t.Helper()
	user, err := p.server.CreateUser(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// call asks Gitea as a user would with curl.
func (p *project) call(t *testing.T, as gitserver.Account, method, path string, body, result any) {
	t.Helper()
	if err := p.server.Call(t.Context(), as, method, repositoryPath+path, body, result); err != nil {
		t.Fatal(err)
	}
}

func (p *project) begin(t *testing.T) {
	t.Helper()
	var err error
	p.local, err = git.PlainInitWithOptions(p.folder, &git.PlainInitOptions{
		InitOptions: git.InitOptions{DefaultBranch: plumbing.NewBranchReferenceName("main")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.local.CreateRemote(&config.RemoteConfig{Name: "origin", URLs: []string{p.repository.URL}}); err != nil {
		t.Fatal(err)
	}
	p.commit(t, "", "kind: NodePool\n")
	p.push(t, "main")
	p.commit(t, "change", "kind: NodePool\nspec: {}\n")
	p.push(t, "change")
}

// commit makes one on a branch that begins at main, or on main.
func (p *project) commit(t *testing.T, branch, content string) string {
	t.Helper()
	tree, err := p.local.Worktree()
	if err != nil {
		t.Fatal(err)
	}
	if branch != "" {
		main, err := p.local.Reference("refs/heads/main", true)
		if err != nil {
			t.Fatal(err)
		}
		name := plumbing.NewBranchReferenceName(branch)
		if err := p.local.Storer.SetReference(plumbing.NewHashReference(name, main.Hash())); err != nil {
			t.Fatal(err)
		}
		if err := tree.Checkout(&git.CheckoutOptions{Branch: name, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.folder, "pool.yaml"), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.Add("pool.yaml"); err != nil {
		t.Fatal(err)
	}
	author := &object.Signature{Name: "Ada", Email: "ada@sandbox.invalid", When: time.Unix(1_700_000_000, 0)}
	hash, err := tree.Commit("Change the pool", &git.CommitOptions{Author: author})
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

func (p *project) push(t *testing.T, branch string) {
	t.Helper()
	err := p.local.PushContext(t.Context(), &git.PushOptions{
		Auth:     &githttp.BasicAuth{Username: "ada", Password: p.ada.Token},
		RefSpecs: []config.RefSpec{config.RefSpec(fmt.Sprintf("+refs/heads/%[1]s:refs/heads/%[1]s", branch))},
	})
	if err != nil {
		t.Fatalf("pushing %s: %v", branch, err)
	}
}

func (p *project) open(t *testing.T, author gitserver.Account, head, title string) int {
	t.Helper()
	number, err := p.server.CreatePullRequest(t.Context(), author, p.repository, gitserver.PullRequest{Head: head, Base: "main", Title: title})
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func (p *project) forge(t *testing.T, token string) *gitea.Forge {
	t.Helper()
	return p.forgeBy(t, token, nil)
}

func (p *project) forgeBy(t *testing.T, token string, transport http.RoundTripper) *gitea.Forge {
	t.Helper()
	f, err := gitea.New(gitea.Config{Address: p.server.URL(), Repository: "ada/nodes", Token: token, Transport: transport, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// await lists until the listing is as it should be: Gitea takes note of pushes
// a moment after it has taken them.
func await(t *testing.T, f forge.Forge, since forge.Listing, what string, is func(forge.Listing) bool) forge.Listing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		listing, err := f.PullRequests(ctx, since)
		if err != nil {
			t.Fatalf("waiting for %s: %v (last seen: %+v)", what, err, since.Open)
		}
		if is(listing) {
			return listing
		}
		since = listing
		<-tick.C
	}
}

func find(list []forge.PullRequest, number int) forge.PullRequest {
	if i := slices.IndexFunc(list, func(p forge.PullRequest) bool { return p.Number == number }); i >= 0 {
		return list[i]
	}
	return forge.PullRequest{}
}

type comment struct {
	ID   int64  `json:"id"`
	Body string `json:"body"`
}

func (p *project) comments(t *testing.T, number int) []comment {
	t.Helper()
	var out []comment
	p.call(t, p.ada, http.MethodGet, fmt.Sprintf("/issues/%d/comments", number), nil, &out)
	return out
}

var marker = forge.NewMarker("plan", "team/nodes", "arn:aws:eks:eu-west-1:111122223333:cluster/one")

func TestOnARealGitea(t *testing.T) {
	p := start(t)
	f := p.forge(t, p.bot.Token)
	t.Run("pull requests are followed through pushes, closing, forks and merges", func(t *testing.T) { follow(t, p, f) })
	t.Run("one comment is kept", func(t *testing.T) { oneComment(t, p, f) })
	t.Run("two replicas leave one comment", func(t *testing.T) { race(t, p) })
	t.Run("a very long comment is cut and shown", func(t *testing.T) { long(t, p, f) })
	t.Run("a tail is replaced and what was reviewed stays", func(t *testing.T) { tails(t, p, f) })
	t.Run("a status is set once", func(t *testing.T) { status(t, p, f) })
	t.Run("missing permissions are named with the remedy", func(t *testing.T) { permissions(t, p) })
	t.Run("text of a pull request stays text", func(t *testing.T) { plain(t, p) })
	t.Run("webhooks of Gitea are verified and read", func(t *testing.T) { hooks(t, p) })
	t.Run("the conformance suite", func(t *testing.T) { conformance(t, p) })
	t.Run("an outage is an error and no more", func(t *testing.T) { outage(t, p, f) })
}

func follow(t *testing.T, p *project, f *gitea.Forge) {
	listing, err := f.PullRequests(t.Context(), forge.Listing{})
	if err != nil {
		t.Fatal(err)
	}
	one := find(listing.Open, 1)
	if one.Title != "Shorten consolidation" || one.Author != "ada" || one.Head.Name != "change" || one.Base.Name != "main" ||
		len(one.Head.SHA) != 40 || len(one.Base.SHA) != 40 || one.Fork || one.Draft || listing.Unchanged || one.Ref() != "refs/pull/1/head" {
		t.Fatalf("got %+v", listing)
	}
	listing = await(t, f, listing, "rest", func(l forge.Listing) bool { return l.Unchanged })

	sha := p.commit(t, "change", "kind: NodePool\nspec: {weight: 3}\n")
	p.push(t, "change")
	listing = await(t, f, listing, "the forced push", func(l forge.Listing) bool { return find(l.Open, 1).Head.SHA == sha })

	eve := p.user(t, "eve")
	p.call(t, p.ada, http.MethodPut, "/collaborators/eve", map[string]any{"permission": "read"}, nil)
	p.call(t, eve, http.MethodPost, "/forks", map[string]any{}, nil)
	file := map[string]any{"content": base64.StdEncoding.EncodeToString([]byte("evil: true\n")), "message": "Help", "branch": "main", "new_branch": "evil"}
	if err := p.server.Call(t.Context(), eve, http.MethodPost, "/repos/eve/nodes/contents/evil.yaml", file, nil); err != nil {
		t.Fatal(err)
	}
	p.call(t, eve, http.MethodPost, "/pulls", map[string]any{"head": "eve:evil", "base": "main", "title": "<b>@ada #1</b>"}, nil)
	listing = await(t, f, listing, "the fork's", func(l forge.Listing) bool { return find(l.Open, 2).Number == 2 })
	if two := find(listing.Open, 2); !two.Fork || two.Author != "eve" || two.Title != "<b>@ada #1</b>" || len(two.Head.SHA) != 40 {
		t.Errorf("the fork's: %+v", two)
	}
	p.call(t, p.ada, http.MethodPatch, "/pulls/2", map[string]any{"state": "closed"}, nil)
	listing = await(t, f, listing, "closing", func(l forge.Listing) bool { return len(l.Open) == 1 })
	if len(listing.Merged) != 0 {
		t.Errorf("closed is not merged: %+v", listing.Merged)
	}

	p.commit(t, "merged", "kind: NodePool\nspec: {weight: 4}\n")
	p.push(t, "merged")
	three := p.open(t, p.ada, "merged", "Merge me")
	p.merge(t, three)
	listing = await(t, f, listing, "merging", func(l forge.Listing) bool { return len(l.Merged) == 1 })
	if got := listing.Merged[0]; got.Number != three || len(got.MergeCommit) != 40 || got.Merged.IsZero() || find(listing.Open, three).Number != 0 {
		t.Errorf("merged: %+v", got)
	}
	// Gitea looks at the other pull requests again after a merge, so both may move on.
	await(t, f, forge.Listing{}, "a new start to list the same", func(again forge.Listing) bool {
		listing, err := f.PullRequests(t.Context(), listing)
		return err == nil && slices.Equal(again.Merged, listing.Merged) && slices.Equal(again.Open, listing.Open)
	})
}

// merge tries until Gitea has checked for conflicts, which it does by itself a
// moment after a pull request is made.
func (p *project) merge(t *testing.T, number int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.server.Call(ctx, p.ada, http.MethodPost, fmt.Sprintf("%s/pulls/%d/merge", repositoryPath, number), map[string]any{"Do": "merge"}, nil)
		var refused *gitserver.StatusError
		switch {
		case err == nil:
			return
		case !errors.As(err, &refused) || refused.Code != http.StatusMethodNotAllowed:
			t.Fatal(err)
		}
		<-tick.C
	}
}

func post(t *testing.T, f forge.Forge, number int, c forge.Comment) forge.PostedComment {
	t.Helper()
	posted, err := f.Comment(t.Context(), number, c)
	if err != nil {
		t.Fatal(err)
	}
	return posted
}

func oneComment(t *testing.T, p *project, f *gitea.Forge) {
	// A person imitates the marker before we ever came.
	p.call(t, p.ada, http.MethodPost, "/issues/1/comments", map[string]any{"body": string(marker) + "\nnot the bot"}, nil)
	if posted := post(t, f, 1, forge.Comment{Marker: marker, Body: "x", EditOnly: true}); posted != (forge.PostedComment{}) || len(p.comments(t, 1)) != 1 {
		t.Errorf("EditOnly wrote: %+v", posted)
	}
	if posted := post(t, f, 1, forge.Comment{Marker: marker, Body: "first"}); !posted.Written || !strings.HasPrefix(posted.URL, p.server.URL()) {
		t.Errorf("first: %+v", posted)
	}
	for range 2 {
		if posted := post(t, f, 1, forge.Comment{Marker: marker, Body: "first"}); posted.Written {
			t.Error("an equal comment was written")
		}
	}
	other := forge.NewMarker("plan", "team/nodes", "two")
	if posted := post(t, f, 1, forge.Comment{Marker: other, Body: "of another cluster"}); !posted.Written {
		t.Error("another cluster's was not made")
	}
	// A new process knows nothing but finds it.
	restarted := p.forge(t, p.bot.Token)
	if posted := post(t, restarted, 1, forge.Comment{Marker: marker, Body: "second"}); !posted.Written {
		t.Error("a change was not written")
	}
	if posted := post(t, f, 1, forge.Comment{Marker: marker, Body: "second", EditOnly: true}); posted.Written || posted.URL == "" {
		t.Errorf("the comment of the other process: %+v", posted)
	}
	p.expect(t, 1, "not the bot", "second", "of another cluster")
	p.call(t, p.ada, http.MethodDelete, fmt.Sprintf("/issues/comments/%d", p.comments(t, 1)[1].ID), nil, nil)
	if posted := post(t, f, 1, forge.Comment{Marker: marker, Body: "second"}); !posted.Written {
		t.Error("it was not made again")
	}
	p.expect(t, 1, "not the bot", "of another cluster", "second")
}

func (p *project) expect(t *testing.T, number int, bodies ...string) {
	t.Helper()
	got := p.comments(t, number)
	if len(got) != len(bodies) {
		t.Fatalf("%d comments, want %q: %+v", len(got), bodies, got)
	}
	for i, c := range got {
		if first, rest, _ := strings.Cut(c.Body, "\n"); rest != bodies[i] || !strings.HasPrefix(first, "<!-- poolwright:plan ") {
			t.Errorf("comment %d is %q, want %q", i, c.Body, bodies[i])
		}
	}
}

func race(t *testing.T, p *project) {
	done := make(chan error)
	const replicas = 4
	for range replicas {
		f := p.forge(t, p.bot.Token)
		go func() {
			_, err := f.Comment(t.Context(), 2, forge.Comment{Marker: marker, Body: "race"})
			done <- err
		}()
	}
	for range replicas {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	p.expect(t, 2, "race")
}

func long(t *testing.T, p *project, f *gitea.Forge) {
	body := "<details><summary>all</summary>\n\n```diff\n" + strings.Repeat("+ line\n", 100_000) + "```\n</details>\n"
	post(t, f, 2, forge.Comment{Marker: marker, Body: body})
	if posted := post(t, f, 2, forge.Comment{Marker: marker, Body: body}); posted.Written {
		t.Error("the cut comment was written again")
	}
	got := p.comments(t, 2)
	if len(got) != 1 || len(got[0].Body) > f.Limit()+len(marker)+1 || !strings.Contains(got[0].Body, "```\n\n</details>\n\n_The rest is left out") {
		t.Errorf("%d comments, %d bytes", len(got), len(got[0].Body))
	}
}

func status(t *testing.T, p *project, f *gitea.Forge) {
	listing, err := f.PullRequests(t.Context(), forge.Listing{})
	if err != nil {
		t.Fatal(err)
	}
	sha := find(listing.Open, 1).Head.SHA
	pending := forge.Status{Context: "poolwright/plan (one)", State: forge.Pending, Description: "planning", URL: p.server.URL() + "/ada/nodes/pulls/1"}
	success := pending
	success.State, success.Description = forge.Success, strings.Repeat("4 nodes replaced ", 20)
	for _, s := range []forge.Status{pending, pending, success, success} {
		if err := f.Status(t.Context(), sha, s); err != nil {
			t.Fatal(err)
		}
		if err := p.forge(t, p.bot.Token).Status(t.Context(), sha, s); err != nil {
			t.Fatal(err)
		}
	}
	var got []struct{ Status, Context, Description string }
	p.call(t, p.ada, http.MethodGet, "/commits/"+sha+"/statuses", nil, &got)
	if len(got) != 2 {
		t.Fatalf("%d statuses were written, want 2: %+v", len(got), got)
	}
	if err := f.Status(t.Context(), strings.Repeat("0", 40), pending); err == nil {
		t.Error("a commit that is not there took a status")
	}
}

func permissions(t *testing.T, p *project) {
	token := func(name string, scopes ...string) string {
		secret, err := p.server.CreateToken(t.Context(), p.bot, name, scopes...)
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	foreign := p.user(t, "mallory")
	reader := token("reader", "read:repository", "read:issue", "read:user")
	tests := []struct {
		name, token, want string
		code              int
		call              func(forge.Forge) error
	}{
		{"a wrong token", "wrong-" + reader, "make a new one", 401, list},
		{"a user without access", foreign.Token, "collaborator of ada/nodes", 404, list},
		{"no scope to list", token("nothing", "read:user"), `"read:repository"`, 403, list},
		{"no scope to comment", reader, `"write:issue"`, 403, comments},
		{"no scope to read oneself", token("unknown", "write:issue"), `"read:user"`, 403, comments},
		{"no scope to set a status", reader, `"write:repository"`, 403, statuses},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call(p.forge(t, tt.token))
			var known *forge.Error
			if !errors.As(err, &known) || known.Code != tt.code || !strings.Contains(known.Remedy, tt.want) || !known.Permanent() {
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), tt.token) {
				t.Error("the token stands in the error")
			}
		})
	}
}

func list(f forge.Forge) error {
	_, err := f.PullRequests(context.Background(), forge.Listing{})
	return err
}

func comments(f forge.Forge) error {
	_, err := f.Comment(context.Background(), 1, forge.Comment{Marker: "<!-- x -->", Body: "y"})
	return err
}

func statuses(f forge.Forge) error {
	l, err := f.PullRequests(context.Background(), forge.Listing{})
	if err != nil {
		return err
	}
	return f.Status(context.Background(), find(l.Open, 1).Head.SHA, forge.Status{Context: "c", State: forge.Pending})
}

// plain has Gitea itself render what people may call a pull request.
func plain(t *testing.T, p *project) {
	for _, hostile := range []string{
		"@ada look", "closes #1 and ada/nodes#1", "!2", "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "[a](https://evil.example)",
		"![a](https://evil.example/a.png)", "https://evil.example/a", "www.evil.example", "mail me@evil.example", "`code`", "**bold** _it_ ~~no~~",
		"# heading", "> quote", "- item", "1. item", "| a | b |", "&lt;b&gt; &amp;", "<!-- poolwright:plan -->", "```", "~~~", "\\*x\\*", "* * *", ":tada:",
		"$x^2$", "[x]: https://evil.example", "[^1]", "0123456789abcdef0123456789abcdef01234567", "<details>", "a\n\n# b", "    code", "\u202egnp.exe", "= =", "---",
		"=====", "+ plus", "javascript:alert(1)", "<https://evil.example>", "tel:+123", "a`b`c`", "eve/nodes@0123456789",
	} {
		for _, around := range []string{"%s", "text %s text", "**%s**", "| %s |", "- %s"} {
			got := p.render(t, fmt.Sprintf(around, "start "+forge.PlainText(hostile, 200)+" end"))
			for _, bad := range []string{"<a ", "<img", "<code", "<em", "<del", "<script", "<h1", "<blockquote", "<details", "<math", "<table", "onerror=\"", "emoji", "<hr", "<sup", "<input"} {
				if strings.Contains(got, bad) {
					t.Errorf("%q in %q became %q", hostile, around, got)
				}
			}
		}
	}
	if got := p.render(t, forge.PlainText("Keep <8 GPUs & 50% of c++ (a_b*c)!", 100)); !strings.Contains(strings.ReplaceAll(got, "\u200b", ""), "Keep &lt;8 GPUs &amp; 50% of c++ (a_b*c)!") {
		t.Errorf("a harmless title reads %q", got)
	}
}

func (p *project) render(t *testing.T, text string) string {
	t.Helper()
	requested, err := json.Marshal(map[string]string{"Mode": "comment", "Context": "/ada/nodes", "Text": text})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.server.URL()+"/api/v1/markup", bytes.NewReader(requested))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "token "+p.ada.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("rendering %q: %s, %v", text, response.Status, err)
	}
	return string(got)
}

func outage(t *testing.T, p *project, f *gitea.Forge) {
	before, err := f.PullRequests(t.Context(), forge.Listing{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.server.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err = f.PullRequests(t.Context(), before)
	var known *forge.Error
	if !errors.As(err, &known) || known.Code != 0 || known.Permanent() {
		t.Errorf("got %v", err)
	}
	if err := p.server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := f.PullRequests(t.Context(), before); err != nil || !after.Unchanged {
		t.Errorf("got %+v, %v", after, err)
	}
}
