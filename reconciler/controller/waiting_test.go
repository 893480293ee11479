package controller

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/controller/pending"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state/confirm"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// doubleStage waits for two confirmations: of a rollout, and of a deletion with losses.
// It returns their tokens.
func doubleStage(t *testing.T) (s *stage, deletion, rollout string) {
	t.Helper()
	s = newStage(t, func(sync *v1alpha1.Sync) { sync.Spec.Guard.MaxNodesReplaced = new(int32(5)) })
	s.commit("kubernetes/np-gpu=1", "kubernetes/map=1", "aws/queue=1", "aws/role=1")
	s.reconcile()
	s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}}
	s.nodes = 14
	s.commit("kubernetes/np-gpu=2", "kubernetes/map=1", "aws/role=1")
	s.later()
	deletion, rollout, ok := strings.Cut(s.required("PruneHeld"), ",")
	if !ok || !strings.HasSuffix(deletion, "+3Node") {
		t.Fatalf("it asks for %s and %s", deletion, rollout)
	}
	return s, deletion, rollout
}

func (s *stage) mismatch() string {
	s.Helper()
	c := meta.FindStatusCondition(s.sync().Status.Conditions, "ConfirmationMismatch")
	if c == nil {
		return ""
	}
	if c.Status != metav1.ConditionTrue || c.Reason != "TokenNotPending" {
		s.Errorf("ConfirmationMismatch is %+v", c)
	}
	return c.Message
}

func TestAConfirmationThatFitsNothingIsReported(t *testing.T) {
	s := heldStage(t)
	fits := s.required("NodeReplacementHeld")
	if got := s.mismatch(); got != "" {
		t.Errorf("without a confirmation: %s", got)
	}
	s.takeEvents()
	s.confirm("000000000000")
	want := "poolwright.dev/confirm has 000000000000, which matches no pending change; what waits is confirmed by " + fits
	for range 3 {
		s.later()
		if d := cmp.Diff(want, s.mismatch()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	if d := cmp.Diff([]string{"Warning ConfirmationMismatch " + want}, s.takeEvents()); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	s.restart()
	s.later()
	if s.mismatch() != want {
		t.Errorf("after a restart: %s", s.mismatch())
	}
	s.edit(func(sync *v1alpha1.Sync) { sync.Annotations = nil })
	s.later()
	if got := s.mismatch(); got != "" {
		t.Errorf("the confirmation is removed: %s", got)
	}
	s.confirm("1111")
	s.later()
	s.confirm(fits)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if got := s.mismatch(); got != "" {
		t.Errorf("it fits: %s", got)
	}
}

// Each part is confirmed by its token, and all of it by the one that the message ends with.
func TestTheTokenAtTheEndConfirmsAllThatWaits(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	message := s.expectCondition("Ready", metav1.ConditionFalse, "PruneHeld")
	if want := "would replace 14 nodes; guard.maxNodesReplaced is 5 (confirmation token " + rollout + "); "; !strings.HasPrefix(message, want) || !strings.Contains(message, "3 nodes are not drained any more (confirmation token "+deletion+"); revision main@sha1:111 is not applied in full; confirm all of it with: ") {
		t.Errorf("message %q", message)
	}
	for _, row := range s.sync().Status.Pending {
		if strings.Contains(row.Reason, "confirm") || len(row.HeldBy) == 0 {
			t.Errorf("pending %+v", row)
		}
	}
	s.confirm(deletion + "," + rollout)
	s.later()
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if status := s.sync().Status; status.ConfirmationToken != "" || status.LastHandledConfirmationTokens == "" || s.aws.live["queue"] != "" || s.cluster.live["np-gpu"] != "2" {
		t.Errorf("it asks for %q, handled %q, cluster %v, aws %v", status.ConfirmationToken, status.LastHandledConfirmationTokens, s.cluster.live, s.aws.live)
	}
}

// A token serves once also where something else waits on, whose token stays the same.
func TestATokenIsUsedUpWhileSomethingElseWaits(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	s.confirm(rollout)
	s.later()
	if got := s.sync().Status.LastHandledConfirmationTokens; got != rollout || s.cluster.live["np-gpu"] != "2" || s.aws.live["queue"] != "1" {
		t.Fatalf("handled %q, cluster %v, aws %v", got, s.cluster.live, s.aws.live)
	}
	if left := s.required("PruneHeld"); left != deletion || s.mismatch() != "" {
		t.Errorf("it asks for %s, before for %s; %s", left, deletion, s.mismatch())
	}
	// The same change again asks again, though the annotation is still there.
	s.commit("kubernetes/np-gpu=1", "kubernetes/map=1", "aws/role=1")
	s.nodes = 1
	s.later()
	s.nodes = 14
	s.commit("kubernetes/np-gpu=2", "kubernetes/map=1", "aws/role=1")
	s.later()
	if s.cluster.live["np-gpu"] != "1" || !strings.Contains(s.required("PruneHeld"), ",") {
		t.Errorf("the token of before lets it go: cluster %v", s.cluster.live)
	}
	s.confirm(deletion + "," + rollout)
	s.later()
	if s.cluster.live["np-gpu"] != "1" || s.mismatch() != "" {
		t.Errorf("the token of before beside another: %q, cluster %v", s.mismatch(), s.cluster.live)
	}
	s.confirm(s.required("NodeReplacementHeld"))
	s.later()
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
}

// Who confirms reads which token is for what, and one that is mistyped beside another does
// not pass for a confirmation.
func TestAPartOfAConfirmationThatFitsNothingIsReported(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	rows := map[string]string{}
	for _, row := range s.sync().Status.Pending {
		rows[row.Object[strings.LastIndex(row.Object, "/")+1:]] = row.ConfirmationToken
	}
	if d := cmp.Diff(map[string]string{"np-gpu": rollout, "queue": deletion}, rows); d != "" {
		t.Errorf("tokens of what is pending (-want +got):\n%s", d)
	}
	wrong := "deletions-1-" + strings.Repeat("0", 40)
	for _, tt := range []struct{ name, quoted, want string }{
		{"beside one that fits", rollout + "," + wrong, wrong + ", which matches no pending change; what waits is confirmed by " + deletion},
		{"with what was used before", rollout + ", mistyped", "mistyped, which matches no pending change; what waits is confirmed by " + deletion},
		{"where nothing else waits", deletion + "," + wrong + ",", wrong + ", which matches no pending change; nothing waits for a confirmation any more"},
		{"none", deletion, ""},
	} {
		s.takeEvents()
		s.confirm(tt.quoted)
		for range 3 {
			s.later()
			if got := s.mismatch(); got != "" && got != "poolwright.dev/confirm has "+tt.want || got == "" && tt.want != "" {
				t.Errorf("%s: %q", tt.name, got)
			}
		}
		if events := strings.Join(s.takeEvents(), "\n"); strings.Count(events, "Warning ConfirmationMismatch poolwright.dev/confirm has ") != min(len(tt.want), 1) {
			t.Errorf("%s: events %s", tt.name, events)
		}
	}
	if status := s.sync().Status; s.cluster.live["np-gpu"] != "2" || s.aws.live["queue"] != "" || status.LastHandledConfirmationTokens != deletion+","+rollout {
		t.Errorf("the others count: cluster %v, aws %v, handled %s", s.cluster.live, s.aws.live, status.LastHandledConfirmationTokens)
	}
}

// Who quotes a token of before reads which takes its place, and need not find it among all.
func TestTheTokenOfTheSamePurposeIsNamedInThePlaceOfOneThatDoesNotFit(t *testing.T) {
	s, deletion, rollout := doubleStage(t)
	wrong := func(purpose string) string { return purpose + "-1-" + strings.Repeat("0", 40) }
	for name, c := range map[string]struct{ quoted, want string }{
		"a deletion":                           {wrong("deletions"), "what waits for the same purpose is confirmed by " + deletion},
		"nodes":                                {wrong("nodes"), "what waits for the same purpose is confirmed by " + rollout},
		"both":                                 {wrong("nodes") + "," + wrong("deletions"), "what waits is confirmed by " + deletion + "," + rollout},
		"a purpose that nothing waits for":     {wrong("force-push"), "what waits is confirmed by " + deletion + "," + rollout},
		"one that waits and one that does not": {wrong("nodes") + "," + wrong("force-push"), "what waits is confirmed by " + deletion + "," + rollout},
	} {
		s.confirm(c.quoted)
		s.later()
		if _, got, _ := strings.Cut(s.mismatch(), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A wrong token for what nobody asks is not used up in silence with one that fits.
func TestATokenForWhichNothingWaitsIsReported(t *testing.T) {
	s := heldStage(t)
	wrong := "force-push-1-" + strings.Repeat("0", 40)
	s.confirm(s.required("NodeReplacementHeld") + "," + wrong)
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if got := s.mismatch(); got != "poolwright.dev/confirm has "+wrong+", which matches no pending change; nothing waits for a confirmation any more" {
		t.Errorf("got %q", got)
	}
}

// The percentage guard holds all deletions, and each says what it takes along.
func TestEachRowHasAllItsReasons(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/a=1", "aws/queue=1")
	s.reconcile()
	s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}}
	s.commit()
	s.later()
	s.required("PruneHeld")
	got := map[string][]string{}
	for _, row := range s.sync().Status.Pending {
		got[row.Object[strings.LastIndex(row.Object, "/")+1:]] = row.HeldBy
	}
	want := map[string][]string{"a": {"MaxPrunePercent"}, "queue": {"MaxPrunePercent", "DeletionLosses"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rules (-want +got):\n%s", d)
	}
	message := s.expectCondition("Ready", metav1.ConditionFalse, "PruneHeld")
	if strings.Count(message, "would delete all 2 objects") != 1 || strings.Count(message, "3 nodes are not drained any more") != 1 {
		t.Errorf("message %q", message)
	}
}

// What a token has let pass and could not be made is left to a full run, also where
// something is observed of it by itself: only a full run knows when the token was used.
func TestWhatATokenLetPassIsTriedAgainByAFullRun(t *testing.T) {
	s := heldStage(t)
	token := s.required("NodeReplacementHeld")
	s.cluster.refused["np-gpu"] = "busy"
	s.confirm(token)
	s.reconcile()
	s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
	delete(s.cluster.refused, "np-gpu")
	s.drift(at("kubernetes", "np-gpu"))
	if got := s.sync().Status.LastHandledConfirmationTokens; s.cluster.live["np-gpu"] != "2" || got != token {
		t.Errorf("cluster %v, handled %q", s.cluster.live, got)
	}
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if got := s.sync().Status.LastHandledConfirmationTokens; got != token {
		t.Errorf("handled %q", got)
	}
}

// Where a branch was moved while something waits, one token is for both.
func TestAMoveAndWhatWaitsBesideItHaveOneToken(t *testing.T) {
	s := heldStage(t)
	rollout := s.required("NodeReplacementHeld")
	s.unread = &gitsource.NotFastForwardError{Branch: "main", From: here, To: there}
	s.later()
	move := syncpolicy.ForcePushToken(here, there).Encode(syncpolicy.Binding(s.sync()))
	if got := s.required("NotFastForward"); got != move+","+rollout {
		t.Errorf("it asks for %s, want %s,%s", got, move, rollout)
	}
	if message := s.expectCondition("Ready", metav1.ConditionFalse, "NotFastForward"); !strings.Contains(message, "; also waiting for a confirmation: would replace 14 nodes; ") {
		t.Errorf("message %q", message)
	}
}

func TestAnAcceptedMoveIsUsedUp(t *testing.T) {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{UID: "a"}, Status: v1alpha1.SyncStatus{LastAttemptedRevision: "main@sha1:" + here}}
	sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: syncpolicy.ForcePushToken(here, there).Encode(confirm.Binding{UID: "a"})}
	waits := apply.Result{Change: plan.Change{Hold: hold.Reasons{{Rule: hold.DeletionLosses, Token: &hold.Token{Purpose: "force-push"}}}}, Status: apply.Held}
	for to, want := range map[string]bool{there: true, here: false, strings.Repeat("3", 40): false} {
		d := reconciliation{Result: reconciler.Result{Revision: "main@sha1:" + to}}
		d.Outcome.Results = []apply.Result{waits}
		if got := d.use(sync, nil).binding.Handled; (got != "") != want {
			t.Errorf("followed to %s: handled %q", to, got)
		}
	}
}

// Hundreds of reasons, or long ones, do not cut the token off.
func TestTheTokenIsAtTheEndOfAnyMessage(t *testing.T) {
	var left []pendingChange
	for i := range 300 {
		left = append(left, pendingChange{waits: pruneHeld, held: hold.Reasons{{
			Rule: hold.DeletionLosses, Facts: hold.Facts{Object: fmt.Sprint("NodePool/", i), Detail: strings.Repeat("x", 9000)}, Token: &hold.Token{Purpose: "deletions", Digest: "1"},
		}}})
	}
	v := runResult{drift: driftState{pendingChanges: left}}
	v.wait("r")
	v.requireConfirmation(&v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev"}}, reconciliation{})
	token := hold.Join(v.required.tokens, confirm.Binding{})
	if len(v.message) > pending.MessageLimit || !strings.HasSuffix(v.message, "; confirm"+withToken+token) || strings.Contains(token, ",") {
		t.Errorf("%d bytes, the end %q", len(v.message), v.message[len(v.message)-100:])
	}
}

// A status that could not be written does not keep a used token alive.
func TestATokenIsUsedUpThoughTheStatusCouldNotBeWritten(t *testing.T) {
	s, _, rollout := doubleStage(t)
	s.confirm(rollout)
	s.killedAfter(1, func() { s.later() }) // The first reports that it begins.
	if got := s.sync().Status.LastHandledConfirmationTokens; got != "" || s.cluster.live["np-gpu"] != "2" {
		t.Fatalf("handled %q, cluster %v", got, s.cluster.live)
	}
	s.later()
	if got := s.sync().Status.LastHandledConfirmationTokens; got != rollout {
		t.Errorf("handled %q, want %q", got, rollout)
	}
}

// losingStage has two things with whose update something is lost, and whose update is yet to come.
func losingStage(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.commit("kubernetes/map=1", "kubernetes/thing=1", "kubernetes/other=1", "aws/queue=1")
	s.reconcile()
	for _, name := range []string{"thing", "other"} {
		s.cluster.removals[name] = loss.DeletionImpact{Impact: "the engine stops", Losses: loss.Counts{"NodeClaim": 3}}
	}
	return s
}

// A token for one of two updates that wait does not fit both, also where one is read by itself.
func TestARunOfOneUpdateUsesNoTokenForItAlone(t *testing.T) {
	s := losingStage(t)
	s.commit("kubernetes/map=1", "kubernetes/thing=2", "kubernetes/other=1", "aws/queue=1")
	s.later()
	alone := s.required("PruneHeld")
	s.commit("kubernetes/map=1", "kubernetes/thing=2", "kubernetes/other=2", "aws/queue=1")
	s.confirm(alone)
	s.later()
	if both := s.required("PruneHeld"); both == alone || s.cluster.live["thing"] != "1" {
		t.Fatalf("it asks for %s, before for %s; cluster %v", both, alone, s.cluster.live)
	}
	s.drift(at("kubernetes", "thing"))
	if s.cluster.live["thing"] != "1" {
		t.Errorf("it was updated with a token that does not fit: cluster %v", s.cluster.live)
	}
}

// What waits together has one token, also after one of them was read by itself.
func TestARunOfOneUpdateKeepsTheTokenOfAllThatWaits(t *testing.T) {
	s := losingStage(t)
	s.commit("kubernetes/map=1", "kubernetes/thing=2", "aws/queue=1")
	s.later()
	token := s.required("PruneHeld")
	s.drift(at("kubernetes", "thing"))
	if got := s.required("PruneHeld"); got != token {
		t.Errorf("after a look it asks for %s, before for %s", got, token)
	}
	s.confirm(token)
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if _, left := s.cluster.live["other"]; left || s.cluster.live["thing"] != "2" {
		t.Errorf("cluster %v", s.cluster.live)
	}
}

// A list of twenty by name would leave out the one deletion that a person must know of.
func TestWhatLosesTheMostIsPendingFirst(t *testing.T) {
	s := newStage(t, nil)
	things := []string{"kubernetes/kept=1"}
	for i := range 30 {
		things = append(things, fmt.Sprintf("kubernetes/a%02d=1", i))
	}
	s.commit(append(things, "kubernetes/z-few=1", "kubernetes/z-none=1", "aws/z-many=1")...)
	s.reconcile()
	s.cluster.removals["z-few"] = loss.DeletionImpact{Impact: "1 node goes with it", Losses: loss.Counts{"Node": 1}}
	s.aws.removals["z-many"] = loss.DeletionImpact{Impact: "they go with it", Losses: loss.Counts{"Node": 3, "Pod": 7}}
	s.commit("kubernetes/kept=1")
	s.later()
	status := s.sync().Status
	var names []string
	for _, row := range status.Pending {
		names = append(names, row.Object)
	}
	want := []string{"aws Thing.sqs/z-many", "Thing/z-few"}
	for i := range 18 {
		want = append(want, fmt.Sprintf("Thing/a%02d", i))
	}
	if d := cmp.Diff(want, names); d != "" || status.PendingOmitted != 13 {
		t.Errorf("%d omitted; pending (-want +got):\n%s", status.PendingOmitted, d)
	}
	s.commit(append(things, "kubernetes/z-few=1", "kubernetes/z-none=1", "aws/z-many=1")...)
	s.later()
	if status := s.sync().Status; len(status.Pending) > 0 || status.PendingOmitted != 0 {
		t.Errorf("%d omitted, pending %v", status.PendingOmitted, status.Pending)
	}
}

// A token that began to let something pass is good for one time also where it is taken back in between.
func TestATokenThatWasTakenBackIsNotGoodAgain(t *testing.T) {
	s, token := waitingStage(t)
	s.cluster.refused["pool"] = "a webhook denied the request"
	s.confirm(token)
	s.later()
	if got := s.sync().Status.LastAttemptedConfirmationTokens; got != token || s.cluster.live["pool"] == "" {
		t.Fatalf("attempted %q, cluster %v", got, s.cluster.live)
	}
	s.confirm("")
	delete(s.cluster.refused, "pool")
	s.commit("kubernetes/pool=1", "kubernetes/map=1", "kubernetes/other=1")
	s.later()
	if got := s.sync().Status; got.LastHandledConfirmationTokens != token || got.LastAttemptedConfirmationTokens != "" {
		t.Errorf("handled %q, attempted %q", got.LastHandledConfirmationTokens, got.LastAttemptedConfirmationTokens)
	}
	s.commit("kubernetes/map=1", "kubernetes/other=1")
	s.later()
	if again := s.required("PruneHeld"); again == token {
		t.Errorf("it asks for %s again", again)
	}
	s.confirm(token)
	s.later()
	if s.cluster.live["pool"] == "" {
		t.Error("deleted by a token that was used")
	}
}

// Autoscaling changes what goes with a deletion, and with that the losses in its token: that is no other failure.
func TestAFailureIsNotReportedAgainWhenTheLossesOfWhatWaitsBesideItChange(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/map=1", "aws/queue=1", "aws/role=1")
	s.reconcile()
	lost := func(nodes int) {
		s.aws.removals["queue"] = loss.DeletionImpact{Impact: fmt.Sprintf("%d nodes are not drained any more", nodes), Losses: loss.Counts{"Node": nodes}}
	}
	lost(3)
	s.cluster.refused["map"] = "busy"
	s.takeEvents()
	s.commit("kubernetes/map=2", "aws/role=1")
	s.later()
	before := s.sync().Status.ConfirmationToken
	if events := s.takeEvents(); len(events) == 0 || !strings.HasSuffix(before, "+3Node") {
		t.Fatalf("it asks for %s, with the events %v", before, events)
	}
	lost(4)
	s.later()
	if after, events := s.sync().Status.ConfirmationToken, s.takeEvents(); len(events) > 0 || !strings.HasSuffix(after, "+4Node") {
		t.Errorf("it asks for %s, with the events %v", after, events)
	}
}
