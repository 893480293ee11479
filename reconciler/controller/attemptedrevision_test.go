package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/state"
)

// A run that only corrects drift does not take back how far the branch was followed: the next
// move of the branch would be measured from an older commit.
func TestACorrectionOfDriftKeepsTheLastAttemptedRevision(t *testing.T) {
	const newest = "main@sha1:111"
	s := newStage(t, nil)
	s.commit("kubernetes/pool=1", "kubernetes/map=1")
	s.reconcile()
	s.commit("kubernetes/pool=2")
	s.loadError = state.Failf(state.Stalled, "LimitExceeded", "too large")
	s.later()
	if got := s.sync().Status.LastAttemptedRevision; got != newest {
		t.Fatal(got)
	}
	s.cluster.refused["map"], s.cluster.live["map"] = "denied", "edited"
	s.drift(at("kubernetes", "map"))
	if got := s.sync().Status.LastAttemptedRevision; got != newest {
		t.Errorf("lastAttemptedRevision is %s, want %s", got, newest)
	}
}

// What a token let pass goes on once it can be observed again, also where the token is used up meanwhile.
func TestADeletionThatWasBegunGoesOnWhereItCouldNotBeObserved(t *testing.T) {
	s, deletion, _ := doubleStage(t)
	s.aws.refused["queue"] = "busy"
	s.confirm(deletion)
	s.later()
	s.aws.unknown["queue"] = "AccessDenied"
	s.later()
	s.later()
	clear(s.aws.unknown)
	clear(s.aws.refused)
	s.clock.Step(11 * time.Minute)
	s.reconcile()
	all := s.sync().Status.ConfirmationToken
	s.confirm(all)
	s.later()
	if s.aws.live["queue"] != "" || !strings.HasPrefix(all, deletion+",nodes-1-") {
		t.Errorf("after %s it asks for %s: %v", deletion, all, s.aws.live)
	}
}
