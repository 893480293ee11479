package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// waitingStage is a Sync of which the deletion of a pool waits, and its token.
func waitingStage(t *testing.T) (s *stage, token string) {
	t.Helper()
	s = newStage(t, nil)
	s.commit("kubernetes/pool=1", "kubernetes/map=1", "kubernetes/other=1")
	s.reconcile()
	s.cluster.removals["pool"] = loss.DeletionImpact{Impact: "2 nodes go with it", Losses: loss.Counts{"Node": 2}}
	s.commit("kubernetes/map=1", "kubernetes/other=1")
	s.later()
	return s, s.required("PruneHeld")
}

// uncomputable are the ways in which a run cannot compute what is to be deleted, the reason of each,
// and whether the Sync asks for the move of the branch as well.
var uncomputable = map[string]struct {
	reason string
	begin  func(s *stage)
	move   bool
}{
	"the newest revision has a problem": {"InvalidManifests", func(s *stage) {
		s.problems = []state.Problem{{Origin: state.Origin{File: "cluster.yaml", Line: 9}, Message: "no such field"}}
		s.commit("kubernetes/map=1", "kubernetes/other=2")
	}, false},
	"the newest revision cannot be rendered": {"LimitExceeded", func(s *stage) {
		s.loadError = state.Failf(state.Stalled, "LimitExceeded", "base/kustomization.yaml:7: patches copy more than 128 KiB")
		s.commit("kubernetes/map=1", "kubernetes/other=2")
	}, false},
	"the source cannot be read": {"Failed", func(s *stage) { s.unread = errors.New("no route to host") }, false},
	"the branch was moved": {"NotFastForward", func(s *stage) {
		s.unread = &gitsource.NotFastForwardError{Branch: "main", From: here, To: there}
	}, true},
}

func (s *stage) heal() {
	s.problems, s.loadError, s.unread = nil, nil, nil
	s.commit("kubernetes/map=1", "kubernetes/other=2")
}

// What is held until it is confirmed stays so while a run cannot compute it, by the same token, and a person who
// quotes that has mistaken nothing.
func TestADeletionThatWaitsStaysPendingWhileNoRunCanComputeIt(t *testing.T) {
	for name, tt := range uncomputable {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restart), func(t *testing.T) {
				s, token := waitingStage(t)
				want := s.sync().Status.Pending
				tt.begin(s)
				if restart {
					s.restart()
				}
				stays := func(when string) {
					t.Helper()
					status := s.sync().Status
					if d := cmp.Diff(want, status.Pending); d != "" || status.PendingOmitted != 0 {
						t.Errorf("%s, %d omitted, pending (-want +got):\n%s", when, status.PendingOmitted, d)
					}
					requested := status.ConfirmationToken
					confirmed := when == "quoted" && !tt.move
					if !confirmed {
						requested = s.required(tt.reason)
					}
					if parts := confirm.Tokens(requested); parts[0] != token || len(parts) > 1 != tt.move {
						t.Errorf("%s: it asks for %s, before for %s", when, requested, token)
					}
					message := s.expectCondition("Ready", metav1.ConditionFalse, tt.reason)
					if !strings.Contains(message, "also waiting for a confirmation: deleting Thing/pool: 2 nodes go with it") ||
						tt.move && !strings.Contains(message, "2 nodes go with it (confirmation token "+token+")") {
						t.Errorf("%s: %s", when, message)
					}
					if strings.Contains(message, "; it is confirmed") != confirmed {
						t.Errorf("%s: confirmed %v: %s", when, confirmed, message)
					}
					if got := s.mismatch(); got != "" {
						t.Errorf("%s: %s", when, got)
					}
				}
				s.later()
				stays("at first")
				if !restart {
					s.drift(at("kubernetes", "map"))
					stays("after a look at one object")
				}
				s.confirm(token)
				s.later()
				stays("quoted")
				if s.cluster.live["pool"] == "" {
					t.Fatal("deleted by a run that deletes nothing")
				}
				s.heal()
				s.later()
				if status := s.sync().Status; s.cluster.live["pool"] != "" || len(status.Pending) > 0 || status.ConfirmationToken != "" {
					t.Errorf("cluster %v, pending %v, token %s", s.cluster.live, status.Pending, status.ConfirmationToken)
				}
				s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			})
		}
	}
}

// What the run itself found is listed beside what it keeps, and what it found of the same object
// in its place.
func TestWhatARunFindsIsPendingBesideWhatItKeeps(t *testing.T) {
	s, _ := waitingStage(t)
	s.problems = []state.Problem{{Message: "no such field"}}
	s.cluster.refused["map"] = "a webhook denied the request"
	s.commit("kubernetes/map=2", "kubernetes/other=1")
	s.later()
	if d := cmp.Diff([]string{"delete Thing/pool: deleting Thing/pool: 2 nodes go with it", "update Thing/map: a webhook denied the request"}, s.pending()); d != "" {
		t.Errorf("pending (-want +got):\n%s", d)
	}
	s.commit("kubernetes/map=1", "kubernetes/other=1", "kubernetes/pool=2")
	s.later()
	pending := s.sync().Status.Pending
	if d := cmp.Diff([]string{"update Thing/pool: updating Thing/pool: 2 nodes go with it"}, s.pending()); d != "" || s.sync().Status.ConfirmationToken != pending[0].ConfirmationToken {
		t.Errorf("token %q, pending (-want +got):\n%s", s.sync().Status.ConfirmationToken, d)
	}
}

// However many deletions are kept, and for however many runs, their number does not grow.
func TestWhatIsKeptIsCountedOnce(t *testing.T) {
	s := newStage(t, nil)
	var all []string
	for i := range 57 {
		all = append(all, fmt.Sprintf("kubernetes/a%02d=1", i))
	}
	s.commit(append(all, "kubernetes/map=1")...)
	s.reconcile()
	s.commit("kubernetes/map=1")
	s.later()
	s.required("PruneHeld")
	want := s.sync().Status
	s.problems = []state.Problem{{Message: "no such field"}}
	s.commit("kubernetes/map=2")
	for range 3 {
		s.later()
		if got := s.sync().Status; cmp.Diff(want.Pending, got.Pending) != "" || got.PendingOmitted != want.PendingOmitted || want.PendingOmitted != 37 {
			t.Errorf("%d listed, %d omitted; before %d and %d", len(got.Pending), got.PendingOmitted, len(want.Pending), want.PendingOmitted)
		}
	}
}

// What waited belongs to the source that it was computed from: nobody is to confirm it for another.
func TestWhatWaitedForAnotherSourceIsNotPending(t *testing.T) {
	path := func(sync *v1alpha1.Sync) { sync.Spec.Path, sync.Generation = "other", sync.Generation+1 }
	unread := func(s *stage) { s.unread = errors.New("no route to host") }
	for name, tt := range map[string]struct {
		edit    func(sync *v1alpha1.Sync)
		fails   func(s *stage)
		restart bool
		stays   bool
	}{
		"another path": {path, unread, false, false},
		"another repository": {func(sync *v1alpha1.Sync) {
			sync.Spec.Source.Git.URL, sync.Generation = "https://git.example/b.git", sync.Generation+1
		}, unread, false, false},
		"another path, while no controller runs": {path, unread, true, false},
		"another path, and the Sync cannot be set up": {path, func(s *stage) {
			s.r.Build = func(context.Context, *v1alpha1.Sync) (SyncRuntime, error) {
				return SyncRuntime{}, errors.New("the API server does not answer")
			}
		}, false, false},
		"another interval":                             {func(sync *v1alpha1.Sync) { sync.Generation++ }, unread, false, true},
		"the same spec, while no controller runs":      {func(*v1alpha1.Sync) {}, unread, true, true},
		"another interval, and nothing can be deleted": {func(sync *v1alpha1.Sync) { sync.Generation++ }, uncomputable["the newest revision has a problem"].begin, false, true},
		"another path, and nothing can be deleted":     {path, uncomputable["the newest revision has a problem"].begin, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, token := waitingStage(t)
			s.edit(tt.edit)
			tt.fails(s)
			if tt.restart {
				s.r.states.close()
				s.r.states = syncStates{notify: s.r.states.notify, timeout: s.r.states.timeout}
			}
			for range 2 {
				s.later()
				status := s.sync().Status
				if tt.stays && (len(status.Pending) != 1 || status.ConfirmationToken != token) || !tt.stays && (len(status.Pending) > 0 || status.ConfirmationToken != "") {
					t.Errorf("token %q, pending %v", status.ConfirmationToken, status.Pending)
				}
			}
		})
	}
}

// A new process that goes on with what an earlier one applied puts back drift alone: of updates that wait
// it knows no more than of deletions.
func TestARunThatOnlyPutsBackDriftKeepsAllThatWaits(t *testing.T) {
	in := confirm.Binding{UID: "u"}
	update, deletion, move := in.Token("nodes", 1), in.Token("deletions", 1)+"+1Node", in.Token("force-push", 1)
	earlier := v1alpha1.SyncStatus{ConfirmationToken: deletion + "," + move + "," + update, Pending: []v1alpha1.PendingChange{
		{Object: "A/a", Action: "update", ConfirmationToken: update}, {Object: "A/b", Action: "delete", ConfirmationToken: deletion},
		{Object: "A/c", Action: "delete"}, {Object: "A/d", Action: "delete", ConfirmationToken: deletion},
	}}
	found := func(object string) bool { return object == "A/d" }
	stale := reconciler.Result{SourceError: errors.New("x"), AttemptedRevision: "main@sha1:2"}
	resumed := stale
	resumed.OnlyDrift = true
	for name, tt := range map[string]struct {
		run     reconciliation
		last    pending.Computable
		objects string
		tokens  []string
	}{
		"resumed":                      {reconciliation{Result: resumed}, pending.Everything, "A/aA/bA/c", []string{deletion, update}},
		"stale":                        {reconciliation{Result: stale}, pending.Everything, "A/bA/c", []string{deletion}},
		"not read":                     {reconciliation{Result: reconciler.Result{SourceError: errors.New("x")}}, pending.Everything, "A/bA/c", []string{deletion, move}},
		"failed":                       {reconciliation{err: errors.New("x")}, pending.Everything, "A/aA/bA/c", []string{deletion, move, update}},
		"of some, after a stale one":   {reconciliation{kind: partial}, pending.NoDeletions, "A/bA/c", []string{deletion, move}},
		"of some, after a resumed one": {reconciliation{kind: partial}, pending.Nothing, "A/aA/bA/c", []string{deletion, move, update}},
		"of some, after a full one":    {reconciliation{kind: partial}, pending.Everything, "", []string{move}},
		"full":                         {reconciliation{}, pending.NoDeletions, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := pending.RetainedFrom(earlier, "", tt.run.computable(tt.last), tt.run.mayHaveMoved(), found, in)
			objects := ""
			for _, c := range got.Changes {
				objects += c.Object
			}
			if d := cmp.Diff(tt.tokens, got.Tokens); d != "" || objects != tt.objects {
				t.Errorf("kept %s, tokens (-want +got):\n%s", objects, d)
			}
			if used := pending.RetainedFrom(earlier, "", pending.Nothing, true, found, in.Use(deletion)); used.Changes[1].ConfirmationToken != "" || len(used.Tokens) != 2 {
				t.Errorf("a token that was used is kept: %v", used)
			}
		})
	}
}
