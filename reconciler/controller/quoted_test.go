package controller

import (
	"strings"
	"testing"
)

// A token that nothing waits for has not served, however many runs have observed it: it is reported
// as long as it is quoted and something waits.
func TestATokenThatNothingWaitsForIsReportedByEveryRun(t *testing.T) {
	for name, mistyped := range map[string]func(rollout string) string{
		"no purpose":                       func(rollout string) string { return "x" + rollout },
		"a purpose that nothing waits for": func(rollout string) string { return "force-push" + strings.TrimPrefix(rollout, "nodes") },
		"the content that stands for none": func(string) string { return "force-push-1-" + strings.Repeat("0", 40) },
		"the guard of no Sync":             func(rollout string) string { return "guard.dev" + strings.TrimPrefix(rollout, "nodes") },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, rollout := doubleStage(t)
			quoted := mistyped(rollout)
			s.confirm(quoted)
			for i := range 4 {
				if i == 2 {
					s.restart()
				}
				s.later()
				if got := s.mismatch(); !strings.Contains(got, quoted+", which matches no pending change") {
					t.Errorf("run %d: %q, handled %q", i, got, s.sync().Status.LastHandledConfirmationTokens)
				}
			}
		})
	}
}

// A confirmation that comes when what it is for is taken back already lets nothing pass later.
func TestATokenThatIsQuotedTooLateIsUsedUpAndStillReported(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	s.commit("kubernetes/np-gpu=1", "kubernetes/map=1", "aws/role=1") // Nothing is replaced any more.
	s.later()
	s.confirm(rollout)
	for range 2 {
		s.later()
		if got := s.mismatch(); !strings.Contains(got, rollout) {
			t.Errorf("mismatch %q", got)
		}
	}
	s.commit("kubernetes/np-gpu=2", "kubernetes/map=1", "aws/role=1")
	s.later()
	if again := s.required("PruneHeld"); s.cluster.live["np-gpu"] != "1" || !strings.HasPrefix(again, deletion+",nodes-2-") {
		t.Errorf("it asks for %s, cluster %v", again, s.cluster.live)
	}
}

// Whatever is quoted, no text of the annotation is in the status or in an event for good.
func TestWhatIsRecordedOfAConfirmationIsATokenThatWasReported(t *testing.T) {
	const junk = "\x1b[31m\n# hi @all"
	s, _, rollout := doubleStage(t)
	var parts []string
	for _, c := range "abcdefgh" {
		parts = append(parts, string(c)+junk+rollout, "guard."+string(c)+junk+"-1-"+strings.Repeat("a", 40))
	}
	s.confirm(strings.Join(append(parts, rollout+"+0"+junk+strings.Repeat("A", 5000)), ","))
	s.later()
	if got := s.sync().Status.LastHandledConfirmationTokens; got != "" || s.cluster.live["np-gpu"] != "1" {
		t.Errorf("handled %q, cluster %v", got, s.cluster.live)
	}
	s.takeEvents()
	s.confirm(rollout + "+7Other")
	s.later()
	if got := s.sync().Status.LastHandledConfirmationTokens; got != rollout || s.cluster.live["np-gpu"] != "2" || s.mismatch() != "" {
		t.Errorf("handled %q, mismatch %q, cluster %v", got, s.mismatch(), s.cluster.live)
	}
	if events := strings.Join(s.takeEvents(), "\n"); !strings.Contains(events, "Confirmed "+rollout+" let pass ") {
		t.Errorf("events %q", events)
	}
}

// Who does what the message on a token that does not fit proposes keeps what another token has let
// pass and is not made yet.
func TestTheTokenInThePlaceOfOneThatDoesNotFitKeepsTheOthers(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	s.cluster.refused["np-gpu"] = "a webhook refuses it"
	s.confirm("deletions-1-" + strings.Repeat("0", 40) + "," + rollout)
	s.later()
	_, named, _ := strings.Cut(s.mismatch(), "confirmed by ")
	if named != deletion+","+rollout {
		t.Errorf("the message names %s", named)
	}
	s.confirm(named)
	delete(s.cluster.refused, "np-gpu")
	s.later()
	if s.cluster.live["np-gpu"] != "2" {
		t.Errorf("the rollout that was confirmed waits again: %v", s.sync().Status.Pending)
	}
}
