package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/report/forge/internal/comments"
)

// self reads once who we are.
func (f *Forge) self(ctx context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.me != 0 {
		return f.me, nil
	}
	const doing = "reading the token's user"
	var me user
	_, err := f.call(ctx, http.MethodGet, "/user", nil, nil, &me)
	if err == nil && me.ID <= 0 {
		err = errors.New("the response names no user")
	}
	if err != nil {
		return 0, f.failed(doing, identity, err)
	}
	f.me = me.ID
	return f.me, nil
}

// Comment implements forge.Forge with a note of the merge request.
func (f *Forge) Comment(ctx context.Context, number int, comment forge.Comment) (forge.PostedComment, error) {
	if number <= 0 || comment.Marker == "" {
		return forge.PostedComment{}, fmt.Errorf("commenting on merge request %d of %s: it takes a positive number and a marker", number, f.config.Project)
	}
	me, err := f.self(ctx)
	if err != nil {
		return forge.PostedComment{}, err
	}
	comment.Body, comment.Footer = inert(comment.Body), inert(comment.Footer)
	return comments.Post(ctx, thread{f, me, int64(number), comment.Marker}, &f.comments, number, comment, f.Limit())
}

// quickAction is the beginning of a line that GitLab may take for a command, such as /merge.
var quickAction = regexp.MustCompile(`(?m)^/`)

// reference is a character, as forge.PlainText writes it, that starts a reference only at GitLab: to a label, a
// milestone, a snippet, an epic, or to an issue of another tracker, as in ABC-1.
var reference = regexp.MustCompile(`(&#(?:126|037|036);|&amp;)\x{200b}?|(&#045;)(\d)`)

// inert keeps GitLab from finding a quick action: it would carry it out with the permissions of our
// token. It keeps it from finding references as well, so that no title becomes a link. What GitLab leaves out of
// the search, such as code, is changed as well, since its rules for it
// are not those of Markdown. The character in front has no width. GitLab removes carriage returns before it searches.
func inert(text string) string {
	text = quickAction.ReplaceAllString(strings.ReplaceAll(text, "\r", ""), breaker+"/")
	return reference.ReplaceAllString(text, "${1}${2}"+breaker+"${3}")
}

// breaker has no width.
const breaker = "\u200b"

// thread is the notes of one merge request.
type thread struct {
	forge      *Forge
	me, number int64
	marker     forge.Marker
}

func (t thread) doing(what string) string {
	return fmt.Sprintf("%s merge request %d of %s", what, t.number, t.forge.config.Project)
}

// path is that of the notes, or of one.
func (t thread) path(id ...string) string {
	return t.forge.project(append([]string{"merge_requests", strconv.FormatInt(t.number, 10), "notes"}, id...)...)
}

// All implements comments.Thread. It keeps nothing of other notes: whoever may comment could fill the
// controller's memory with them.
func (t thread) All(ctx context.Context) (out []comments.Item, err error) {
	size := 0
	query := url.Values{"order_by": {"created_at"}, "sort": {"asc"}}
	err = eachItem(ctx, t.forge, t.path(), query, func(n note) error {
		item := t.item(n)
		if n.ID <= 0 || n.System || !item.Mine || !t.marker.IsPrefixOf(n.Body) {
			return nil
		}
		if size += len(n.Body); size > keptBytes {
			return fmt.Errorf("our own notes have more than %d bytes", keptBytes)
		}
		out = append(out, item)
		return nil
	})
	if err != nil {
		return nil, t.forge.failed(t.doing("reading the notes of"), commenting, err)
	}
	return out, nil
}

func (t thread) item(n note) comments.Item {
	c := t.forge.config
	return comments.Item{
		ID: n.ID, Mine: n.Author.ID == t.me, Body: n.Body,
		URL: fmt.Sprintf("%s/%s/-/merge_requests/%d#note_%d", c.Address, c.Project, t.number, n.ID),
	}
}

// Create implements comments.Thread.
func (t thread) Create(ctx context.Context, body string) (comments.Item, error) {
	return t.write(ctx, t.doing("commenting on"), http.MethodPost, t.path(), body)
}

// Edit implements comments.Thread.
func (t thread) Edit(ctx context.Context, id int64, body string) (comments.Item, error) {
	return t.write(ctx, t.doing("editing the note on"), http.MethodPut, t.path(strconv.FormatInt(id, 10)), body)
}

// write writes a note. It is ours, whatever its text. What a person wrote into it gets no life by that, either.
func (t thread) write(ctx context.Context, doing, method, path, body string) (comments.Item, error) {
	if err := t.forge.mayWrite(ctx, doing); err != nil {
		return comments.Item{}, err
	}
	var n note
	_, err := t.forge.call(ctx, method, path, nil, map[string]string{"body": inert(body)}, &n)
	if err == nil && n.ID <= 0 {
		err = errors.New("the response holds no note")
	}
	if err != nil {
		return comments.Item{}, t.forge.failed(doing, commenting, err)
	}
	out := t.item(n)
	out.Mine = true
	return out, nil
}

// Delete implements comments.Thread.
func (t thread) Delete(ctx context.Context, id int64) error {
	doing := t.doing("deleting our second note on")
	if err := t.forge.mayWrite(ctx, doing); err != nil {
		return err
	}
	if _, err := t.forge.call(ctx, http.MethodDelete, t.path(strconv.FormatInt(id, 10)), nil, nil, nil); err != nil {
		return t.forge.failed(doing, commenting, err)
	}
	return nil
}

// mayWrite waits for this write's turn. It fails at once when ctx would end before.
func (f *Forge) mayWrite(ctx context.Context, doing string) error {
	if err := f.writeLimiter.Wait(ctx); err != nil {
		return f.failed(doing, commenting, fmt.Errorf("waiting for other writes: %w", err))
	}
	return nil
}
