package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/verification"
)

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

// commitDigits is how many digits a commit has, with which a revision ends.
const commitDigits = 40

// appliedCommit is the commit of a revision; empty where there is none.
func appliedCommit(revision string) string {
	if len(revision) < commitDigits {
		return ""
	}
	return revision[len(revision)-commitDigits:]
}

// verified reports whether what was applied last was verified in the mode that the Sync has.
func verified(sync *v1alpha1.Sync) bool {
	mode := verification.Mode(sync)
	return mode != "" && sync.Status.SourceVerificationMode == mode
}
