package pullrequest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// apply lets the Git loop apply a commit that holds these merges.
func (s *stage) apply(commit string, merges ...string) {
	s.Helper()
	for _, m := range merges {
		s.oracle.contains[commit+m] = true
	}
	s.change(func(y *v1alpha1.Sync) {
		y.Status.LastAttemptedRevision, y.Status.LastAppliedRevision = "main@sha1:"+commit, "main@sha1:"+commit
		y.Status.LastAppliedTime = &metav1.Time{Time: s.clock.Now()}
	})
}

// condition lets the Git loop say something.
func (s *stage) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	s.Helper()
	s.change(func(y *v1alpha1.Sync) {
		for i := range y.Status.Conditions {
			if y.Status.Conditions[i].Type == kind {
				y.Status.Conditions = append(y.Status.Conditions[:i], y.Status.Conditions[i+1:]...)
				break
			}
		}
		y.Status.Conditions = append(y.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(s.clock.Now())})
	})
}

// nodes are n nodes of a pool, as old as can be.
func nodes(pool string, n int) []provision.Node {
	var out []provision.Node
	for i := range n {
		out = append(out, provision.Node{NodeClaim: fmt.Sprintf("%s-%d", pool, i), Name: fmt.Sprintf("node-%d", i), Pool: pool, Reason: "NodePoolDrifted", Created: dawn.Add(-time.Hour)})
	}
	return out
}

// late is the same where the first was made at a time.
func late(pool string, n int, at time.Time) []provision.Node {
	out := nodes(pool, n)
	out[0].Created = at
	return out
}

const rollout = "poolwright/rollout (prod)"

// merged is a stage on which pull request 1 was reviewed and is merged as m.
func merged(t *testing.T, syncs ...*v1alpha1.Sync) *stage {
	t.Helper()
	s := newStage(t, syncs...)
	s.offer(1, sha("a"))
	s.pass()
	s.calls()
	s.clock.Step(time.Minute)
	s.merge(1, sha("e"))
	return s
}

// after is what came of pull request 1, merged a minute after dawn and applied some
// time after that, with four nodes to replace.
func after(applied time.Duration, left []provision.Node) report.MergeOutcome {
	merged := dawn.Add(time.Minute)
	return report.MergeOutcome{Revision: "main@sha1:" + sha("e"), Merged: merged, Applied: merged.Add(applied), Nodes: 4, Remaining: left}
}

// done is the same once the last node was gone.
func done(applied, took time.Duration) report.MergeOutcome {
	a := after(applied, nil)
	a.Done = a.Applied.Add(took)
	minutes := int(took.Minutes() + 0.5)
	a.Predicted = &report.RolloutFigures{Replaced: 4}
	a.Actual = &report.RolloutFigures{Replaced: 4, MinMinutes: minutes, MaxMinutes: minutes}
	return a
}

// waiting is what is said while it is not applied.
func waiting(held string) report.MergeOutcome {
	return report.MergeOutcome{Merged: dawn.Add(time.Minute), Nodes: 4, Held: held}
}

// expectMergeOutcome compares the end of a comment.
func (s *stage) expectMergeOutcome(what string, number int, want report.MergeOutcome) {
	s.Helper()
	if d := cmp.Diff(want.Markdown(), s.comment(number).Footer); d != "" {
		s.Errorf("%s, the tail of #%d: -want +got\n%s", what, number, d)
	}
}

// line compares what stands next to a commit.
func (s *stage) line(what, commit string, state forge.State, want report.MergeOutcome) {
	s.Helper()
	if got := s.board.statuses[commit+" "+rollout]; got.State != state || got.Description != want.Line() {
		s.Errorf("%s, next to %s: %s %q, want %s %q", what, commit, got.State, got.Description, state, want.Line())
	}
}

func TestAMergeIsFollowedToItsEnd(t *testing.T) {
	s := merged(t)
	body := s.comment(1).Body
	s.pass()
	s.expect("merged", "list", "comment #1", "write #1", "status eeeeeee "+rollout+": pending", "status aaaaaaa "+rollout+": pending")
	s.expectMergeOutcome("merged", 1, waiting(""))
	s.line("merged", "eeeeeee", forge.Pending, waiting(""))
	if got := s.item(1); got.Phase != v1alpha1.PullRequestMerged || got.MergeCommit != sha("e") || !got.MergedTime.Time.Equal(dawn.Add(time.Minute)) || got.Reviewed.NodesReplaced != 4 {
		t.Errorf("%+v", got)
	}
	s.later(30 * time.Second)
	s.expect("waiting", "list")

	s.clock.Step(10 * time.Second)
	s.oracle.stale = nodes("gpu", 4)
	s.apply(sha("f"), sha("e"))
	s.pass()
	s.expectMergeOutcome("applied", 1, after(40*time.Second, nodes("gpu", 4)))
	s.line("applied", "eeeeeee", forge.Pending, after(40*time.Second, nodes("gpu", 4)))
	if got := s.item(1); got.Phase != v1alpha1.PullRequestRollingOut || !got.AppliedTime.Time.Equal(dawn.Add(100*time.Second)) {
		t.Errorf("%+v", got)
	}
	s.calls()

	// Too soon after the last edit for another.
	s.oracle.stale = nodes("gpu", 3)
	if after := s.later(10 * time.Second); after != 20*time.Second {
		t.Errorf("comes back after %s", after)
	}
	s.expect("too soon", "list")
	s.oracle.stale = nodes("gpu", 1)
	s.later(20 * time.Second)
	s.expectMergeOutcome("rolling", 1, after(40*time.Second, nodes("gpu", 1)))
	s.expect("rolling", "list", "comment #1", "write #1", "status eeeeeee "+rollout+": pending", "status aaaaaaa "+rollout+": pending")

	// The last node goes while the tail may not be written: nothing is lost.
	s.oracle.stale = nil
	s.later(10 * time.Second)
	s.expect("gone", "list")
	if got := s.item(1); got.Phase != v1alpha1.PullRequestRollingOut || got.RolledOutTime == nil {
		t.Errorf("%+v", got)
	}
	s.restart()
	s.later(20 * time.Second)
	s.expect("done", "list", "comment #1", "write #1", "status eeeeeee "+rollout+": success", "status aaaaaaa "+rollout+": success")
	s.expectMergeOutcome("done", 1, done(40*time.Second, 40*time.Second))
	s.line("done", "eeeeeee", forge.Success, done(40*time.Second, 40*time.Second))
	s.line("done", "aaaaaaa", forge.Success, done(40*time.Second, 40*time.Second))
	if got := s.item(1); got.Phase != v1alpha1.PullRequestDone || !got.RolledOutTime.Time.Equal(dawn.Add(140*time.Second)) {
		t.Errorf("%+v", got)
	}
	if s.comment(1).Body != body {
		t.Errorf("what was reviewed now says %s", s.comment(1).Body)
	}
	patches := s.patches
	for range 3 {
		s.later(time.Hour)
		s.expect("afterwards", "list")
	}
	s.restart()
	s.later(time.Hour)
	s.expect("after another restart", "list")
	if s.patches != patches || len(s.comment(1).Footer) == 0 {
		t.Errorf("%d patches more", s.patches-patches)
	}
}

func TestWhatIsReportedOfAMerge(t *testing.T) {
	held := func(reason string) func(s *stage) {
		return func(s *stage) {
			s.oracle.contains[sha("f")+sha("e")] = true
			s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("f") })
			s.condition("Ready", metav1.ConditionFalse, reason, "6 nodes would be replaced, 4 were reviewed")
		}
	}
	const why = "6 nodes would be replaced, 4 were reviewed"
	quick := after(0, nil)
	quick.Nodes, quick.Done = 0, quick.Applied
	tests := []struct {
		name  string
		plan  func(s *stage) func(forge.PullRequest) (oraclePlan, error)
		do    func(s *stage)
		tail  report.MergeOutcome
		phase v1alpha1.PullRequestPhase
	}{
		{name: "one whose roll-out is held has the reason", do: held("NodeReplacementHeld"), phase: v1alpha1.PullRequestMerged,
			tail: waiting(why)},
		{name: "one whose deletions are held has the reason", do: held("PruneHeld"), phase: v1alpha1.PullRequestMerged,
			tail: waiting(why)},
		{name: "one of which something failed has the reason", do: held("ApplyFailed"), phase: v1alpha1.PullRequestMerged, tail: failing("ApplyFailed")},
		{name: "what is not ready yet mostly is soon", do: held("NotReady"), phase: v1alpha1.PullRequestMerged, tail: waiting("")},
		{name: "what is held before the merge does not concern it", phase: v1alpha1.PullRequestMerged, tail: waiting(""), do: func(s *stage) {
			held("NodeReplacementHeld")(s)
			clear(s.oracle.contains)
		}},
		{name: "one that touches no pool is done when it is applied",
			plan: func(s *stage) func(forge.PullRequest) (oraclePlan, error) {
				return func(pr forge.PullRequest) (oraclePlan, error) {
					p, err := s.replacing(0)(pr)
					p.Reviewed = &v1alpha1.ReviewedDisruption{}
					return p, err
				}
			},
			do: func(s *stage) {
				s.oracle.stale = nodes("gpu", 3)
				s.apply(sha("f"), sha("e"))
			}, phase: v1alpha1.PullRequestDone, tail: quick},
		{name: "one whose consequences are unknown is over when no node is stale", phase: v1alpha1.PullRequestRollingOut,
			plan: func(s *stage) func(forge.PullRequest) (oraclePlan, error) {
				return func(pr forge.PullRequest) (oraclePlan, error) {
					p, err := s.replacing(4)(pr)
					p.Reviewed = nil
					return p, err
				}
			},
			do: func(s *stage) {
				s.oracle.stale = nodes("gpu", 4)
				s.apply(sha("f"), sha("e"))
			}, tail: after(0, nodes("gpu", 4))},
		{name: "nodes of other pools are none of its", phase: v1alpha1.PullRequestRollingOut, do: func(s *stage) {
			s.oracle.stale = append(nodes("cpu", 3), nodes("gpu", 1)...)
			s.apply(sha("f"), sha("e"))
		}, tail: after(0, nodes("gpu", 1))},
		{name: "a node that was launched from the old pool after it was applied is still its", phase: v1alpha1.PullRequestRollingOut, do: func(s *stage) {
			s.oracle.stale = late("gpu", 2, dawn.Add(2*time.Minute))
			s.apply(sha("f"), sha("e"))
		}, tail: after(0, late("gpu", 2, dawn.Add(2*time.Minute)))},
		{name: "that no node is stale yet is not taken for the end", phase: v1alpha1.PullRequestRollingOut,
			do:   func(s *stage) { s.apply(sha("f"), sha("e")) },
			tail: after(0, nil)},
		{name: "a planner that cannot decide leaves the tail as it was", phase: v1alpha1.PullRequestRollingOut, do: func(s *stage) {
			s.pass()
			s.apply(sha("f"), sha("e"))
			s.r.states.open[stageName].Planner = blind{s.oracle}
		}, tail: waiting("")},
		{name: "a merge is not applied by an older revision", phase: v1alpha1.PullRequestMerged, tail: waiting(""),
			do: func(s *stage) { s.apply(sha("f")) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			if tt.plan != nil {
				s.oracle.plan = tt.plan(s)
			}
			s.offer(1, sha("a"))
			s.pass()
			s.clock.Step(time.Minute)
			s.merge(1, sha("e"))
			tt.do(s)
			s.pass()
			s.expectMergeOutcome("then", 1, tt.tail)
			if got := s.item(1).Phase; got != tt.phase {
				t.Errorf("phase %s", got)
			}
		})
	}
}

// blind cannot see nodes.
type blind struct{ *oracle }

func (b blind) PendingReplacement(context.Context, time.Time) (NodeReplacements, error) {
	return NodeReplacements{}, errBoom
}

func TestARolloutWithoutStaleNodesEndsAfterAWhile(t *testing.T) {
	s := merged(t)
	s.apply(sha("f"), sha("e"))
	if after := s.pass(); after > failureGrace {
		t.Errorf("comes back after %s", after)
	}
	s.later(failureGrace)
	want := done(0, 30*time.Second)
	want.Nodes, want.Actual = 0, &report.RolloutFigures{}
	s.expectMergeOutcome("done", 1, want)
}

func TestWhichMergesAreFollowed(t *testing.T) {
	t.Run("one that was merged unplanned within the hour gets statuses, and a tail where there is a comment", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.merge(1, sha("e"))
		s.later(59 * time.Minute)
		s.expect("found", "list", "comment #1", "status eeeeeee "+rollout+": pending", "status aaaaaaa "+rollout+": pending")
		s.oracle.stale = nodes("any", 1)
		s.apply(sha("f"), sha("e"))
		s.later(time.Minute)
		want := report.MergeOutcome{Revision: "main@sha1:" + sha("e"), Merged: dawn, Applied: dawn.Add(59 * time.Minute), Remaining: s.oracle.stale}
		s.line("applied", "eeeeeee", forge.Pending, want)
		s.oracle.stale = nil
		s.later(time.Minute)
		if got := s.item(1).Phase; got != v1alpha1.PullRequestDone || len(s.board.comments) > 0 {
			t.Errorf("phase %s, %d comments", got, len(s.board.comments))
		}
	})
	t.Run("an older one that nobody planned is left alone", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.merge(1, sha("e"))
		s.later(time.Hour)
		s.expect("found", "list")
	})
	t.Run("one that does not touch the cluster is done without a comment", func(t *testing.T) {
		s := newStage(t)
		s.oracle.plan = s.nothing
		s.offer(1, sha("a"))
		s.pass()
		s.calls()
		s.merge(1, sha("e"))
		s.later(30 * time.Second)
		s.apply(sha("f"), sha("e"))
		s.later(30 * time.Second)
		s.expect("merged and applied", "list", "list")
		if got := s.item(1).Phase; got != v1alpha1.PullRequestDone {
			t.Errorf("phase %s", got)
		}
	})
	t.Run("one that could not be planned is followed, too", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, errBoom }
		s.pass()
		s.merge(1, sha("e"))
		s.later(30 * time.Second)
		s.line("merged", "eeeeeee", forge.Pending, waiting(""))
	})
	t.Run("what was planned and not published before the merge is published with it", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.board.fail = func(call string) error {
			if strings.HasPrefix(call, "comment") {
				return &forge.Error{Code: 502}
			}
			return nil
		}
		s.pass()
		s.board.fail = nil
		s.merge(1, sha("e"))
		s.later(5 * time.Second)
		if c := s.comment(1); !strings.Contains(c.Body, "gpu") || c.Footer == "" || s.item(1).Reviewed == nil {
			t.Errorf("%+v", c)
		}
	})
	t.Run("several roll-outs at once count each its own nodes, with one read", func(t *testing.T) {
		s := merged(t)
		s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
			p, err := s.replacing(2)(pr)
			p.Reviewed.Objects = []v1alpha1.ReviewedObject{reviewed("EC2NodeClass", "big", "2")}
			return p, err
		}
		s.offer(2, sha("b"))
		s.pass()
		s.merge(2, sha("d"))
		s.apply(sha("f"), sha("e"), sha("d"))
		big := nodes("other", 1)
		big[0].Reason = "AMIDrift"
		s.oracle.stale = append(nodes("gpu", 3), big...)
		s.later(30 * time.Second)
		s.expectMergeOutcome("of a pool", 1, after(0, nodes("gpu", 3)))
		second := after(0, big)
		second.Revision, second.Nodes = "main@sha1:"+sha("d"), 2
		s.expectMergeOutcome("of a class", 2, second)
		if len(s.oracle.since) != 1 {
			t.Errorf("looked %d times", len(s.oracle.since))
		}
	})
	t.Run("a comment that a person deleted comes back with the next step", func(t *testing.T) {
		s := merged(t)
		s.pass()
		clear(s.board.comments)
		s.oracle.stale = nodes("gpu", 4)
		s.apply(sha("f"), sha("e"))
		s.later(30 * time.Second)
		if s.comment(1).Footer == "" {
			t.Error("the tail is lost")
		}
	})
	t.Run("a forge that refuses for good to take the tail is tried a few times", func(t *testing.T) {
		s := merged(t)
		s.apply(sha("f"), sha("e"))
		s.board.fail = func(call string) error {
			if strings.HasPrefix(call, "comment") {
				return &forge.Error{Code: 403, Message: "locked"}
			}
			return nil
		}
		for range 2 * lastTry {
			s.later(limits.MaxBackoff)
		}
		if got := s.item(1); got.Phase != v1alpha1.PullRequestDone || strings.Count(s.calls(), "comment #1") != lastTry {
			t.Errorf("%+v", got)
		}
		want := done(0, limits.MaxBackoff)
		want.Nodes, want.Actual = 0, &report.RolloutFigures{}
		s.line("done", "eeeeeee", forge.Success, want)
	})
}
