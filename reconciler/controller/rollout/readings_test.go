package rollout

import (
	"context"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/apply"
	"github.com/poolwright/poolwright/reconciler/plan"
)

// older are nodes of the Sync that were made before anything of a test, and of which none is to be replaced.
func older(r *reading) nodeReplacements {
	return nodeReplacements{pools: map[string]string{"gpu": "dev"}, oldest: map[string]time.Time{"gpu": r.clock.Now().Add(-time.Hour)}}
}

// What is changed, or not ready, between the two readings may have Karpenter mark a node after the first one: that one does not count.
func TestTheWindowOfTheTwoReadingsBeginsAnew(t *testing.T) {
	for name, test := range map[string]struct {
		during func(*reading, *v1alpha1.Sync)
		// notified are the Syncs whose condition was another before the second reading.
		notified []string
	}{
		"after a change":                 {func(r *reading, s *v1alpha1.Sync) { r.Applied(s, changed("EC2NodeClass", false, apply.Applied)) }, []string{"dev"}},
		"after drift that was corrected": {func(r *reading, s *v1alpha1.Sync) { r.Applied(s, changed("NodePool", true, apply.Applied)) }, nil},
		"after it was not ready":         {unreadyBetween, []string{"dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading()
			r.found = older(r)
			s := sync()
			r.SetCondition(s, s)
			r.expect(t, stabilizationWindow, "dev")
			r.SetCondition(s, s)
			r.clock.Step(30 * time.Second)
			test.during(r, s)
			// More than the window after the first reading, and less than that after what happened.
			r.clock.Step(31 * time.Second)
			r.expect(t, stabilizationWindow, test.notified...)
			r.clock.Step(stabilizationWindow)
			r.expect(t, 0, "dev")
		})
	}
}

// unreadyBetween has a Sync not ready, and ready again.
func unreadyBetween(r *reading, s *v1alpha1.Sync) {
	unready := s.DeepCopy()
	ready("False", "SourceUnavailable")(unready)
	r.SetCondition(s, unready)
	again := unready.DeepCopy()
	ready("True", "ReconciliationSucceeded")(again)
	r.SetCondition(unready, again)
}

func TestWhatWasReadBeforeDriftWasCorrectedDoesNotCount(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.during = func() { r.Applied(s, changed("NodePool", true, apply.Applied)) }
	r.expect(t, pollInterval)
	r.during = nil
	r.expect(t, 0, "dev")
}

func TestTheClassThatAnotherSyncDeletesChangesNoOwner(t *testing.T) {
	r := newReading()
	s, other := sync(), sync(func(s *v1alpha1.Sync) { s.Name = "prod" })
	results := changed("EC2NodeClass", false, apply.Applied)
	results[0].Change.Action = plan.Delete
	r.Applied(other, results)
	r.SetCondition(s, s)
	r.found = nodeReplacements{nodes: []provision.Node{{Pool: "gpu", Name: "a", Reason: "NodePoolRemoved"}}}
	r.expect(t, pollInterval, "dev", "prod")
	r.SetCondition(s, s)
	if got := written(s); got != "False RollingOut Revision main@sha1:1: nodes are to be replaced; to list them, run: poolwright get nodes" {
		t.Errorf("the condition is %s", got)
	}
}

func TestARestartWithinTheWindowBeginsItAnew(t *testing.T) {
	before := newReading()
	s := sync()
	before.SetCondition(s, s)
	before.found = older(before)
	before.expect(t, stabilizationWindow, "dev")
	before.SetCondition(s, s)
	r := newReading()
	r.clock.Step(61 * time.Second)
	r.SetCondition(s, s)
	if got := written(s); got != "Unknown Progressing Revision main@sha1:1: the nodes are not read yet" {
		t.Errorf("the condition is %s", got)
	}
	r.found = older(r)
	r.expect(t, stabilizationWindow, "dev")
	r.clock.Step(stabilizationWindow)
	r.expect(t, 0, "dev")
}

// A new process keeps the condition that nodes have led to until it has read them, and reads them.
func TestARestartKeepsWhatNodesHaveLedTo(t *testing.T) {
	for status, reasons := range map[metav1.ConditionStatus][]string{metav1.ConditionFalse: {rollingOut, disruptionBlocked}, metav1.ConditionUnknown: {partlyUnknown, noCluster}} {
		for _, reason := range reasons {
			t.Run(reason, func(t *testing.T) {
				r := newReading()
				s := sync(with(status, reason, "Revision main@sha1:1: why"))
				r.SetCondition(s, s)
				if got, want := written(s), string(status)+" "+reason+" Revision main@sha1:1: why"; got != want {
					t.Errorf("the condition is %s, want %s", got, want)
				}
				r.found = older(r)
				r.expect(t, stabilizationWindow, "dev")
			})
		}
	}
}

// Each run of a Sync may request a reading, of which each lists all nodes and pods.
func TestASecondRequestWaitsForTheIntervalOfReadings(t *testing.T) {
	r := newReading()
	read, ended := make(chan struct{}), make(chan struct{})
	r.read = func(context.Context) (nodeReplacements, error) {
		read <- struct{}{}
		return nodeReplacements{}, nil
	}
	r.notify = func(types.NamespacedName) { ended <- struct{}{} }
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- r.Start(ctx) }()
	step := func(d time.Duration) {
		t.Helper()
		for !r.clock.HasWaiters() {
			<-time.After(time.Millisecond)
		}
		r.clock.Step(d)
	}
	s := sync()
	r.SetCondition(s, s)
	step(batchDelay)
	<-read
	<-ended
	r.Applied(s, changed("NodePool", false, apply.Applied))
	step(pollInterval - time.Millisecond)
	if !r.clock.HasWaiters() {
		t.Error("the second reading does not wait for the interval")
	}
	r.clock.Step(time.Millisecond)
	<-read
	<-ended
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// The controller calls Due while nodes are read, too.
func TestDueChangesNothing(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Sync){
		"a newer revision whose condition is not written yet": func(s *v1alpha1.Sync) { s.Generation, s.Status.ObservedGeneration = 3, 3 },
		"a Sync that is not ready":                            ready("False", "BuildFailed"),
		"a Sync that is suspended":                            func(s *v1alpha1.Sync) { s.Spec.Suspend = true },
		"a Sync that is being deleted":                        func(s *v1alpha1.Sync) { s.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading()
			r.found = drifting
			s := sync()
			r.SetCondition(s, s)
			begun := r.begin()
			updated := s.DeepCopy()
			change(updated)
			for range 2 {
				if !r.Due(updated) {
					t.Error("the condition is not due")
				}
			}
			if notified, next := r.end(begun, drifting, nil); len(notified) != 1 || next != pollInterval {
				t.Errorf("what was read does not count: %v, and it reads again after %s", notified, next)
			}
		})
	}
}

// Each reading lists all nodes and pods, and what is blocked may stay so for days.
func TestWhatDoesNotChangeIsReadLessAndLessOften(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.found = drifting
	r.expect(t, pollInterval, "dev")
	r.clock.Step(slowAfter - time.Second)
	r.expect(t, pollInterval)
	r.clock.Step(time.Second)
	intervals := func(want ...time.Duration) {
		t.Helper()
		for _, after := range want {
			r.expect(t, after)
			r.clock.Step(after)
		}
	}
	intervals(time.Minute, time.Minute, 2*time.Minute, 4*time.Minute, 8*time.Minute, maxInterval, maxInterval)
	// A node is replaced, and another one is to be: the condition stays, and the roll-out goes on.
	r.found.nodes = append(r.found.nodes, provision.Node{Pool: "gpu", Name: "b", Reason: "NodePoolDrifted"})
	intervals(time.Minute, time.Minute, 2*time.Minute)
	// The nodes of another Sync change nothing.
	r.found.nodes = append(r.found.nodes, provision.Node{Pool: "other", Name: "c", Reason: "NodePoolDrifted"})
	r.found.pools = map[string]string{"gpu": "dev", "other": "prod"}
	intervals(4 * time.Minute)
	// All are blocked.
	r.found.closed = map[string]bool{"gpu": true}
	r.expect(t, time.Minute, "dev")
	r.clock.Step(time.Hour)
	// A change of the Sync has them read often.
	r.Applied(s, changed("NodePool", false, apply.Applied))
	r.expect(t, pollInterval, "dev")
}

// Which Sync has deleted a pool is known to the process that did it only: another one has each Sync wait that is reading.
func TestAfterARestartNodesOfARemovedPoolAreThoseOfEachSyncThatIsReading(t *testing.T) {
	s := sync()
	over := sync(func(s *v1alpha1.Sync) { s.Name = "over" }, with("True", upToDate, "Revision main@sha1:1: no node is to be replaced"))
	other := sync(func(s *v1alpha1.Sync) { s.Name = "prod" })
	results := changed("NodePool", false, apply.Applied)
	results[0].Change.Action = plan.Delete
	before := newReading()
	before.Applied(other, results)
	restarted := newReading()
	for r, want := range map[*reading]string{before: upToDate, restarted: rollingOut} {
		for _, each := range []*v1alpha1.Sync{s.DeepCopy(), over, other} {
			r.SetCondition(each, each)
		}
		r.found = nodeReplacements{nodes: []provision.Node{{Pool: "gpu", Name: "a", Reason: "NodePoolRemoved"}}}
		r.expect(t, pollInterval, "dev", "prod")
		got := s.DeepCopy()
		r.SetCondition(got, got)
		if c := conditions.Get(got, Condition); c.Reason != want {
			t.Errorf("the condition is %s, want %s", written(got), want)
		}
		r.SetCondition(over, over)
		if c := conditions.Get(over, Condition); c.Reason != upToDate {
			t.Errorf("what had ended is %s", written(over))
		}
	}
}

// Times of creation are of the API server's clock.
func TestANodeIsOlderThanAChangeWhereTheClocksMayDiffer(t *testing.T) {
	r := newReading()
	s := sync()
	r.SetCondition(s, s)
	r.found = nodeReplacements{pools: map[string]string{"gpu": "dev"}, oldest: map[string]time.Time{"gpu": r.clock.Now().Add(29 * time.Second)}}
	r.expect(t, stabilizationWindow, "dev")
}
