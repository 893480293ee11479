// Package verification reports of a Sync whether the revision that it follows is signed as
// spec.source.git.verify requires it.
//
// It verifies nothing: the source does, and returns no revision that is not. It refuses to conclude
// from a failure of something else, such as a server that cannot be reached, that signatures are
// accepted. Start reading at SetCondition.
package verification

import (
	"errors"

	fluxmeta "github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Condition is the type of the condition, as in Flux's GitRepository.
const Condition = "SourceVerified"

// Mode is how revisions of a Sync are verified; empty where they are not.
func Mode(sync *v1alpha1.Sync) v1alpha1.GitVerificationMode {
	if v := sync.Spec.Source.Git.Verify; v != nil {
		return v.Mode
	}
	return ""
}

// Includes reports whether a revision that was verified in one mode has everything signed that another one
// requires. The empty mode has nothing signed.
func Includes(was, required v1alpha1.GitVerificationMode) bool {
	switch required {
	case v1alpha1.GitVerificationHEAD:
		return was == required || was == v1alpha1.GitVerificationTagAndHEAD || was == v1alpha1.GitVerificationEveryCommit
	case v1alpha1.GitVerificationTag:
		return was == required || was == v1alpha1.GitVerificationTagAndHEAD
	case v1alpha1.GitVerificationTagAndHEAD, v1alpha1.GitVerificationEveryCommit:
		return was == required
	default:
		return false
	}
}

// SetCondition sets the condition in updated, a copy of the Sync: err is what kept it from its
// newest revision, and revision is what the source returned otherwise. A partial run has not fetched from the
// source, and changes nothing.
func SetCondition(updated, sync *v1alpha1.Sync, partial bool, revision string, err error) {
	switch {
	case partial:
	case Mode(sync) == "":
		conditions.Delete(updated, Condition)
	case errors.Is(err, gitsource.ErrCommitSignature), errors.Is(err, gitsource.ErrTagSignature), errors.Is(err, gitsource.ErrVerification):
		reason, _ := gitsource.Reason(err)
		conditions.MarkFalse(updated, Condition, reason, "%s", sanitize.Text(err.Error()))
	case err == nil && revision != "":
		conditions.MarkTrue(updated, Condition, fluxmeta.SucceededReason, "Verified the signatures of revision %s in mode %s", revision, Mode(sync))
	}
}
