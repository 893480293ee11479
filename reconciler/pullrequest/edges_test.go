package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/failure"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestWhatForbidsAMerge(t *testing.T) {
	tests := []struct {
		name  string
		edit  func(r *report.Report)
		state forge.State
	}{
		{"a problem in the head", func(r *report.Report) {
			r.Problems = []report.Problem{{File: "clusters/dev/pools.yaml", Line: 3, Message: "unknown field"}}
		}, forge.Failure},
		{"a guard that holds", func(r *report.Report) {
			r.GuardResults = []report.GuardResult{{Rule: "MaxNodesReplaced", Result: "held"}}
		}, forge.ActionRequired},
		{"a guard that only warns does not", func(r *report.Report) { r.GuardResults = []report.GuardResult{{Rule: "quota", Result: "warning"}} }, forge.Neutral},
		{"a guard that holds what does nothing else", func(r *report.Report) {
			r.Changes, r.GuardResults = nil, []report.GuardResult{{Rule: "lint", Result: "held"}}
		}, forge.ActionRequired},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			plan := s.oracle.plan
			s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
				p, err := plan(pr)
				tt.edit(&p.Report)
				return p, err
			}
			s.pass()
			if got := s.board.statuses["aaaaaaa poolwright/plan (prod)"].State; got != tt.state || s.comment(1).Body == "" {
				t.Errorf("state %s, comment %q", got, s.comment(1).Body)
			}
			if got := s.item(1).Phase; got != v1alpha1.PullRequestPlanned {
				t.Errorf("phase %s", got)
			}
			// A check has the comment's text, and the problem at its line.
			c := s.board.checks["aaaaaaa poolwright/plan (prod)"]
			if c.Summary != s.comment(1).Body || c.URL != "https://forge/1#comment" || (len(c.Annotations) == 1) != (tt.state == forge.Failure) {
				t.Errorf("check %+v", c)
			}
		})
	}
}

func TestWhetherAMergeIsAppliedIsReadOnceARevision(t *testing.T) {
	s := merged(t)
	requested := 0
	s.r.states.open[stageName].Planner = requesting{s.oracle, &requested}
	for range 3 {
		s.later(time.Minute)
	}
	s.apply(sha("f"))
	s.later(time.Minute)
	s.later(time.Minute)
	if requested != 2 {
		t.Errorf("asked %d times", requested)
	}
}

// requesting counts how often it is asked for a merge.
type requesting struct {
	*oracle
	requested *int
}

func (a requesting) Contains(ctx context.Context, applied, merge string) (bool, error) {
	*a.requested++
	return a.oracle.Contains(ctx, applied, merge)
}

func TestTheSameErrorInAnotherTextIsNotPublishedAgain(t *testing.T) {
	s := newStage(t)
	n := 0
	s.board.fail = func(string) error {
		n++
		return &forge.Error{Operation: "listing", Message: fmt.Sprintf("connection from port %d was reset", n)}
	}
	for range 4 {
		s.later(s.pass())
	}
	if s.patches != 1 || !strings.Contains(s.status().Message, "port 1 ") {
		t.Errorf("%d patches, %q", s.patches, s.status().Message)
	}
}

func TestTheOldestPlanIsMadeAgainFirst(t *testing.T) {
	s := newStage(t)
	for n := 1; n <= 3; n++ {
		s.offer(n, fmt.Sprintf("%040x", n))
		s.later(10 * time.Second)
	}
	s.oracle.plans = nil
	s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
	s.pass()
	if !slices.Equal(s.oracle.plans, []int{1, 2, 3}) {
		t.Errorf("planned %v", s.oracle.plans)
	}
}

func TestASyncThatChangesEndsThePass(t *testing.T) {
	s := merged(t)
	s.offer(2, sha("b"))
	s.offer(3, sha("c"))
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		s.clock.Step(3 * time.Second)
		s.change(func(y *v1alpha1.Sync) { y.Spec.Suspend = true; y.Generation++ })
		return plan(pr)
	}
	s.pass()
	s.expect("suspended while it plans", "list", "status ccccccc poolwright/plan (prod): pending")
}

func TestAProblemAfterAChangeThatWasNotReported(t *testing.T) {
	s := newStage(t)
	s.oracle.plan = s.nothing
	s.offer(1, sha("a"))
	s.pass()
	s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) {
		return oraclePlan{}, state.Failf(state.Stalled, "InvalidManifests", "a.yaml:3: broken")
	}
	s.board.find(1).Head.SHA = sha("b")
	s.later(time.Minute)
	if got := s.comment(1).Body; !strings.HasPrefix(got, "### `bbbbbbb` cannot be planned\n") {
		t.Errorf("it says %s", got)
	}
}

// Whatever a forge or an author wrote, neither the Sync nor the pull request shows a secret of it, or
// what a terminal obeys.
func TestTextsOfOthersAreSanitizedInTheStatusAndOnThePullRequest(t *testing.T) {
	const hostile, want = "x\x1b[2K\nghp_0123456789abcdefABCDEF", `x\x1b[2K\n(masked)`
	s := newStage(t)
	p := &pullRequestRun{
		Reconciler: s.r, sync: s.sync(), forgeFailure: failure.Failure{Message: hostile},
		s: &pullRequestState{ForgeAccess: ForgeAccess{Forge: s.board}, records: map[int64]*entry{1: {item: v1alpha1.PullRequestStatus{Phase: v1alpha1.PullRequestFailed, Headline: hostile}}}},
	}
	if got := p.outcome(); got.Message != want || len(got.Items) != 1 || got.Items[0].Headline != want {
		t.Errorf("%+v", got)
	}
	if err := p.setStatus(t.Context(), sha("a"), forge.Status{Context: "plan", Description: hostile}); err != nil {
		t.Fatal(err)
	}
	for _, posted := range s.board.statuses {
		if posted.Description != want {
			t.Errorf("%q", posted.Description)
		}
	}
	s.noBuild = errors.New(hostile)
	s.pass()
	if got := s.status(); got.Message != want {
		t.Errorf("%q", got.Message)
	}
}
