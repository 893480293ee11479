package verification

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

func TestTheConditionFollowsTheSource(t *testing.T) {
	signed := &v1alpha1.Sync{Spec: v1alpha1.SyncSpec{Source: v1alpha1.Source{Git: v1alpha1.GitSource{
		Verify: &v1alpha1.GitVerification{Mode: v1alpha1.GitVerificationEveryCommit, SecretRef: v1alpha1.SecretRef{Name: "keys"}},
	}}}}
	const good = "True Succeeded Verified the signatures of revision main@sha1:1 in mode EveryCommit"
	// Each row continues from the one before.
	updated := &v1alpha1.Sync{}
	for _, c := range []struct {
		name     string
		sync     *v1alpha1.Sync
		revision string
		err      error
		want     string
	}{
		{"not required", &v1alpha1.Sync{}, "main@sha1:1", nil, ""},
		{"not fetched yet", signed, "", nil, ""},
		{"the server is away", signed, "", gitsource.ErrUnreachable, ""},
		{"verified", signed, "main@sha1:1", nil, good},
		{"the server is away later", signed, "main@sha1:1", fmt.Errorf("fetching: %w", gitsource.ErrUnreachable), good},
		{"a branch that was moved", signed, "main@sha1:1", &gitsource.NotFastForwardError{}, good},
		{"an unsigned commit", signed, "main@sha1:1", fmt.Errorf("%w: commit 2: it is not signed", gitsource.ErrCommitSignature), "False InvalidCommitSignature commit signature not accepted: commit 2: it is not signed"},
		{"a server that is away does not end it", signed, "main@sha1:1", gitsource.ErrUnreachable, "False InvalidCommitSignature commit signature not accepted: commit 2: it is not signed"},
		{"a partial run", signed, "main@sha1:1", nil, "False InvalidCommitSignature commit signature not accepted: commit 2: it is not signed"},
		{"an unsigned tag", signed, "", fmt.Errorf("x: %w", gitsource.ErrTagSignature), "False InvalidTagSignature x: tag signature not accepted"},
		{"no keys", signed, "", fmt.Errorf("%w: none", gitsource.ErrVerification), "False VerificationError signatures cannot be verified: none"},
		{"another failure", signed, "", errors.New("x"), "False VerificationError signatures cannot be verified: none"},
		{"verified again", signed, "main@sha1:1", nil, good},
		{"not required any more", &v1alpha1.Sync{}, "main@sha1:1", nil, ""},
	} {
		SetCondition(updated, c.sync, c.name == "a partial run", c.revision, c.err)
		got := ""
		if conditions.Has(updated, Condition) {
			status := metav1.ConditionFalse
			if conditions.IsTrue(updated, Condition) {
				status = metav1.ConditionTrue
			}
			got = fmt.Sprintf("%s %s %s", status, conditions.GetReason(updated, Condition), conditions.GetMessage(updated, Condition))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAModeIncludesThoseThatRequireLess(t *testing.T) {
	const head, tag, both, every = v1alpha1.GitVerificationHEAD, v1alpha1.GitVerificationTag, v1alpha1.GitVerificationTagAndHEAD, v1alpha1.GitVerificationEveryCommit
	all := []v1alpha1.GitVerificationMode{"", head, tag, both, every}
	for required, including := range map[v1alpha1.GitVerificationMode][]v1alpha1.GitVerificationMode{
		"": nil, head: {head, both, every}, tag: {tag, both}, both: {both}, every: {every},
	} {
		for _, was := range all {
			if got := Includes(was, required); got != slices.Contains(including, was) {
				t.Errorf("what was verified as %q is enough for %q: %t", was, required, got)
			}
		}
	}
}
