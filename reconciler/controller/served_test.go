package controller

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

var oneNode = loss.DeletionImpact{Impact: "1 node of the pool would go", Losses: loss.Counts{"Node": 1}}

// An ordinary removal of everything: the pool is deleted, and the engine waits for its nodes.
func TestTheTokenOfTheEngineIsNotReportedWhileNodesAreAwaited(t *testing.T) {
	for name, during := range map[string]loss.DeletionImpact{
		"NodeClaims are left": {Impact: "the engine stops", Losses: loss.Counts{"Engine": 1, "NodeClaim": 4}, AfterNodes: true, EndsEngine: true},
		"none for a moment":   {AfterNodes: true, EndsEngine: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/np-a=1", "kubernetes/np-b=1", "kubernetes/engine=on")
			s.reconcile()
			s.cluster.removals["np-a"] = loss.DeletionImpact{Impact: "3 nodes go with it", Losses: loss.Counts{"Node": 3}}
			s.cluster.removals["engine"] = loss.DeletionImpact{Impact: "the engine stops", Losses: loss.Counts{"Engine": 1, "NodeClaim": 5}, AfterNodes: true, EndsEngine: true}
			s.commit("kubernetes/np-b=1", "kubernetes/engine=off")
			s.later()
			s.confirm(s.required("PruneHeld"))
			s.cluster.refused["engine"] = "nodes are awaited"
			s.later()
			s.cluster.removals["engine"] = during
			for range 2 {
				s.later()
				if got := s.mismatch(); got != "" {
					t.Error(got)
				}
			}
		})
	}
}

// Of two deletions that one token confirmed, one is refused, and the other waits for it.
func TestAConfirmedDeletionThatHasToWaitGoesOnByItself(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/np-a=1", "kubernetes/map=1", "aws/role=1", "aws/kept=1")
	s.reconcile()
	s.cluster.removals["np-a"] = loss.DeletionImpact{Impact: "3 nodes go with it", Losses: loss.Counts{"Node": 3}}
	s.aws.removals["role"] = loss.DeletionImpact{Impact: "3 nodes use it", Losses: loss.Counts{"Node": 3}, AfterNodes: true}
	s.commit("kubernetes/map=1", "aws/kept=1")
	s.later()
	token := s.required("PruneHeld")
	if len(confirm.Tokens(token)) != 1 {
		t.Fatal(token)
	}
	s.cluster.refused["np-a"] = "a webhook denied the request"
	s.confirm(token)
	s.later()
	delete(s.cluster.refused, "np-a")
	s.later()
	s.later()
	if len(s.aws.live) != 1 || s.cluster.live["np-a"] != "" {
		t.Errorf("confirmed by %q, it asks for %q, pending %q", token, s.sync().Status.ConfirmationToken, s.pending())
	}
}

// A confirmed deletion has to wait, and the repository has a problem meanwhile.
func TestAConfirmedDeletionThatHasToWaitGoesOnAfterAProblem(t *testing.T) {
	for name, restart := range map[string]bool{"one process": false, "a restart": true} {
		t.Run(name, func(t *testing.T) {
			s, token := waitingStage(t)
			s.cluster.refused["map"] = "a webhook denied the request"
			s.commit("kubernetes/map=2", "kubernetes/other=1")
			s.confirm(token)
			s.later()
			if s.cluster.live["pool"] == "" {
				t.Fatal("it does not wait")
			}
			s.problems = []state.Problem{{Message: "no such field"}}
			if restart {
				s.restart()
			}
			s.later()
			s.problems = nil
			delete(s.cluster.refused, "map")
			s.commit("kubernetes/map=2", "kubernetes/other=1")
			s.later()
			if s.cluster.live["pool"] != "" {
				t.Errorf("confirmed by %q, it asks for %q, handled %q", token, s.sync().Status.ConfirmationToken, s.sync().Status.LastHandledConfirmationTokens)
			}
		})
	}
}

// An update that was refused stays confirmed while its thing cannot be read.
func TestAConfirmedUpdateGoesOnWhereItsThingWasUnreadable(t *testing.T) {
	for name, tt := range map[string]struct {
		restart bool
		begin   func(*stage)
	}{
		"AWS does not respond, one process": {false, func(s *stage) { s.aws.unknown["group"] = "no answer" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/map=1", "aws/group=2")
			s.reconcile()
			s.aws.removals["group"] = oneNode
			s.commit("kubernetes/map=1", "aws/group=1")
			s.later()
			token := s.required("PruneHeld")
			s.aws.refused["group"] = "throttled"
			s.confirm(token)
			s.later()
			tt.begin(s)
			if tt.restart {
				s.restart()
			}
			s.later()
			delete(s.aws.refused, "group")
			delete(s.aws.unknown, "group")
			s.clock.Step(11 * 60e9)
			s.reconcile()
			s.later()
			if s.aws.live["group"] != "1" {
				t.Errorf("confirmed by %q, it asks for %q, handled %q, %s", token, s.sync().Status.ConfirmationToken, s.sync().Status.LastHandledConfirmationTokens, s.mismatch())
			}
		})
	}
}

// Who writes the repository keeps a problem in it, and an update that is always refused: one consent
// lets the other update pass once.
func TestAProblemInTheRepositoryKeepsNoTokenGood(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/map=1", "kubernetes/one=9", "kubernetes/two=9")
	s.reconcile()
	s.problems = []state.Problem{{Message: "no such field"}}
	s.cluster.refused["two"] = "a webhook denied the request"
	shrink := func(lossy bool) {
		delete(s.cluster.removals, "one")
		if s.cluster.removals["two"] = oneNode; lossy {
			s.cluster.removals["one"] = oneNode
		}
		one := map[bool]string{true: "1", false: "9"}[lossy]
		s.commit("kubernetes/map=1", "kubernetes/one="+one, "kubernetes/two=1")
		for range 4 {
			s.later()
		}
	}
	shrink(true)
	s.confirm(s.sync().Status.ConfirmationToken)
	times := 0
	for range 3 {
		shrink(true)
		if s.cluster.live["one"] == "1" {
			times++
		}
		shrink(false)
		s.restart()
	}
	if times != 1 {
		t.Errorf("one consent emptied it %d times: %v, handled %q", times, s.cluster.writes, s.sync().Status.LastHandledConfirmationTokens)
	}
}

// A thing in AWS that is created anew has the same identity, and something else is unknown.
func TestWhatIsUnknownKeepsNoTokenGood(t *testing.T) {
	s := newStage(t, nil)
	s.cluster.live["np-lost"], s.cluster.applied["np-lost"], s.cluster.unknown["np-lost"] = "1", "1", "denied"
	s.commit("kubernetes/pool=1", "kubernetes/map=1", "aws/queue=1", "aws/kept=1")
	s.reconcile()
	s.aws.removals["queue"], s.cluster.removals["pool"] = oneNode, loss.DeletionImpact{Impact: "2 nodes go with it", Losses: loss.Counts{"Node": 2}}
	s.commit("kubernetes/map=1", "aws/kept=1")
	s.later()
	s.confirm(s.sync().Status.ConfirmationToken)
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.later()
	if s.aws.live["queue"] != "" {
		t.Fatalf("it waits: %q", s.pending())
	}
	s.commit("kubernetes/pool=1", "kubernetes/map=1", "aws/queue=1", "aws/kept=1")
	s.later()
	s.commit("kubernetes/map=1", "aws/kept=1")
	s.later()
	if s.aws.live["queue"] == "" {
		t.Errorf("deleted twice by one token: %v", s.aws.writes)
	}
}

// Who writes the repository brings another content once the token of the engine is quoted.
func TestTheTokenForARoleIsGoodForNoOtherContentOfIt(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/np-b=1", "kubernetes/role=all")
	s.reconcile()
	s.cluster.removals["role"] = loss.DeletionImpact{Impact: "the controller loses permissions that it has by it, such as get secrets", AfterNodes: true, EndsEngine: true}
	s.commit("kubernetes/np-b=1", "kubernetes/role=without-get-secrets")
	s.later()
	token := s.required("PruneHeld")
	s.cluster.refused["role"] = "nodes are awaited"
	s.confirm(token)
	s.later()
	s.cluster.removals["role"] = loss.DeletionImpact{Impact: "the controller loses permissions that it has by it, such as everything", AfterNodes: true, EndsEngine: true}
	delete(s.cluster.refused, "role")
	s.commit("kubernetes/np-b=1", "kubernetes/role=nothing")
	s.later()
	if s.cluster.live["role"] == "nothing" {
		t.Errorf("%s was quoted for a role without get secrets, and let pass one without anything", token)
	}
}

// A deletion that is desired again asks again, also where that commit has a problem, or something is unknown.
func TestADeletionThatWasDesiredAgainNeedsAnotherConfirmation(t *testing.T) {
	for name, tt := range map[string]struct{ begin, end func(*stage) }{
		"a plain commit": {func(*stage) {}, func(*stage) {}},
		"a problem in another file": {
			func(s *stage) { s.problems = []state.Problem{{Message: "no such field"}} }, func(s *stage) { s.problems = nil }},
		"something that is not desired is unknown": {
			func(s *stage) { s.aws.live["lost"], s.aws.applied["lost"], s.aws.unknown["lost"] = "1", "1", "denied" },
			func(s *stage) {}},
	} {
		for _, refused := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				s, token := waitingStage(t)
				if refused {
					s.cluster.refused["pool"] = "a webhook denied the request"
					s.confirm(token)
					s.later()
				} else {
					s.cluster.refused["map"] = "a webhook denied the request"
					s.commit("kubernetes/map=2", "kubernetes/other=1")
					s.confirm(token)
					s.later()
				}
				if s.cluster.live["pool"] == "" {
					t.Fatal(s.cluster.live)
				}
				clear(s.cluster.refused)
				tt.begin(s)
				s.commit("kubernetes/pool=1", "kubernetes/map=1", "kubernetes/other=1")
				s.later()
				if len(s.cluster.allowed) > 0 {
					t.Fatal(s.cluster.allowed)
				}
				tt.end(s)
				s.commit("kubernetes/map=1", "kubernetes/other=1")
				s.later()
				if s.cluster.live["pool"] == "" {
					t.Errorf("refused %v: it was desired again, and is deleted by %q", refused, token)
				}
			})
		}
	}
}

// A token is quoted while nothing waits for it; the commit that it fits comes later.
func TestATokenThatIsQuotedWhileTheSyncIsReadyIsVoid(t *testing.T) {
	s, token := waitingStage(t)
	s.commit("kubernetes/pool=1", "kubernetes/map=1", "kubernetes/other=1")
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	s.confirm(token)
	for range 3 {
		s.later()
	}
	s.commit("kubernetes/map=1", "kubernetes/other=1")
	s.later()
	if s.cluster.live["pool"] == "" {
		t.Errorf("quoted when nothing waited for it, %s served later", token)
	}
}

// The command that is shown while deletions cannot be computed keeps the token of one that is begun.
func TestTheCommandKeepsTheTokenOfADeletionThatCannotBeComputed(t *testing.T) {
	s, token := begunStage(t)
	s.problems = []state.Problem{{Message: "no such field"}}
	s.commit("kubernetes/map=1", "kubernetes/other=2")
	s.later()
	s.confirm(s.sync().Status.ConfirmationToken)
	s.later()
	s.problems = nil
	delete(s.cluster.refused, "pool")
	s.commit("kubernetes/map=1", "kubernetes/other=2")
	s.later()
	if s.cluster.live["pool"] != "" {
		t.Errorf("after %s it asks for %q: %q", token, s.sync().Status.ConfirmationToken, s.pending())
	}
}

// A deletion that is desired again asks again, also where something declared cannot be read meanwhile.
func TestADeletionThatWasDesiredAgainNeedsAnotherConfirmationWhateverElseIsUnknown(t *testing.T) {
	for _, how := range []string{"refused", "skipped"} {
		for _, restart := range []bool{false, true} {
			t.Run(how, func(t *testing.T) {
				s, token := waitingStage(t)
				if how == "refused" {
					s.cluster.refused["pool"] = "a webhook denied the request"
				} else {
					s.cluster.refused["map"] = "a webhook denied the request"
					s.commit("kubernetes/map=2", "kubernetes/other=1")
				}
				s.confirm(token)
				s.later()
				if s.cluster.live["pool"] == "" {
					t.Fatal("gone")
				}
				clear(s.cluster.refused)
				s.cluster.unknown["other"] = "denied"
				s.commit("kubernetes/pool=1", "kubernetes/map=1", "kubernetes/other=1")
				s.later()
				s.later()
				if len(s.cluster.allowed) > 0 {
					t.Fatal(s.cluster.allowed)
				}
				if restart {
					s.restart()
				}
				clear(s.cluster.unknown)
				s.commit("kubernetes/map=1", "kubernetes/other=1")
				s.later()
				if s.cluster.live["pool"] == "" {
					t.Errorf("%s, restart %v: desired again, deleted by %q; handled %q", how, restart, token, s.sync().Status.LastHandledConfirmationTokens)
				}
			})
		}
	}
}

// While spec.prune is false what was allowed is given up, also while the repository has a problem.
func TestADeletionThatIsGivenUpDuringAProblemNeedsAnotherConfirmation(t *testing.T) {
	for _, what := range []string{"prune", "drift", "annotation"} {
		t.Run(what, func(t *testing.T) {
			s, token := waitingStage(t)
			s.cluster.refused["pool"] = "a webhook denied the request"
			s.confirm(token)
			s.later()
			s.problems = []state.Problem{{Message: "no such field"}}
			s.commit("kubernetes/map=1", "kubernetes/other=1")
			s.later()
			clear(s.cluster.refused)
			no, yes := false, true
			s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Prune = &no; sync.Generation++ })
			s.later()
			s.later()
			s.problems = nil
			s.edit(func(sync *v1alpha1.Sync) { sync.Spec.Prune = &yes; sync.Generation++ })
			s.commit("kubernetes/map=1", "kubernetes/other=1")
			s.later()
			if s.cluster.live["pool"] == "" {
				t.Errorf("%s: deleted by %q", what, token)
			}
		})
	}
}

// A token let pass a deletion and an update: the one is desired again, while the thing of the other cannot be read.
func TestADeletionThatWasDesiredAgainNeedsAnotherConfirmationBesideAnUpdateThatIsUnknown(t *testing.T) {
	for _, runs := range []int{1, 2} {
		s := newStage(t, nil)
		s.commit("kubernetes/map=1", "kubernetes/pool=1", "aws/group=2")
		s.reconcile()
		s.aws.removals["group"], s.cluster.removals["pool"] = oneNode, oneNode
		s.commit("kubernetes/map=1", "aws/group=1")
		s.later()
		token := s.required("PruneHeld")
		s.aws.refused["group"] = "throttled"
		s.confirm(token)
		s.later()
		clear(s.aws.refused)
		if s.cluster.live["pool"] == "" {
			t.Fatal("the deletion did not wait for the update")
		}
		s.aws.unknown["group"] = "no answer"
		s.commit("kubernetes/map=1", "kubernetes/pool=1", "aws/group=1")
		for range runs {
			s.later()
		}
		clear(s.aws.unknown)
		s.commit("kubernetes/map=1", "aws/group=1")
		s.later()
		if s.cluster.live["pool"] == "" {
			t.Errorf("after %d runs: desired again, and deleted by %q", runs, token)
		}
	}
}
