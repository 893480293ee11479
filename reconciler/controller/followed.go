package controller

import (
	"errors"
	"slices"
	"strings"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
)

// Followed is the commit that the Sync's branch was followed to last, 40 digits; empty
// where the spec names another repository or reference since: whoever may change it
// decides what is followed.
func Followed(sync *v1alpha1.Sync) string {
	git := sync.Spec.Source.Git
	commit, ok := strings.CutPrefix(sync.Status.LastAttemptedRevision, followedBranch(git.Ref)+"@sha1:")
	if !ok || sync.Status.LastAttemptedURL != "" && sync.Status.LastAttemptedURL != git.URL {
		return ""
	}
	return commit
}

func followedBranch(ref v1alpha1.GitRef) string {
	if ref == (v1alpha1.GitRef{}) {
		return "main"
	}
	return ref.Branch
}

// AcceptsMove reports whether the Sync's branch may move from one commit to another
// that does not descend from it: because spec.source.git.fastForwardOnly is false, or
// because its annotation poolwright.dev/confirm quotes the word for this move.
func AcceptsMove(sync *v1alpha1.Sync, from, to string) bool {
	only := sync.Spec.Source.Git.FastForwardOnly
	return only != nil && !*only || confirms(sync, wordForMove(from, to))
}

// wordForMove is what a confirmation of a branch's move quotes. It stands for both
// ends: one that was confirmed once does not confirm a way back to it later.
func wordForMove(from, to string) string { return state.Hash([]string{from, to})[:12] }

// confirms reports whether the Sync's annotation, words separated by commas, has the word.
func confirms(sync *v1alpha1.Sync, word string) bool {
	words := strings.Split(sync.Annotations[v1alpha1.ConfirmAnnotation], ",")
	return slices.ContainsFunc(words, func(w string) bool { return strings.TrimSpace(w) == word })
}

// remedy is what ends the wait for a person, where the source waits for one.
func remedy(err error) string {
	moved, ok := errors.AsType[*gitsource.NotFastForwardError](err)
	if !ok {
		return ""
	}
	return "; put the branch back to a commit that descends from it, or accept the new history; confirm with " +
		v1alpha1.ConfirmAnnotation + ": " + wordForMove(moved.From, moved.To)
}
