package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/plan/hold"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/state/loss"
	"github.com/poolwright/poolwright/reconciler/syncpolicy"
)

// stageWithLosses has a queue with whose deletion something is lost.
func stageWithLosses(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, nil)
	s.commit("kubernetes/map=1", "aws/queue=1")
	s.reconcile()
	s.aws.removals["queue"] = loss.DeletionImpact{Impact: "3 nodes are not drained any more", Losses: loss.Counts{"Node": 3}}
	s.commit("kubernetes/map=1")
	s.later()
	return s
}

// The annotation stays where it is, and what has the same name in AWS has the same
// identity when it is made anew.
func TestATokenConfirmsOnce(t *testing.T) {
	for name, between := range map[string]func(*stage){
		"deleted, and made anew": func(s *stage) {
			s.reconcile()
			if len(s.aws.live) > 0 {
				s.Fatalf("not deleted: %v", s.aws.live)
			}
			s.commit("kubernetes/map=1", "aws/queue=1")
			s.later()
		},
		"taken back before it was deleted": func(s *stage) {
			s.commit("kubernetes/map=1", "aws/queue=1")
			s.later()
		},
		"taken back while the controller is away": func(s *stage) {
			s.restart()
			s.commit("kubernetes/map=1", "aws/queue=1")
			s.reconcile()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stageWithLosses(t)
			token := s.required("PruneHeld")
			s.confirm(token)
			between(s)
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if got := s.sync().Status.LastHandledConfirmationTokens; got != token {
				t.Fatalf("handled %q, want %q", got, token)
			}
			s.commit("kubernetes/map=1")
			s.later()
			again := s.required("PruneHeld")
			if again == token || s.aws.live["queue"] != "1" {
				t.Fatalf("the token of before lets it go: aws %v", s.aws.live)
			}
			s.restart()
			s.later()
			if s.aws.live["queue"] != "1" {
				t.Fatal("after a restart the token of before lets it go")
			}
			s.confirm(again)
			s.reconcile()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if len(s.aws.live) > 0 {
				t.Errorf("the new token confirms nothing: aws %v", s.aws.live)
			}
		})
	}
}

// What a token has let pass and is not done yet goes on with it.
func TestATokenServesUntilAllIsDone(t *testing.T) {
	s := stageWithLosses(t)
	token := s.required("PruneHeld")
	s.aws.refused["queue"] = "busy"
	s.confirm(token)
	for range 3 {
		s.later()
		s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
		if got := s.sync().Status.LastHandledConfirmationTokens; got != "" {
			t.Fatalf("handled %q while the deletion is refused", got)
		}
	}
	delete(s.aws.refused, "queue")
	s.later()
	s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
	if got := s.sync().Status.LastHandledConfirmationTokens; got != token || len(s.aws.live) > 0 {
		t.Errorf("handled %q, aws %v", got, s.aws.live)
	}
}

func TestWhenAConfirmationHasServed(t *testing.T) {
	x := hold.Token{Purpose: "nodes", Digest: "1"}
	change := func(edit func(*apply.Result)) reconciliation {
		r := apply.Result{Change: plan.Change{Action: plan.Update, Tokens: []hold.Token{x}}, Status: apply.Applied}
		edit(&r)
		d := reconciliation{}
		d.Outcome.Results = []apply.Result{r}
		return d
	}
	with := func(edit func(*reconciliation)) reconciliation {
		d := change(func(*apply.Result) {})
		edit(&d)
		return d
	}
	waits := apply.Result{Change: plan.Change{Hold: hold.Reasons{{Rule: hold.SyncChangeHeld, Token: &x}}}, Status: apply.Held}
	for name, tt := range map[string]struct {
		done reconciliation
		want bool
	}{
		"nothing was to do":     {reconciliation{}, true},
		"it is applied":         {with(func(*reconciliation) {}), true},
		"it failed":             {change(func(r *apply.Result) { r.Status = apply.Failed }), false},
		"it was not attempted":  {change(func(r *apply.Result) { r.Status = apply.NotAttempted }), false},
		"another change failed": {change(func(r *apply.Result) { r.Status, r.Change.Tokens = apply.Failed, nil }), true},
		"another change requires a token": {change(func(r *apply.Result) {
			r.Change = plan.Change{Hold: hold.Reasons{{Rule: hold.SyncChangeHeld, Token: &x}}}
		}), false},
		"another change is held by no guard":                 {change(func(r *apply.Result) { r.Change = plan.Change{Hold: hold.Reasons{{Rule: hold.DriftReported}}} }), true},
		"only some things were observed":                     {with(func(d *reconciliation) { d.kind = partial }), false},
		"the source could not be read":                       {with(func(d *reconciliation) { d.SourceError = errors.New("unreachable") }), true},
		"and it was not used":                                {reconciliation{Result: reconciler.Result{SourceError: errors.New("unreachable")}}, false},
		"the repository has problems":                        {with(func(d *reconciliation) { d.Problems = []state.Problem{{}} }), true},
		"and it was not used for them":                       {reconciliation{Result: reconciler.Result{Problems: []state.Problem{{}}}}, false},
		"it is unknown whether more is to go":                {reconciliation{Result: reconciler.Result{Plan: plan.Plan{Unknown: []plan.Unknown{{Ours: true}}}}}, false},
		"it is applied, and another change requires a token": {with(func(d *reconciliation) { d.Outcome.Results = append(d.Outcome.Results, waits) }), true},
		"something that is declared is not observed":         {with(func(d *reconciliation) { d.Plan.Unknown = []plan.Unknown{{Origin: state.Origin{File: "a"}}} }), true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.Sync{}
			sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: x.Encode(syncpolicy.Binding(sync))}
			if got := tt.done.use(sync, nil).binding.Handled; (got != "") != tt.want {
				t.Errorf("handled: %q", got)
			}
		})
	}
}

// A person confirms a greater number once, and in an incident sets 0 by hand.
func TestATokenRelaxesNothingThatAHandMadeStricterSince(t *testing.T) {
	spec := func(percent int64) map[string]any {
		return map[string]any{"spec": map[string]any{"guard": map[string]any{"maxPrunePercent": percent}}}
	}
	key := state.Key{Target: "kubernetes", Group: "poolwright.dev", Kind: "Sync", Name: "dev"}
	compute := func(sync *v1alpha1.Sync, live int64) plan.Change {
		before := state.Item{Key: key, Object: spec(live), Live: state.Preconditions{UID: "u"}, Applied: state.Hash(spec(90))}
		return plan.Compute(state.NewSet(state.Item{Key: key, Object: spec(90)}), state.NewSet(before), syncpolicy.ForRun(sync, time.Time{})...).Changes[0]
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{UID: "a"}}
	token := hold.Join(compute(sync, 50).Hold.Tokens(), syncpolicy.Binding(sync))
	sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: token}
	if c := compute(sync, 50); c.Held() {
		t.Fatalf("confirmed, it waits: %s", c.Hold)
	}
	if c := compute(sync, 0); !c.Drift || !c.RelaxesSync() {
		t.Errorf("what a hand made stricter is relaxed without confirmation: %+v", c)
	}
	sync.Status.LastHandledConfirmationTokens = token
	if c := compute(sync, 50); !c.RelaxesSync() {
		t.Error("set to what it was before, it is relaxed by a token that has served")
	}
}

// Between the look at the targets and the first deletion minutes can go by.
// An update that loses nodes is as final as a deletion: what was confirmed for it may have
// been revoked while other changes were made.
func TestNothingIsLostByAnUpdateForASyncThatWasChangedSinceTheRunBegan(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.Sync){
		"suspended":                func(s *v1alpha1.Sync) { s.Spec.Suspend, s.Generation = true, 2 },
		"its confirmation revoked": func(s *v1alpha1.Sync) { s.Annotations = nil },
		"as it was":                nil,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/map=1", "kubernetes/thing=1", "aws/queue=1")
			s.reconcile()
			s.cluster.removals["thing"] = loss.DeletionImpact{Impact: "the engine stops", Losses: loss.Counts{"NodeClaim": 3}}
			s.commit("kubernetes/map=2", "kubernetes/thing=2", "aws/queue=2")
			s.later()
			s.confirm(s.required("PruneHeld"))
			s.commit("kubernetes/map=3", "kubernetes/thing=2", "aws/queue=3")
			s.aws.meanwhile = func() {
				if edit != nil {
					s.edit(edit)
				}
				s.aws.meanwhile = nil
			}
			s.later()
			if made := s.cluster.live["thing"] == "2"; made != (edit == nil) || s.aws.live["queue"] != "3" {
				t.Errorf("cluster %v, aws %v", s.cluster.live, s.aws.live)
			}
		})
	}
}

func TestNothingIsDeletedForASyncThatWasChangedSinceTheRunBegan(t *testing.T) {
	for name, edit := range map[string]func(*v1alpha1.Sync){
		"suspended":                 func(s *v1alpha1.Sync) { s.Spec.Suspend, s.Generation = true, 2 },
		"declared to prune nothing": func(s *v1alpha1.Sync) { s.Spec.Prune, s.Generation = new(false), 2 },
		"given a stricter guard":    func(s *v1alpha1.Sync) { s.Spec.Guard.MaxPrunePercent, s.Generation = new(int32(0)), 2 },
		"its confirmation revoked":  func(s *v1alpha1.Sync) { s.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, func(sync *v1alpha1.Sync) { sync.Annotations = map[string]string{v1alpha1.ConfirmAnnotation: "x"} })
			s.commit("kubernetes/map=1", "kubernetes/old=1", "kubernetes/stays=1")
			s.reconcile()
			s.cluster.meanwhile = func() { s.edit(edit); s.cluster.meanwhile = nil }
			s.commit("kubernetes/map=2", "kubernetes/stays=1")
			s.later()
			if s.cluster.live["map"] != "2" || s.cluster.live["old"] != "1" {
				t.Errorf("cluster %v", s.cluster.live)
			}
			s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
		})
	}
}

// While the nodes of a removed pool go, what would run on without the engine changes, and there may be
// nothing of it for a moment: who confirmed that the engine stops is not asked again.
func TestTheEngineStopsByOneTokenWhateverTheNodesOfARemovedPoolDo(t *testing.T) {
	unmanaged := func(claims int) loss.DeletionImpact {
		return loss.DeletionImpact{Impact: "the engine stops", Losses: loss.Counts{"Engine": 1, "NodeClaim": claims}, AfterNodes: true, EndsEngine: true}
	}
	for name, meanwhile := range map[string]func(*stage){
		"as one process":                func(*stage) {},
		"with a restart while nodes go": (*stage).restart,
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/np-a=1", "kubernetes/np-b=1", "kubernetes/engine=on")
			s.reconcile()
			s.cluster.removals["np-a"] = loss.DeletionImpact{Impact: "3 nodes go with it", Losses: loss.Counts{"Node": 3}}
			s.cluster.removals["engine"] = unmanaged(5)
			s.commit("kubernetes/np-b=1", "kubernetes/engine=off")
			s.later()
			token := s.required("PruneHeld")
			parts := strings.Split(token, ",")
			if len(parts) != 2 || !strings.HasPrefix(parts[0], "deletions-1-") || !strings.HasPrefix(parts[1], "engine-1-") {
				t.Fatalf("it asks for %s", token)
			}
			s.confirm(token)
			s.cluster.refused["engine"] = "nodes are awaited"
			s.later()
			if _, there := s.cluster.live["np-a"]; there {
				t.Fatal("the pool stays")
			}
			s.cluster.removals["engine"] = loss.DeletionImpact{AfterNodes: true, EndsEngine: true}
			meanwhile(s)
			s.later()
			s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
			s.cluster.removals["engine"] = unmanaged(4)
			s.later()
			s.expectCondition("Ready", metav1.ConditionFalse, "ApplyFailed")
			delete(s.cluster.refused, "engine")
			s.later()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if got := s.sync().Status.LastHandledConfirmationTokens; s.cluster.live["engine"] == "on" || got != strings.Replace(token, "+5NodeClaim", "+4NodeClaim", 1) {
				t.Errorf("it is %s, and %s is used up", s.cluster.live["engine"], got)
			}
			delete(s.cluster.removals, "engine")
			s.commit("kubernetes/np-b=1", "kubernetes/engine=on")
			s.later()
			s.cluster.removals["engine"] = unmanaged(4)
			s.commit("kubernetes/np-b=1", "kubernetes/engine=off")
			s.later()
			if again := s.required("PruneHeld"); !strings.HasPrefix(again, "engine-2-") || s.cluster.live["engine"] != "on" {
				t.Errorf("the second time it asks for %s, and it is %s", again, s.cluster.live["engine"])
			}
		})
	}
}

// A token for the engine that was quoted where nothing ends it lets nothing pass later.
func TestATokenForTheEngineIsUsedUpWhereTheEngineStays(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/engine=on")
	s.reconcile()
	s.cluster.removals["engine"] = loss.DeletionImpact{Impact: "the engine stops", Losses: loss.Counts{"Engine": 1, "NodeClaim": 5}, AfterNodes: true, EndsEngine: true}
	s.commit("kubernetes/engine=off")
	s.later()
	token := s.required("PruneHeld")
	s.commit("kubernetes/engine=on")
	s.later()
	s.confirm(token)
	s.restart() // Which compares everything.
	s.later()
	s.commit("kubernetes/engine=off")
	s.later()
	if again := s.required("PruneHeld"); !strings.HasPrefix(again, "engine-2-") || s.cluster.live["engine"] != "on" {
		t.Errorf("it asks for %s, and it is %s", again, s.cluster.live["engine"])
	}
}

// What ends the engine is confirmed once, also where nothing would run on without it any more as
// soon as the pool that goes before it is deleted, and where only permissions are taken.
func TestWhatEndsTheEngineIsConfirmedOnceBesideAPool(t *testing.T) {
	permissions := loss.DeletionImpact{Impact: "the controller loses permissions", AfterNodes: true, EndsEngine: true}
	for name, tt := range map[string]struct{ before, after loss.DeletionImpact }{
		"the controller would run no pod": {
			loss.DeletionImpact{Impact: "it would run no pod, and the engine stops", Losses: loss.Counts{"Object": 1, "Engine": 1, "NodeClaim": 3}, AfterNodes: true, EndsEngine: true},
			loss.DeletionImpact{Impact: "it would run no pod", AfterNodes: true, EndsEngine: true},
		},
		"a role grants less": {permissions, permissions},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nil)
			s.commit("kubernetes/np-a=1", "kubernetes/np-b=1", "kubernetes/part=2")
			s.reconcile()
			s.cluster.removals["np-a"] = loss.DeletionImpact{Impact: "3 nodes go with it", Losses: loss.Counts{"Node": 3}}
			s.cluster.removals["part"] = tt.before
			s.commit("kubernetes/np-b=1", "kubernetes/part=0")
			s.later()
			token := s.required("PruneHeld")
			s.cluster.refused["part"] = "nodes are awaited"
			s.confirm(token)
			s.later()
			s.cluster.removals["part"] = tt.after
			s.later()
			if again := s.sync().Status.ConfirmationToken; again != "" || s.cluster.live["np-a"] != "" {
				t.Fatalf("after %s it asks again for %q: %v", token, again, s.cluster.live)
			}
			delete(s.cluster.refused, "part")
			s.later()
			s.expectCondition("Ready", metav1.ConditionTrue, "ReconciliationSucceeded")
			if s.cluster.live["part"] != "0" {
				t.Errorf("it was not made: %v", s.cluster.live)
			}
		})
	}
}

// The response to the write of the status has what was changed in the Sync during the run, and that was not run.
func TestWhatIsChangedInASyncDuringARunIsRunAfterIt(t *testing.T) {
	s := newStage(t, nil)
	s.commit("kubernetes/map=1")
	s.reconcile()
	s.later()
	changed := false
	s.intercept(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, api client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
		if !changed {
			changed = true
			var live v1alpha1.Sync
			if err := api.Get(ctx, client.ObjectKeyFromObject(object), &live); err != nil {
				return err
			}
			live.Generation++
			if err := api.Update(ctx, &live); err != nil {
				return err
			}
		}
		return api.SubResource(subresource).Patch(ctx, object, patch, options...)
	}})
	s.commit("kubernetes/map=2")
	s.later()
	compared := s.cluster.fullComparisons
	s.reconcile()
	if n := s.cluster.fullComparisons - compared; !changed || n != 1 {
		t.Errorf("changed %t, and everything was compared %d times after that", changed, n)
	}
}
