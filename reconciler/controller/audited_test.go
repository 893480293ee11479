package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/state/loss"
)

// confirmedEvents are those that say what a confirmation let pass.
func (s *stage) confirmedEvents() []string {
	var out []string
	for _, event := range s.takeEvents() {
		if text, ok := strings.CutPrefix(event, "Normal Confirmed "); ok {
			out = append(out, text)
		}
	}
	return out
}

// The status moves on, and the annotation is overwritten by the next confirmation.
func TestWhatAConfirmationLetPassIsAnEvent(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	s.aws.refused["queue"] = "busy"
	s.confirm(deletion + "," + rollout)
	s.later()
	s.later()
	if d := cmp.Diff([]string{rollout + " let pass 1 update at revision main@sha1:111: NodePool.karpenter.sh/np-gpu"}, s.confirmedEvents()); d != "" {
		t.Errorf("while the deletion is refused (-want +got):\n%s", d)
	}
	delete(s.aws.refused, "queue")
	s.later()
	s.later()
	if d := cmp.Diff([]string{deletion + " let pass 1 deletion at revision main@sha1:111: aws Thing.sqs/queue"}, s.confirmedEvents()); d != "" {
		t.Errorf("then (-want +got):\n%s", d)
	}
}

func TestTheEventOnAConfirmationIsBounded(t *testing.T) {
	s := newStage(t, nil)
	var things []string
	for i := range 30 {
		things = append(things, fmt.Sprintf("kubernetes/%02d%s=1", i, strings.Repeat("x", 240)))
	}
	s.commit(append(things, "kubernetes/kept=1")...)
	s.reconcile()
	s.commit("kubernetes/kept=2")
	s.later()
	refused := things[0][len("kubernetes/"):strings.Index(things[0], "=")]
	s.cluster.refused[refused] = "busy"
	s.confirm(s.required("PruneHeld"))
	s.later()
	events := s.confirmedEvents()
	if len(events) != 1 || len(events[0]) > 1024 || !strings.Contains(events[0], " let pass 29 deletions at revision main@sha1:111: Thing/01x") || !strings.HasSuffix(events[0], "… and 24 more; 1 change not made yet") {
		t.Errorf("events %q", events)
	}
}

func TestAConfirmedMoveIsAnEvent(t *testing.T) {
	s := newStage(t, nil)
	s.revision = "main@sha1:" + here
	s.commit("kubernetes/map=1")
	s.revision = "main@sha1:" + here
	s.reconcile()
	s.unread = &gitsource.NotFastForwardError{Branch: "main", From: here, To: there}
	s.later()
	token := s.required("NotFastForward")
	s.confirm(token)
	s.unread, s.revision = nil, "main@sha1:"+there
	s.later()
	s.later()
	if d := cmp.Diff([]string{token + " let the branch move from " + here + " to " + there}, s.confirmedEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestWhatADeletedSyncTakesAlongByAConfirmationIsAnEvent(t *testing.T) {
	s := newStage(t, func(sync *v1alpha1.Sync) { deleting(sync); sync.Finalizers = []string{v1alpha1.Finalizer} })
	s.commit("aws/queue=1", "kubernetes/pool=1")
	s.leave()
	s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}}
	s.reconcile()
	token := s.required("PruneHeld")
	s.confirm(token)
	s.reconcile()
	if d := cmp.Diff([]string{token + " let pass 1 deletion at revision main@sha1:11: aws Thing.sqs/queue"}, s.confirmedEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
