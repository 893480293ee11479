// Package gitsource is where declarations come from: a Source gives a
// Snapshot, one revision of a tree of files, and does not interpret the files.
//
// The package holds the contract and its errors only; gogit follows a Git
// repository, dir reads a folder on disk. It refuses to assume: a source that is
// unreachable, empty, truncated or unsafe is an error and never a smaller tree, because
// a reader may take the absence of a file for its removal. Start reading at Source.
package gitsource

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Snapshot is one revision of a tree. It stays readable while newer revisions
// are fetched. The zero Snapshot has no FS.
type Snapshot struct {
	// FS holds the files, slash-separated from the root of the repository.
	// Symbolic links are followed inside the tree only; it implements
	// fs.ReadFileFS, fs.ReadDirFS, fs.StatFS and fs.ReadLinkFS, and is safe
	// for concurrent use.
	FS fs.FS
	// Revision names the revision as messages and status fields show it: "main@sha1:<40
	// hex>" for a branch or tag, "sha1:<40 hex>" for a commit, "dir@sha256:<64 hex>" for a
	// folder, and as Flux writes it for an artifact: "latest@sha256:<64 hex>".
	Revision string
	// Commit is the 40-digit commit id; empty where there is none.
	Commit string
	// OriginRevision is the revision in Git from which an artifact that is not from Git was made, as who made it recorded
	// that: "main@sha1:<40 hex>" by Flux's CLI. Empty where there is none.
	OriginRevision string
	// TreeID changes exactly when a file's name, mode or content does. Two
	// Snapshots with equal TreeID hold equal files, so that whatever was
	// computed from one holds for the other.
	TreeID string
}

// Source is one place that declarations come from.
type Source interface {
	// Fetch returns the newest revision. It respects ctx's deadline. Its errors are
	// classified by errors.Is with the values below; an error never means that files were
	// deleted.
	Fetch(ctx context.Context) (Snapshot, error)
}

// Identifier is the ability of a Snapshot's FS to identify contents without reading them.
type Identifier interface {
	// ContentID is an id of the content that reading the file would give, links followed: equal
	// ids are of equal contents. Its errors are those of reading it.
	ContentID(name string) (string, error)
}

// ModeReader is the ability of a Snapshot's FS to return modes without reading how large contents are,
// which a Git repository has in its packs alone.
type ModeReader interface {
	// ModeOf is the mode that Stat returns, or Lstat where the last link is not followed. Its errors are theirs.
	ModeOf(name string, follow bool) (fs.FileMode, error)
}

// What can be wrong with a source. Fetch wraps exactly one of them, or none
// when the fault is elsewhere on this machine (credentials that cannot be read).
var (
	// ErrInvalid: the configuration cannot work (a URL or a reference name
	// that is refused). Only changing it helps.
	ErrInvalid = errors.New("source configuration refused")
	// ErrUnauthorized: the server requires credentials, or refuses those it got.
	ErrUnauthorized = errors.New("not authorized")
	// ErrHostKey: the SSH server's host key is not one that known_hosts lists for it.
	// Nothing was requested of the server.
	ErrHostKey = errors.New("host key verification failed")
	// ErrNotFound: the repository, branch, tag or commit does not exist, or
	// the credentials do not show it.
	ErrNotFound = errors.New("not found")
	// ErrEmpty: the repository exists and holds no commit.
	ErrEmpty = errors.New("repository is empty")
	// ErrUnreachable: the server cannot be reached, is too slow, or broke off.
	// Trying again may help.
	ErrUnreachable = errors.New("source unreachable")
	// ErrCorrupt: what arrived, or what the cache holds, is not valid Git
	// data. The cache is discarded; trying again clones anew.
	ErrCorrupt = errors.New("corrupt data")
	// ErrLimit: the repository exceeds a limit that protects this process.
	ErrLimit = errors.New("limit exceeded")
	// ErrStorage: this machine cannot keep what the source sent: its budget of
	// bytes is used up, or its disk is full, read-only or failing. What was
	// kept before stays. Trying again may help.
	ErrStorage = errors.New("cannot be stored on disk")
	// ErrNotFastForward: the branch moved to a commit that does not have the one
	// before among its ancestors, and nobody has accepted that. It is wrapped by
	// a NotFastForwardError.
	ErrNotFastForward = errors.New("not a fast-forward")
	// ErrCommitSignature: a commit is not signed as is required: not at all, wrongly, or by a key
	// that is not trusted. It is not followed.
	ErrCommitSignature = errors.New("commit signature not accepted")
	// ErrTagSignature: the tag is not signed as is required, or is another one than its name.
	ErrTagSignature = errors.New("tag signature not accepted")
	// ErrVerification: signatures are required and cannot be verified, since there are no public
	// keys. Nothing was requested of the server.
	ErrVerification = errors.New("signatures cannot be verified")
	// ErrRedirected: the server points to another host, where credentials must
	// not follow.
	ErrRedirected = errors.New("redirected to another host")
	// ErrArtifact: what is read by a reference to another object, such as a source of Flux, has
	// nothing to read: the object does not exist, or has not fetched anything yet.
	ErrArtifact = errors.New("artifact not available")
	// ErrUnsafe: the tree holds something that no honest repository does, such
	// as a file named "..", or a symbolic link leads out of it.
	ErrUnsafe = errors.New("unsafe tree")
)

// NotFastForwardError is a move of a branch that is held until it is confirmed.
type NotFastForwardError struct {
	// Branch is the branch's name.
	Branch string
	// From is the commit that was followed before, To the one that the branch
	// names now, each of 40 digits.
	From, To string
	// Unknown is the reason why it could not be determined whether To descends from From;
	// nil where it certainly does not.
	Unknown error
}

// Error implements error.
func (e *NotFastForwardError) Error() string {
	if e.Unknown != nil {
		return fmt.Sprintf("branch %q moved from commit %s to %s, and whether that descends from it is unknown: %v", e.Branch, e.From, e.To, e.Unknown)
	}
	return fmt.Sprintf("branch %q moved from commit %s to %s, which does not descend from it", e.Branch, e.From, e.To)
}

// Unwrap makes it an ErrNotFastForward.
func (e *NotFastForwardError) Unwrap() error { return ErrNotFastForward }
