package operator

import (
	"context"
	"fmt"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource/artifact"
	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/verification"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// branchState is where the Sync's branch was before it moved, by the Sync's status, which
// outlives caches and leaders.
func (a *app) branchState(sync *v1alpha1.Sync) func(context.Context) (gogit.BranchState, error) {
	return func(ctx context.Context) (gogit.BranchState, error) {
		now, err := a.live(ctx, sync)
		if err != nil || now == nil {
			return gogit.BranchState{}, err
		}
		from := syncpolicy.LastFollowedCommit(now)
		return gogit.BranchState{
			Commit: from, AllowsForcePush: func(to string) bool { return syncpolicy.AllowsForcePush(now, from, to) },
			Applied: commitOf(now.Status.LastAppliedRevision), Verified: verified(now), Base: verificationBase(now),
		}, nil
	}
}

// lastRevisions is what the Sync tried and applied last, by its status.
func (a *app) lastRevisions(sync *v1alpha1.Sync) func(context.Context) (artifact.LastRevisions, error) {
	return func(ctx context.Context) (artifact.LastRevisions, error) {
		now, err := a.live(ctx, sync)
		if err != nil || now == nil {
			return artifact.LastRevisions{}, err
		}
		status := now.Status
		return artifact.LastRevisions{Attempted: status.LastAttemptedRevision, Applied: status.LastAppliedRevision, AppliedTreeID: status.LastAppliedTreeID}, nil
	}
}

// live is a Sync as it is now; nil where another one has its name.
func (a *app) live(ctx context.Context, sync *v1alpha1.Sync) (*v1alpha1.Sync, error) {
	var now v1alpha1.Sync
	if err := a.direct.Get(ctx, client.ObjectKeyFromObject(sync), &now); err != nil {
		return nil, fmt.Errorf("reading Sync %s: %w", sync.Name, err)
	}
	if now.UID != sync.UID {
		return nil, nil
	}
	return &now, nil
}

// verification is which signatures the Sync requires; nil for none. The Secret is read at each fetch,
// past every cache, so that a key that is taken out counts at once.
func (a *app) verification(sync *v1alpha1.Sync) *gogit.Verification {
	v := sync.Spec.Source.Git.Verify
	if v == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: sync.Namespace, Name: v.SecretRef.Name}
	return &gogit.Verification{Mode: gogit.VerificationMode(v.Mode), Now: time.Now, Keys: func(ctx context.Context) (map[string][]byte, error) {
		var secret corev1.Secret
		err := a.direct.Get(ctx, key, &secret)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("verify.secretRef names Secret %s, which is not in namespace %s", key.Name, key.Namespace)
		}
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", key.Name, err)
		}
		return secret.Data, nil
	}}
}

// commitPattern is a revision that ends with a commit.
var commitPattern = regexp.MustCompile(`^(?:.+@)?sha1:([0-9a-f]{40})$`)

// commitOf is the commit of a revision; empty where it has none, such as one of sha256.
func commitOf(revision string) string {
	if parts := commitPattern.FindStringSubmatch(revision); parts != nil {
		return parts[1]
	}
	return ""
}

// verificationBase is the commit behind which the mode EveryCommit requires signatures. As with the branch that is
// followed by fast-forward alone, there is none where the spec names another repository or branch since; another
// tag of the same repository begins where the one before was.
func verificationBase(sync *v1alpha1.Sync) string {
	git := sync.Spec.Source.Git
	if git.Ref.Tag == "" {
		return syncpolicy.LastFollowedCommit(sync)
	}
	if sync.Status.LastAttemptedURL != "" && sync.Status.LastAttemptedURL != git.URL {
		return ""
	}
	return commitOf(sync.Status.LastAttemptedRevision)
}

// verified reports whether what was applied last was verified as the Sync requires it now.
func verified(sync *v1alpha1.Sync) bool {
	return verification.Includes(sync.Status.SourceVerificationMode, verification.Mode(sync))
}
