// Package rollback has a Sync apply an earlier commit and stay there, whatever its branch or tag leads
// to, until a person ends that. What it stays at is an annotation of the live Sync: it outlives
// restarts and changes of the leader, and no repository declares it.
//
// It refuses to read a repository: that a commit exists is found out by fetching it. Start reading at
// Ref, which is what a rolled back Sync follows.
package rollback

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/sanitize"
)

// Condition is the type of the condition of a Sync that is rolled back. It is True, with the reason
// RolledBack, False, with ReasonUnsupportedSource, or absent.
const Condition = "RolledBack"

// ReasonUnsupportedSource is that of a Sync that has the annotation and cannot be rolled back by it.
const ReasonUnsupportedSource = "UnsupportedSource"

// Of is the commit that a Sync is rolled back to, 40 digits where the annotation is valid; empty where it
// is not rolled back. One that follows a source of Flux has no commits, and cannot be.
func Of(sync *v1alpha1.Sync) string {
	if sync.Spec.SourceRef != nil {
		return ""
	}
	return sync.Annotations[v1alpha1.RollbackAnnotation]
}

// Ref is what the Sync follows: that of its spec, or the commit that it is rolled back to. Beside that a
// branch stays, whose name its revisions keep.
func Ref(sync *v1alpha1.Sync) v1alpha1.GitRef {
	ref, commit := sync.Spec.Source.Git.Ref, Of(sync)
	if commit == "" {
		return ref
	}
	return v1alpha1.GitRef{Branch: ref.FollowedBranch(), Commit: commit}
}

// Source is that of the Sync's spec with its Ref.
func Source(sync *v1alpha1.Sync) v1alpha1.Source {
	out := sync.Spec.Source
	out.Git.Ref = Ref(sync)
	return out
}

// Reason is why a person rolled the Sync back, without what a terminal would interpret; empty where nobody
// named a reason.
func Reason(sync *v1alpha1.Sync) string {
	if Of(sync) == "" {
		return ""
	}
	return sanitize.Text(sync.Annotations[v1alpha1.RollbackReasonAnnotation])
}

// Revision is what a Sync is rolled back to, as its status names revisions; empty where it is not.
func Revision(sync *v1alpha1.Sync) string {
	ref := Ref(sync)
	switch {
	case Of(sync) == "":
		return ""
	case ref.Branch != "":
		return sanitize.Text(ref.Branch + "@sha1:" + ref.Commit)
	}
	return sanitize.Text("sha1:" + ref.Commit)
}

// Message reports that a Sync is rolled back, why, and how that ends; empty where it is not.
func Message(sync *v1alpha1.Sync) string {
	if Of(sync) == "" {
		return ""
	}
	why := ""
	if reason := Reason(sync); reason != "" {
		why = " (" + reason + ")"
	}
	return fmt.Sprintf("Stays at %s%s: nothing newer is applied before it is resumed with: poolwright resume %s -n %s --rollback", Revision(sync), why, sync.Name, sync.Namespace)
}

// Refused reports that the annotation of a Sync has no effect, why, and how it is removed; empty where there is
// none, or it has one. It may be from the time before the Sync followed a source of Flux, and would
// roll it back once it does so no more.
func Refused(sync *v1alpha1.Sync) string {
	if sync.Spec.SourceRef == nil || sync.Annotations[v1alpha1.RollbackAnnotation] == "" {
		return ""
	}
	return fmt.Sprintf("The annotation %s has no effect: the Sync follows %s, of which Flux keeps no earlier artifact. Without spec.sourceRef the Sync would be rolled back; remove the annotation with: poolwright resume %s -n %s",
		v1alpha1.RollbackAnnotation, sanitize.Text(sync.Address()), sync.Name, sync.Namespace)
}

// Mark sets the condition of a Sync that is rolled back, or has the annotation without effect, and removes that
// of any other.
func Mark(sync *v1alpha1.Sync) {
	set := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(sync, &metav1.Condition{Type: Condition, Status: status, Reason: reason, Message: message, ObservedGeneration: sync.Generation})
	}
	switch message, refused := Message(sync), Refused(sync); {
	case message != "":
		set(metav1.ConditionTrue, Condition, message)
	case refused != "":
		set(metav1.ConditionFalse, ReasonUnsupportedSource, refused)
	default:
		conditions.Delete(sync, Condition)
	}
}

// ErrRevision reports that a Sync cannot be rolled back to what was requested.
var ErrRevision = errors.New("not rolled back")

var revision = regexp.MustCompile(`^(?:.+@)?(?:sha1:)?([0-9a-f]{40})$`)

// To is the change by which a Sync is rolled back to a revision, for the reason of this time and no other. The revision is a commit of
// 40 digits, alone or as the status of the Sync has it: main@sha1:COMMIT. Errors wrap ErrRevision.
func To(sync *v1alpha1.Sync, to, reason string) (func(*v1alpha1.Sync), error) {
	match := revision.FindStringSubmatch(strings.ToLower(to))
	ref := sync.Spec.Source.Git.Ref
	switch {
	case sync.Spec.SourceRef != nil:
		return nil, fmt.Errorf("Sync %s is %w: it follows %s, of which Flux keeps no earlier artifact; have the source name the earlier revision, such as by spec.ref of a GitRepository", sync.Name, ErrRevision, sync.Address())
	case to == "":
		return nil, fmt.Errorf("Sync %s is %w: no revision is named; add --to with a commit of 40 digits, of those that git log lists", sync.Name, ErrRevision)
	case match == nil:
		return nil, fmt.Errorf("Sync %s is %w: %[3]s is no commit of 40 digits; to have all of them, run in the repository: git rev-parse %[3]s", sync.Name, ErrRevision, to)
	case signs(sync, v1alpha1.GitVerificationTag, v1alpha1.GitVerificationTagAndHEAD):
		return nil, fmt.Errorf("Sync %s is %w: its tags have to be signed, and none leads to a commit; set spec.source.git.ref.tag to an earlier tag", sync.Name, ErrRevision)
	case signs(sync, v1alpha1.GitVerificationEveryCommit):
		// Behind a commit that nobody attempted there may be some without a signature, which would count as attempted then.
		return nil, fmt.Errorf("Sync %s is %w: spec.source.git.verify requires every commit to be signed that leads to the newest; set its mode to HEAD until the rollback is ended", sync.Name, ErrRevision)
	case ref.Commit != "":
		return nil, fmt.Errorf("Sync %s is %w: it follows no branch or tag, but spec.source.git.ref.commit; change that", sync.Name, ErrRevision)
	case !sync.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("Sync %s is %w: it is being deleted", sync.Name, ErrRevision)
	}
	return func(s *v1alpha1.Sync) {
		End(s)
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.RollbackAnnotation, match[1])
		if reason != "" {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, v1alpha1.RollbackReasonAnnotation, reason)
		}
	}, nil
}

// signs reports whether signatures are required in one of the modes.
func signs(sync *v1alpha1.Sync, modes ...v1alpha1.GitVerificationMode) bool {
	v := sync.Spec.Source.Git.Verify
	return v != nil && slices.Contains(modes, v.Mode)
}

// End is the change by which a Sync follows its branch or tag again.
func End(sync *v1alpha1.Sync) {
	delete(sync.Annotations, v1alpha1.RollbackAnnotation)
	delete(sync.Annotations, v1alpha1.RollbackReasonAnnotation)
}
