package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

const (
	here  = "1111111111111111111111111111111111111111"
	there = "2222222222222222222222222222222222222222"
)

func TestABranchThatWaitsForAPersonKeepsTheLastStateAndDeletesNothing(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1", "kubernetes/b=1")
	s.reconcile()
	s.commit("kubernetes/a=2") // Whoever took it all the same would delete b.
	for reason, err := range map[string]error{
		"NotFastForward":         &gitsource.NotFastForwardError{Branch: "main", From: here, To: there},
		"InvalidCommitSignature": fmt.Errorf("fetching: %w: commit 2: it is not signed", gitsource.ErrCommitSignature),
		"InvalidTagSignature":    fmt.Errorf("fetching: %w", gitsource.ErrTagSignature),
		"VerificationError":      fmt.Errorf("fetching: %w", gitsource.ErrVerification),
		"StorageOperationFailed": fmt.Errorf("writing the cache: %w", gitsource.ErrStorage),
	} {
		s.unread = err
		s.later()
		message := s.expectCondition("Ready", metav1.ConditionFalse, reason)
		if !strings.Contains(message, "revision main@sha1:11 stays applied") {
			t.Errorf("%s: %s", reason, message)
		}
		if diff := cmp.Diff(map[string]string{"a": "1", "b": "1"}, s.cluster.live); diff != "" {
			t.Errorf("%s: the last state did not stay (-want +got):\n%s", reason, diff)
		}
	}
	s.unread = nil
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

// A revision of which something could not be applied is not called applied when the next cannot be read.
func TestARevisionThatIsAppliedInPartIsNotCalledApplied(t *testing.T) {
	s := newStage(t, nil)
	s.cluster.refused["b"] = "a webhook denied the request"
	s.commit("kubernetes/a=1", "kubernetes/b=1")
	s.reconcile()
	s.unread = fmt.Errorf("fetching: %w", gitsource.ErrUnreachable)
	s.later()
	message := s.expectCondition("Ready", metav1.ConditionFalse, "SourceUnavailable")
	if strings.Contains(message, "stays applied") || !strings.Contains(message, "revision main@sha1:11 stays, of which not all is applied") {
		t.Error(message)
	}
}

// TestTheStatusHasHowTheAppliedRevisionWasVerified, by which a later process may correct drift to it.
func TestTheStatusHasHowTheAppliedRevisionWasVerified(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1", "kubernetes/b=1")
	s.reconcile()
	s.unread = fmt.Errorf("fetching: %w", gitsource.ErrCommitSignature)
	s.edit(func(sync *v1alpha1.Sync) {
		sync.Spec.Source.Git.Verify = &v1alpha1.GitVerification{Mode: v1alpha1.GitVerificationHEAD, SecretRef: v1alpha1.SecretRef{Name: "keys"}}
	})
	s.commit("kubernetes/a=2")
	s.later()
	s.expectCondition("SourceVerified", metav1.ConditionFalse, "InvalidCommitSignature")
	if got := s.sync().Status.SourceVerificationMode; got != "" {
		t.Errorf("what was applied before is called verified in mode %s", got)
	}
	s.unread = nil
	s.later()
	s.expectCondition("SourceVerified", metav1.ConditionTrue, "Succeeded")
	if got := s.sync().Status.SourceVerificationMode; got != v1alpha1.GitVerificationHEAD {
		t.Errorf("the mode is %q", got)
	}
	s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Verify = nil })
	s.later()
	if sync := s.sync(); sync.Status.SourceVerificationMode != "" || conditions.Has(sync, "SourceVerified") {
		t.Errorf("signatures are not required, and the status has %q", sync.Status.SourceVerificationMode)
	}
}
