package controller

import (
	"testing"

	"github.com/poolwright/poolwright/reconciler/state"
)

// A run that only corrects drift does not take back how far the branch was followed: the next
// move of the branch would be measured from an older commit.
func TestACorrectionOfDriftKeepsTheLastAttemptedRevision(t *testing.T) {
	const newest = "main@sha1:111"
	s := newStage(t, nil)
	s.commit("cluster/pool=1", "cluster/map=1")
	s.visit()
	s.commit("cluster/pool=2")
	s.mistake = state.Failf(state.Fix, "LimitExceeded", "too large")
	s.later()
	if got := s.sync().Status.LastAttemptedRevision; got != newest {
		t.Fatal(got)
	}
	s.cluster.refused["map"], s.cluster.live["map"] = "denied", "edited"
	s.drift(at("cluster", "map"))
	if got := s.sync().Status.LastAttemptedRevision; got != newest {
		t.Errorf("lastAttemptedRevision is %s, want %s", got, newest)
	}
}

// A token by which this very process began stays good while what it lets pass cannot be
// observed: only what an earlier process began is abandoned.
func TestWhatThisProcessAttemptedIsNotAbandoned(t *testing.T) {
	s, deletion, _ := doubleStage(t)
	s.aws.refused["queue"] = "busy"
	s.confirm(deletion)
	s.later()
	s.aws.unknown["queue"] = "AccessDenied"
	s.later()
	s.later()
	if got := s.sync().Status.LastHandledConfirm; got != "" {
		t.Errorf("it is used up though nothing was deleted: %q", got)
	}
}
