package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
)

// unrelated is a working copy of the stage's repository with a history of its own, in
// which the same objects have another value.
func (s *syncFixture) unrelated(value, branch string) *repo {
	s.Helper()
	old := s.repo
	defer func() { s.repo = old }()
	s.repo = newRepo(s.whole, s.git.url()+"/"+s.owner.Name+"/nodes.git", s.owner.Name, s.token, branch)
	s.declare(value, five...)
	s.repo.commit("Begin anew")
	return s.repo
}

func TestAForcePushWaitsForAPerson(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "forced")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	first := s.start()
	s.follow()
	good := s.ready().Status.LastAppliedRevision
	before := s.census()
	forced := s.unrelated("v2", s.repo.branch)

	stays := func() {
		t.Helper()
		if applied := s.sync().Status.LastAppliedRevision; applied != good {
			t.Errorf("%s was applied and is now said to be %s", good, applied)
		}
		if diff := cmp.Diff(before, s.census()); diff != "" {
			t.Errorf("the last good state did not stay (-before +during):\n%s", diff)
		}
	}
	message := s.waitForNotReady("NotFastForward")
	for _, part := range []string{s.repo.committed, forced.committed, good + " stays applied"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message lacks %q: %s", part, message)
		}
	}
	stays()
	s.edit("a", `{"data":{"value":"by hand"}}`)
	s.holds("a", "v1")

	// Another replica takes over, whose cache is empty.
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	s.deleteLease()
	s.edit("b", `{"data":{"value":"by hand"}}`)
	s.start()
	s.holds("b", "v1")
	stays()

	s.confirm("000000000000")
	if got := s.waitForEvent("ConfirmationMismatch"); !strings.HasSuffix(got, s.tokenIn(s.waitForNotReady("NotFastForward"))) {
		t.Errorf("the event does not name the token that fits: %s", got)
	}
	s.confirm(s.tokenIn(s.waitForNotReady("NotFastForward")))
	s.repo = forced
	s.ready()
	s.holds("a", "v2")
}

func TestHistoryIsTheAdminsToChoose(t *testing.T) {
	t.Parallel()
	s := newSyncFixture(t, "chosen")
	s.declare("v1", five...)
	s.repo.commit("Begin")
	s.start()
	s.follow()
	s.ready()
	other := s.unrelated("v2", "other")
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.Ref.Branch = "other" })
	s.repo = other
	s.ready()
	s.holds("a", "v2")

	s.repo = s.unrelated("v3", "other")
	s.waitForNotReady("NotFastForward")
	s.change(func(sync *v1alpha1.Sync) { sync.Spec.Source.Git.FastForwardOnly = new(false) })
	s.ready()
	s.repo = s.unrelated("v4", "other")
	s.ready()
	s.holds("a", "v4")
	s.eventually("the Sync records where it is from", func() error {
		if got, want := s.sync().Status.LastAttemptedURL, s.git.url()+"/"+s.owner.Name+"/nodes.git"; got != want {
			return fmt.Errorf("it is %q, not %q", got, want)
		}
		return nil
	})
}
