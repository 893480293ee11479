package gitea

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"code.gitea.io/sdk/gitea"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/rest"
)

// self reads once who we are.
func (f *Forge) self(ctx context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.me != 0 {
		return f.me, nil
	}
	client, err := f.client(ctx)
	if err != nil {
		return 0, err
	}
	const doing = "reading the token's user"
	user, response, err := client.GetMyUserInfo()
	if err != nil {
		return 0, f.failed(doing, identity, response, err)
	}
	if user == nil || user.ID <= 0 {
		return 0, f.failed(doing, identity, nil, errors.New("the response names no user"))
	}
	f.me = user.ID
	return f.me, nil
}

// Comment implements forge.Forge.
func (f *Forge) Comment(ctx context.Context, number int, comment forge.Comment) (forge.PostedComment, error) {
	if number <= 0 || comment.Marker == "" {
		return forge.PostedComment{}, fmt.Errorf("commenting on pull request %d of %s/%s: it takes a positive number and a marker", number, f.owner, f.name)
	}
	me, err := f.self(ctx)
	if err != nil {
		return forge.PostedComment{}, err
	}
	return comments.Post(ctx, thread{f, me, int64(number)}, &f.comments, number, comment, f.Limit())
}

// thread is the comments of one pull request.
type thread struct {
	forge      *Forge
	me, number int64
}

func (t thread) doing(what string) string {
	return fmt.Sprintf("%s pull request %d of %s/%s", what, t.number, t.forge.owner, t.forge.name)
}

// All implements comments.Thread.
func (t thread) All(ctx context.Context) ([]comments.Item, error) {
	client, err := t.forge.client(ctx)
	if err != nil {
		return nil, err
	}
	doing := t.doing("reading the comments of")
	var out []comments.Item
	for page, pages := 1, 0; page != 0; pages++ {
		if pages == endless {
			return nil, t.forge.failed(doing, commenting, nil, fmt.Errorf("more than %d pages", endless))
		}
		list, response, err := client.ListIssueComments(t.forge.owner, t.forge.name, t.number,
			gitea.ListIssueCommentOptions{ListOptions: gitea.ListOptions{Page: page, PageSize: pageSize}})
		if err != nil {
			return nil, t.forge.failed(doing, commenting, response, err)
		}
		for _, c := range list {
			if c != nil {
				out = append(out, t.item(c))
			}
		}
		page = response.NextPage
	}
	return out, nil
}

func (t thread) item(c *gitea.Comment) comments.Item {
	return comments.Item{ID: c.ID, Mine: c.Poster != nil && c.Poster.ID == t.me, Body: c.Body, URL: c.HTMLURL}
}

// Create implements comments.Thread.
func (t thread) Create(ctx context.Context, body string) (comments.Item, error) {
	client, err := t.forge.client(ctx)
	if err != nil {
		return comments.Item{}, err
	}
	c, response, err := client.CreateIssueComment(t.forge.owner, t.forge.name, t.number, gitea.CreateIssueCommentOption{Body: body})
	return t.written(t.doing("commenting on"), c, response, err)
}

// Edit implements comments.Thread.
func (t thread) Edit(ctx context.Context, id int64, body string) (comments.Item, error) {
	client, err := t.forge.client(ctx)
	if err != nil {
		return comments.Item{}, err
	}
	c, response, err := client.EditIssueComment(t.forge.owner, t.forge.name, id, gitea.EditIssueCommentOption{Body: body})
	return t.written(t.doing("editing the comment on"), c, response, err)
}

// written is what a write returns of the comment. It is ours, whatever its text.
func (t thread) written(doing string, c *gitea.Comment, response *gitea.Response, err error) (comments.Item, error) {
	if err == nil && (c == nil || c.ID <= 0) {
		response, err = nil, errors.New("the response holds no comment")
	}
	if err != nil {
		return comments.Item{}, t.forge.failed(doing, commenting, response, err)
	}
	out := t.item(c)
	out.Mine = true
	return out, nil
}

// Delete implements comments.Thread.
func (t thread) Delete(ctx context.Context, id int64) error {
	client, err := t.forge.client(ctx)
	if err != nil {
		return err
	}
	response, err := client.DeleteIssueComment(t.forge.owner, t.forge.name, id)
	if err != nil {
		return t.forge.failed(t.doing("deleting our second comment on"), commenting, response, err)
	}
	return nil
}

// permission is what a call needs: a scope of the token, and a permission of its user, empty
// where every user has it.
type permission struct{ scope, user string }

var (
	reading    = permission{"read:repository", "to read the repository"}
	commenting = permission{"write:issue", "to read the repository"}
	setting    = permission{"write:repository", "to write to the repository's code"}
	identity   = permission{scope: "read:user"}
)

// remedy is what is missing where the forge forbids a call.
func (n permission) remedy() string {
	out := fmt.Sprintf("the token needs the scope %q", n.scope)
	if n.user != "" {
		out += " and its user the permission " + n.user
	}
	return out
}

// failed makes the error of a call. response may be nil.
func (f *Forge) failed(doing string, what permission, response *gitea.Response, err error) *forge.Error {
	var result rest.Response
	if response != nil && response.Response != nil {
		result.Code = response.StatusCode
		result.Message = err.Error()
	}
	out := rest.Explain(doing, err, result, f.config.Token)
	if !out.Until.IsZero() || out.Remedy != "" {
		return out
	}
	switch out.Code {
	case http.StatusUnauthorized:
		out.Remedy = "the token is wrong, expired or revoked: make a new one and put it into the Secret"
	case http.StatusForbidden:
		out.Remedy = what.remedy()
	case http.StatusNotFound:
		out.Remedy = fmt.Sprintf("it does not exist, or the token's user may not read it: make the user a collaborator of %s/%s", f.owner, f.name)
	}
	return out
}
