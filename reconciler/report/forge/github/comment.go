package github

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v88/github"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
)

// author is how our own comments are known: a user by number, an App by the
// name of its bot, which no person can take because of the brackets.
type author struct {
	id  int64
	bot string
}

func (a author) wrote(u *github.User) bool {
	if a.bot != "" {
		return u.GetType() == "Bot" && u.GetLogin() == a.bot
	}
	return u.GetID() == a.id
}

// self reads once who we are.
func (f *Forge) self(ctx context.Context) (author, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.me != nil {
		return *f.me, nil
	}
	const doing = "reading the identity of the credential"
	var me author
	if f.app != nil {
		app, response, err := f.app.Apps.Get(ctx, "")
		if err != nil {
			return author{}, f.failed(doing, identity, response, err)
		}
		if app.GetSlug() == "" {
			return author{}, f.failed(doing, identity, nil, errors.New("the response names no App"))
		}
		me.bot = app.GetSlug() + "[bot]"
	} else {
		user, response, err := f.client.Users.Get(ctx, "")
		if err != nil {
			return author{}, f.failed(doing, identity, response, err)
		}
		if me.id = user.GetID(); me.id == 0 {
			return author{}, f.failed(doing, identity, nil, errors.New("the response names no user"))
		}
	}
	f.me = &me
	return me, nil
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
	return comments.Post(ctx, thread{f, me, number}, &f.comments, number, comment, f.Limit())
}

// thread is the comments of one pull request.
type thread struct {
	forge  *Forge
	me     author
	number int
}

// commentPages is a bound against pages that never end.
const commentPages = 100

func (t thread) doing(what string) string {
	return fmt.Sprintf("%s pull request %d of %s/%s", what, t.number, t.forge.owner, t.forge.name)
}

// All implements comments.Thread.
func (t thread) All(ctx context.Context) ([]comments.Item, error) {
	doing := t.doing("reading the comments of")
	var out []comments.Item
	options := &github.IssueListCommentsOptions{ListOptions: github.ListOptions{Page: 1, PerPage: 100}}
	for range commentPages {
		list, response, err := t.forge.client.Issues.ListComments(ctx, t.forge.owner, t.forge.name, t.number, options)
		if err != nil {
			return nil, t.forge.failed(doing, commenting, response, err)
		}
		for _, c := range list {
			out = append(out, t.item(c))
		}
		if options.Page = response.NextPage; options.Page == 0 {
			return out, nil
		}
	}
	return nil, t.forge.failed(doing, commenting, nil, fmt.Errorf("more than %d pages", commentPages))
}

func (t thread) item(c *github.IssueComment) comments.Item {
	return comments.Item{ID: c.GetID(), Mine: t.me.wrote(c.GetUser()), Body: c.GetBody(), URL: c.GetHTMLURL()}
}

// Create implements comments.Thread.
func (t thread) Create(ctx context.Context, body string) (comments.Item, error) {
	doing := t.doing("commenting on")
	if err := t.forge.mayWrite(ctx, doing); err != nil {
		return comments.Item{}, err
	}
	c, response, err := t.forge.client.Issues.CreateComment(ctx, t.forge.owner, t.forge.name, t.number, &github.IssueComment{Body: &body})
	return t.written(doing, c, response, err)
}

// Edit implements comments.Thread.
func (t thread) Edit(ctx context.Context, id int64, body string) (comments.Item, error) {
	doing := t.doing("editing the comment on")
	if err := t.forge.mayWrite(ctx, doing); err != nil {
		return comments.Item{}, err
	}
	c, response, err := t.forge.client.Issues.EditComment(ctx, t.forge.owner, t.forge.name, id, &github.IssueComment{Body: &body})
	return t.written(doing, c, response, err)
}

// written is what a write returns of the comment. It is ours, whatever its text.
func (t thread) written(doing string, c *github.IssueComment, response *github.Response, err error) (comments.Item, error) {
	if err == nil && c.GetID() == 0 {
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
	doing := t.doing("deleting our second comment on")
	if err := t.forge.mayWrite(ctx, doing); err != nil {
		return err
	}
	response, err := t.forge.client.Issues.DeleteComment(ctx, t.forge.owner, t.forge.name, id)
	if err != nil {
		return t.forge.failed(doing, commenting, response, err)
	}
	return nil
}

// mayWrite waits for this write's turn. It fails at once when ctx would end
// before.
func (f *Forge) mayWrite(ctx context.Context, doing string) error {
	if err := f.writeLimiter.Wait(ctx); err != nil {
		return f.failed(doing, commenting, nil, fmt.Errorf("waiting for other writes: %w", err))
	}
	return nil
}
