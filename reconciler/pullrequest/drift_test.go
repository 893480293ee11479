package pullrequest

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
)

// reporting is a Sync that only reports drift.
func reporting() *v1alpha1.Sync {
	sync := newSync(stageName.Name)
	sync.Spec.Drift = v1alpha1.DriftReport
	return sync
}

// driftReport is a report of live objects that differ.
func driftReport(names ...string) report.Report {
	r := report.Report{Summary: report.Summary{Update: len(names)}}
	for _, n := range names {
		r.Changes = append(r.Changes, report.Change{Object: report.Object{Target: "kubernetes", Kind: "NodePool", Name: n}, Action: "update", Drift: true})
	}
	return r
}

// drifted lets the Git loop find drift, and the live objects settle.
func (s *stage) drifted(names ...string) {
	s.Helper()
	s.oracle.drift = driftReport(names...)
	s.condition("Drifted", metav1.ConditionTrue, "DriftReported", strings.Join(names, ", "))
	s.pass()
	s.later(stabilizationWindow)
}

// doneMerge is a stage on which pull request 1 was merged, applied and rolled out.
func doneMerge(t *testing.T) *stage {
	t.Helper()
	s := merged(t, reporting())
	s.apply(sha("f"), sha("e"))
	s.pass()
	s.later(failureGrace)
	if got := s.item(1).Phase; got != v1alpha1.PullRequestDone {
		t.Fatalf("phase %s", got)
	}
	s.later(time.Minute)
	s.calls()
	return s
}

func TestTheNewestMergeReportsDriftUntilItIsGone(t *testing.T) {
	s := doneMerge(t)
	before := s.comment(1)
	s.drifted("gpu")
	s.expect("drift", "list", "list", "comment #1", "write #1")
	c := s.comment(1)
	if !strings.HasPrefix(c.Footer, before.Footer) || !strings.Contains(c.Footer, "**Live objects differ from what is applied.**") || !strings.Contains(c.Footer, "gpu") || c.Body != before.Body {
		t.Errorf("it says %s", c.Footer)
	}
	for range 5 {
		s.later(time.Minute + 30*time.Second)
	}
	s.restart()
	s.pass()
	s.later(stabilizationWindow)
	s.expect("nothing new, over a restart", strings.Split(strings.Repeat("list ", 7), " ")[:7]...)
	if s.comment(1) != c {
		t.Errorf("it says %s", s.comment(1).Footer)
	}

	s.clock.Step(time.Minute)
	s.drifted("gpu", "cpu")
	s.expect("more drift", "list", "list", "comment #1", "write #1")
	if !strings.Contains(s.comment(1).Footer, "cpu") {
		t.Errorf("it says %s", s.comment(1).Footer)
	}

	s.clock.Step(time.Minute)
	s.condition("Drifted", metav1.ConditionUnknown, "NotCompared", "")
	s.later(time.Minute)
	s.expect("nobody can tell", "list")

	s.condition("Drifted", metav1.ConditionFalse, "InSync", "")
	s.later(time.Minute)
	s.expect("gone", "list", "comment #1", "write #1")
	if got := s.comment(1).Footer; got != before.Footer+"\n"+driftResolved {
		t.Errorf("it says %s", got)
	}
	s.later(time.Minute)
	s.restart()
	s.later(time.Minute)
	s.expect("said once", "list", "list")
}

func TestDriftIsTakenFromAStepThatChangesNothing(t *testing.T) {
	s := doneMerge(t)
	before := s.comment(1).Footer
	s.condition("Drifted", metav1.ConditionTrue, "DriftReported", "some")
	drifted := driftReport("gpu", "cpu", "big", "small")
	drifted.Changes[1].Action, drifted.Changes[2].Action = "create", "delete"
	drifted.Changes[2].Reason, drifted.Changes[3].ReadOnly = "kept", true
	s.oracle.drift = report.Report{Drift: &report.Drift{Changes: drifted.Changes}, Provenance: &report.Provenance{Observed: s.clock.Now()}}
	s.pass()
	s.later(stabilizationWindow)
	got := s.comment(1).Footer
	if !strings.HasPrefix(got, before) || !strings.Contains(got, "1 to create, 1 to update, 1 to delete (1 held); 1 read-only") {
		t.Errorf("it says %s", got)
	}
	s.calls()
	s.oracle.drift.Provenance.Observed = s.clock.Now().Add(planValidity)
	s.later(planValidity)
	s.expect("only the moment is another", "list")
	s.oracle.drift.Drift = &report.Drift{}
	s.later(planValidity)
	s.expect("gone", "list", "comment #1", "write #1")
	if got := s.comment(1).Footer; got != before+"\n"+driftResolved {
		t.Errorf("it says %s", got)
	}
}

func TestWhichPullRequestReportsDrift(t *testing.T) {
	t.Run("the next merge takes it over", func(t *testing.T) {
		s := doneMerge(t)
		s.drifted("gpu")
		s.offer(2, sha("b"))
		s.later(time.Minute)
		s.merge(2, sha("d"))
		s.later(time.Minute)
		if one, two := s.comment(1).Footer, s.comment(2).Footer; strings.Contains(one, "differ from") || !strings.Contains(two, "differ from") {
			t.Errorf("#1 says %s\n#2 says %s", one, two)
		}
	})
	t.Run("a merge that did not touch the cluster does not", func(t *testing.T) {
		s := doneMerge(t)
		s.oracle.plan = s.nothing
		s.offer(2, sha("b"))
		s.pass()
		s.merge(2, sha("d"))
		s.drifted("gpu")
		if one, two := s.comment(1).Footer, s.comment(2).Footer; !strings.Contains(one, "differ from") || two != "" {
			t.Errorf("#1 says %s\n#2 says %s", one, two)
		}
	})
	t.Run("where nothing is known of any, the newest gets a comment, and none without drift", func(t *testing.T) {
		s := newStage(t, reporting())
		s.offer(1, sha("a"))
		s.offer(2, sha("b"))
		s.merge(1, sha("d"))
		s.merge(2, sha("e"))
		s.later(48 * time.Hour)
		s.expect("no drift", "list")
		s.drifted("gpu")
		s.expect("drift", "list", "list", "comment #2", "write #2")
		if got := s.comment(2).Footer; !strings.HasPrefix(got, "**Live objects differ") {
			t.Errorf("it says %s", got)
		}
		s.condition("Drifted", metav1.ConditionFalse, "InSync", "")
		s.later(time.Minute)
		if got := s.comment(2).Footer; got != driftResolved {
			t.Errorf("it says %s", got)
		}
	})
	t.Run("a Sync that corrects drift publishes none", func(t *testing.T) {
		s := doneMerge(t)
		s.change(func(y *v1alpha1.Sync) { y.Spec.Drift = v1alpha1.DriftCorrect })
		s.drifted("gpu")
		s.expect("corrected", "list", "list")
		if s.oracle.drifts > 0 {
			t.Errorf("looked %d times", s.oracle.drifts)
		}
	})
	t.Run("a roll-out under way keeps its own tail above", func(t *testing.T) {
		s := merged(t, reporting())
		s.oracle.stale = nodes("gpu", 2)
		s.apply(sha("f"), sha("e"))
		s.pass()
		s.clock.Step(time.Minute)
		s.drifted("cpu")
		s.oracle.stale = nodes("gpu", 1)
		s.later(time.Minute)
		got := s.comment(1).Footer
		if !strings.HasPrefix(got, after(0, nodes("gpu", 1)).Markdown()) || !strings.Contains(got, "cpu") {
			t.Errorf("it says %s", got)
		}
		// A restart keeps what is shown until it was read again.
		s.restart()
		s.pass()
		if s.comment(1).Footer != got {
			t.Errorf("it says %s", s.comment(1).Footer)
		}
	})
	t.Run("drift that cannot be observed changes nothing", func(t *testing.T) {
		s := doneMerge(t)
		s.oracle.err = context.DeadlineExceeded
		s.drifted("gpu")
		s.expect("blind", "list", "list")
	})
}
