// Package forge is how Poolwright uses the server where pull requests are made: it
// reads which are open and merged, keeps one comment on each and sets commit statuses.
//
// It refuses everything else. Nothing is read from comments but whether one is
// our own, so no comment commands anything; nobody else's comment is changed
// or deleted; no branch, file or setting of a repository is touched. Text of a
// pull request is handed on as it is: whoever writes it into a comment escapes
// it, in code spans or with PlainText.
//
// Start reading at Forge. The packages github, gitlab and gitea implement it, webhook
// verifies and reads what forges send, and internal holds what they share: how
// listings are followed, how one comment stays one, and how limits are kept.
package forge

import (
	"context"
	"strconv"
	"time"
)

// Forge is one repository at a forge, read with one credential. Its methods may be
// called concurrently. Every error of a call that reached the forge, or failed to, is
// or wraps an *Error.
type Forge interface {
	// PullRequests reads the open and the recently merged pull requests. Given
	// the listing of the call before, it requests only what changed since then: where
	// nothing did, that is one request (at GitLab one more, for pipelines), conditional where the forge supports such,
	// whatever the number of pull requests. The zero Listing reads all. Every page is
	// read; a listing that changes while it is read is read again.
	PullRequests(ctx context.Context, since Listing) (Listing, error)
	// Comment makes sure that exactly one comment of our own user begins with
	// the marker and has this body and tail: it makes the comment, edits it when
	// its content differs, and writes nothing when it is equal. Where a race has
	// left several, the oldest stays and our own others are deleted. A comment
	// that a person deleted is made again.
	Comment(ctx context.Context, number int, comment Comment) (PostedComment, error)
	// Status sets a status of a commit, unless the newest status of this
	// context is equal already. Description and context are shortened to what
	// the forge takes.
	Status(ctx context.Context, sha string, status Status) error
	// Limit is how many bytes a comment's body and tail may have together, the
	// marker not counted. Comment cuts longer bodies at the end of a line, closes what is
	// open and notes the cut; a report made for the limit reads better. A tail is cut only
	// where it alone has more than half of the limit.
	Limit() int
}

// Listing is a repository's pull requests at one moment.
type Listing struct {
	// Open are the open pull requests in the order of their numbers.
	Open []PullRequest
	// Merged are those merged in the last 30 days, newest first, at most 50 of a base
	// branch and 1000 of all.
	Merged []PullRequest
	// Unchanged is true where Open and Merged are those of the listing before.
	Unchanged bool
	// Cursor is the adapter's own note on where to go on.
	Cursor Cursor
}

// Cursor is where the next listing goes on. Its fields mean something only to
// the forge that wrote them; the zero Cursor begins anew.
type Cursor struct {
	ETag    string    // validator of the page of the newest changes
	Updated time.Time // the newest change that was observed
	Full    time.Time // when all pull requests were last read
}

// PullRequest is what a forge reports of one. Strings are as their authors wrote them,
// which may be hostile.
type PullRequest struct {
	Number int
	// Title is the author's, Author the login name.
	Title, Author string
	// URL is the page for people.
	URL string
	// Head is what is to be merged into Base. A Head without SHA cannot be
	// fetched: its branch or repository is gone. Base.SHA may be an older commit
	// of the branch.
	Head, Base Branch
	// HeadRef is the reference in the base repository that holds the head, also a fork's, where
	// that is not refs/pull/<number>/head.
	HeadRef string
	// Fork is true where the head lies in another repository, or where the forge no longer
	// has it.
	Fork, Draft bool
	// Updated is the forge's time of the last change.
	Updated time.Time
	// Merged is when it was merged, zero before; MergeCommit what came of it on
	// the base branch, empty before.
	Merged      time.Time
	MergeCommit string
}

// Branch is a name without refs/heads/ and the commit it stood at, 40 or 64
// hexadecimal digits in lower case or empty.
type Branch struct{ Name, SHA string }

// Ref is the reference in the base repository that holds the head, also a
// fork's. All supported forges keep it.
func (p PullRequest) Ref() string {
	if p.HeadRef != "" {
		return p.HeadRef
	}
	return "refs/pull/" + strconv.Itoa(p.Number) + "/head"
}

// Comment is what the one comment of a marker is to contain.
type Comment struct {
	// Marker is made with NewMarker and written before Body.
	Marker Marker
	// Body is Markdown. All of it that is not our own is to be escaped before.
	Body string
	// Footer is Markdown that stands below a marker of its own, which is not rendered, at
	// the end of the same comment. With an empty Body, the text above that marker is kept
	// as it is and only the tail is replaced, or taken away by an empty one; with both,
	// both are written; with only a Body, no tail is left. Where there is no comment, an
	// empty Body and Tail make none. All that is not our own is to be escaped before.
	Footer string
	// EditOnly writes nothing where there is no comment yet.
	EditOnly bool
}

// PostedComment is a comment at the forge.
type PostedComment struct {
	// URL leads to the comment; empty where EditOnly found none.
	URL string
	// Written is true where the comment was made or changed.
	Written bool
}

// State is a commit status's.
type State string

// The states that every forge supports. Errored is for a plan that could not be made;
// Failure is for one that was made and is refused.
const (
	Pending State = "pending"
	Success State = "success"
	Failure State = "failure"
	Errored State = "error"
)

// The states of forges that have checks. Elsewhere a status has the Basic one in their place.
const (
	// Neutral is for what a person should read and that forbids nothing.
	Neutral State = "neutral"
	// ActionRequired is for what is held until a confirmation.
	ActionRequired State = "action_required"
)

// Basic is the state as every forge supports it: Neutral is Success, ActionRequired is Failure.
func (s State) Basic() State {
	switch s {
	case Neutral:
		return Success
	case ActionRequired:
		return Failure
	case Pending, Success, Failure, Errored:
	}
	return s
}

// Status is a line next to a commit.
type Status struct {
	// Context distinguishes the statuses of one commit; a later one replaces an earlier
	// one of the same context. More than 255 bytes are cut to a name that stays unique.
	Context string
	State   State
	// Description is plain text. What is longer than 140 characters is cut.
	Description string
	// URL is where it leads, if not empty.
	URL string
}
