package controller

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// begunStage has a confirmed deletion that is refused, and returns its token.
func begunStage(t *testing.T) (*stage, string) {
	s, token := waitingStage(t)
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.confirm(token)
	s.later()
	s.later()
	s.cluster.removals["other"] = loss.DeletionImpact{Impact: "1 node of the pool would go", Losses: loss.Counts{"Node": 1}}
	return s, token
}

func TestATokenServesOnceBesideADeletionThatIsNotSent(t *testing.T) {
	for name, thenQuoted := range map[string]func(both, begun string) string{
		"both are quoted for ever":   func(both, _ string) string { return both },
		"what served is taken out":   func(_, begun string) string { return begun },
		"what is begun is taken out": func(both, begun string) string { return strings.Trim(strings.ReplaceAll(both, begun, ""), ",") },
	} {
		t.Run(name, func(t *testing.T) {
			s, token := begunStage(t)
			lossy := s.cluster.removals["other"]
			s.commit("kubernetes/map=1", "kubernetes/other=2")
			s.later()
			both := s.sync().Status.ConfirmationToken
			if !strings.Contains(both, token) {
				t.Fatalf("it asks for %s without %s", both, token)
			}
			s.confirm(both)
			s.later()
			if s.cluster.live["other"] != "2" {
				t.Fatalf("the update was not made: %v", s.cluster.live)
			}
			s.confirm(thenQuoted(both, token))
			delete(s.cluster.removals, "other")
			s.commit("kubernetes/map=1", "kubernetes/other=1")
			s.later()
			s.cluster.removals["other"] = lossy
			s.commit("kubernetes/map=1", "kubernetes/other=2")
			s.restart()
			s.later()
			if s.cluster.live["other"] != "1" {
				t.Errorf("the token served twice: %v, handled %q", s.cluster.live, s.sync().Status.LastHandledConfirmationTokens)
			}
			delete(s.cluster.refused, "pool")
			s.commit("kubernetes/map=1", "kubernetes/other=1") // A held update keeps what it may need.
			s.later()
			if gone, goesOn := s.cluster.live["pool"] == "", strings.Contains(thenQuoted(both, token), token); gone != goesOn {
				t.Errorf("the deletion was made: %t, and it is quoted: %t", gone, goesOn)
			}
		})
	}
}

// What was quoted when nothing waited for it is void, and a deletion that is begun goes on.
func TestATokenQuotedTooLateIsVoidBesideADeletionThatIsNotSent(t *testing.T) {
	s, _ := begunStage(t)
	s.commit("kubernetes/map=1", "kubernetes/other=2")
	s.later()
	both := s.sync().Status.ConfirmationToken
	s.commit("kubernetes/map=1", "kubernetes/other=1")
	s.later()
	s.confirm(both)
	s.later()
	s.commit("kubernetes/map=1", "kubernetes/other=2")
	s.later()
	if s.cluster.live["other"] != "1" {
		t.Errorf("quoted when nothing waited for it, it served later: %v, handled %q", s.cluster.live, s.sync().Status.LastHandledConfirmationTokens)
	}
	delete(s.cluster.refused, "pool")
	s.commit("kubernetes/map=1", "kubernetes/other=1")
	s.later()
	if s.cluster.live["pool"] != "" {
		t.Errorf("the deletion waits again: handled %q", s.sync().Status.LastHandledConfirmationTokens)
	}
}

// Of two tokens that served, in one run or one after the other, none is reported to fit nothing.
func TestTokensThatServedAreNotReported(t *testing.T) {
	for name, inTurn := range map[string]bool{"in one run": false, "one after the other": true} {
		t.Run(name, func(t *testing.T) {
			s, _ := begunStage(t)
			s.commit("kubernetes/map=1")
			s.later()
			both := s.sync().Status.ConfirmationToken
			if len(confirm.Tokens(both)) != 2 {
				t.Fatalf("it asks for %s", both)
			}
			if !inTurn {
				delete(s.cluster.refused, "pool")
			}
			s.confirm(both)
			s.later()
			delete(s.cluster.refused, "pool")
			for range 2 {
				s.later()
				s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
				if got := s.mismatch(); got != "" {
					t.Error(got)
				}
			}
			if handled := s.sync().Status.LastHandledConfirmationTokens; handled != both {
				t.Errorf("handled %s of %s", handled, both)
			}
		})
	}
}

// The engine's token is void once its change is taken back, also while something else waits that
// ends the engine.
func TestATokenForTheEngineIsUsedUpWhereAnotherPartWaits(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/engine=on", "kubernetes/role=wide", "kubernetes/np-b=1")
	s.reconcile()
	s.cluster.removals["engine"] = loss.DeletionImpact{Impact: "the engine stops", Losses: loss.Counts{"Engine": 1, "NodeClaim": 5}, AfterNodes: true, EndsEngine: true}
	s.cluster.removals["role"] = loss.DeletionImpact{Impact: "the controller loses permissions", AfterNodes: true, EndsEngine: true}
	s.commit("kubernetes/engine=off", "kubernetes/role=narrow", "kubernetes/np-b=1")
	s.later()
	token := s.required("PruneHeld")
	s.cluster.refused["engine"], s.cluster.refused["role"] = "nodes are awaited", "nodes are awaited"
	s.confirm(token)
	s.later()
	delete(s.cluster.refused, "engine")
	s.commit("kubernetes/engine=on", "kubernetes/role=narrow", "kubernetes/np-b=1")
	s.later()
	s.commit("kubernetes/engine=off", "kubernetes/role=narrow", "kubernetes/np-b=1")
	s.later()
	if again := s.required("PruneHeld"); again == token || s.cluster.live["engine"] != "on" {
		t.Errorf("the engine stops by the token of a change that was taken back: %v, handled %q", s.cluster.live, s.sync().Status.LastHandledConfirmationTokens)
	}
}

// What fits nothing, quoted beside the token of an update that is refused, does not take it back.
func TestAMistypedTokenKeepsTheOneOfAnUpdateThatIsNotMade(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/map=1", "kubernetes/other=1")
	s.reconcile()
	s.cluster.removals["other"] = loss.DeletionImpact{Impact: "1 node of the pool would go", Losses: loss.Counts{"Node": 1}}
	s.commit("kubernetes/map=1", "kubernetes/other=2")
	s.later()
	token := s.required("PruneHeld")
	s.cluster.refused["other"] = "a webhook denied the request"
	s.confirm(token + ",deletions-1-" + strings.Repeat("a", 40))
	s.later()
	s.later()
	delete(s.cluster.refused, "other")
	s.later()
	if s.cluster.live["other"] != "2" {
		t.Errorf("it asks for %q: %v", s.sync().Status.ConfirmationToken, s.cluster.live)
	}
}

// A confirmed deletion that has to wait is recorded with what went with it then: more asks again.
func TestAConfirmedDeletionThatHasToWaitNeedsAnotherConfirmationWhenMoreGoesWithIt(t *testing.T) {
	s, token := waitingStage(t)
	s.cluster.refused["map"] = "a webhook denied the request"
	s.commit("kubernetes/map=2", "kubernetes/other=1")
	s.confirm(token)
	s.later()
	if allowed := s.cluster.allowed["pool"]; s.cluster.live["pool"] == "" || !allowed.Confirmed() {
		t.Fatalf("the deletion did not wait, or is not recorded: %v, %v", s.cluster.live, allowed)
	}
	s.cluster.removals["pool"] = loss.DeletionImpact{Impact: "9 nodes go with it", Losses: loss.Counts{"Node": 9}}
	clear(s.cluster.refused)
	s.later()
	s.later()
	if again := s.required("PruneHeld"); s.cluster.live["pool"] == "" || again == token {
		t.Errorf("confirmed with 2 nodes, it goes on with 9: %v, it asks for %s", s.cluster.live, again)
	}
}
