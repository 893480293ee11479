package pullrequest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestWhatAForgeThatDoesNotRespondCosts(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		reason string
		after  []time.Duration
	}{
		{"no response backs off to five minutes", &forge.Error{Operation: "listing", Message: "no such host"}, "ForgeUnavailable",
			[]time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}},
		{"a rate limit is waited for", &forge.Error{Operation: "listing", Code: 403, Until: dawn.Add(17 * time.Minute)}, "RateLimited", []time.Duration{17 * time.Minute, 10 * time.Second}},
		{"a rate limit far away is believed for an hour", &forge.Error{Operation: "listing", Code: 429, Until: dawn.AddDate(3, 0, 0)}, "RateLimited", []time.Duration{time.Hour, time.Hour}},
		{"a wrong credential backs off", &forge.Error{Operation: "listing", Code: 401, Remedy: "put a token there"}, "Unauthorized", []time.Duration{5 * time.Second, 10 * time.Second}},
		{"a missing permission backs off", &forge.Error{Operation: "listing", Code: 403, Remedy: "grant it"}, "Forbidden", []time.Duration{5 * time.Second, 10 * time.Second}},
		{"a repository that is not there backs off", &forge.Error{Operation: "listing", Code: 404}, "NotFound", []time.Duration{5 * time.Second}},
		{"what is refused backs off", &forge.Error{Operation: "listing", Code: 422}, "Refused", []time.Duration{5 * time.Second}},
		{"anything else passes", context.DeadlineExceeded, "ForgeUnavailable", []time.Duration{5 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			s.board.fail = func(string) error { return tt.err }
			for i, want := range tt.after {
				if after := s.pass(); after != want {
					t.Errorf("try %d: comes back after %s, want %s", i, after, want)
				}
				s.expect("failing", "list")
				s.clock.Step(want - time.Second)
				if after := s.pass(); after != time.Second {
					t.Errorf("woken too early it comes back after %s", after)
				}
				s.expect("too early")
				s.clock.Step(time.Second)
			}
			if got := s.status(); got.Reason != tt.reason || got.Message == "" {
				t.Errorf("status %+v", got)
			}
			if events := s.eventually(); len(events) != 1 || !strings.HasPrefix(events[0], "Warning "+tt.reason+" ") {
				t.Errorf("events %q", events)
			}
			if got := s.metric("poolwright_forge_errors_total", tt.reason); got != float64(len(tt.after)) {
				t.Errorf("%v errors counted", got)
			}
			s.board.fail = nil
			s.pass()
			if got := s.status(); got.Reason != "" || got.Message != "" || got.Open != 1 || got.Items[0].Phase != v1alpha1.PullRequestPlanned {
				t.Errorf("healed, status %+v", got)
			}
		})
	}
}

// metric reads a series by a label's value.
func (s *stage) metric(name, label string) float64 {
	s.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if label == "" || hasLabel(m, label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

func hasLabel(m *dto.Metric, value string) bool {
	for _, l := range m.GetLabel() {
		if l.GetValue() == value {
			return true
		}
	}
	return false
}

func TestAPermissionThatIsMissingOnlyForSpeaking(t *testing.T) {
	missing := func(what string) func(string) error {
		return func(call string) error {
			if strings.HasPrefix(call, what) {
				return &forge.Error{Operation: "speaking", Code: 403, Remedy: "grant write:issue"}
			}
			return nil
		}
	}
	t.Run("who may not comment still sets the status, names what is missing, and tries two a pass", func(t *testing.T) {
		s := newStage(t)
		for n := range 9 {
			s.offer(n+1, sha(string("123456789"[n])))
		}
		s.board.fail = missing("comment")
		s.pass()
		s.expect("refused", "list", "status 9999999 poolwright/plan (prod): pending", "comment #9", "status 9999999 poolwright/plan (prod): success",
			"status 8888888 poolwright/plan (prod): pending", "comment #8", "status 8888888 poolwright/plan (prod): success")
		want := v1alpha1.PullRequestsStatus{Reason: "Forbidden", Message: "speaking: the forge responded with status 403; grant write:issue", Open: 9}
		if d := cmp.Diff(want, s.status()); d != "" {
			t.Error(d)
		}
		s.board.fail = nil
		s.later(5 * time.Second)
		if got := s.status(); got.Reason != "" || len(got.Items) != 9 {
			t.Errorf("healed: %+v", got)
		}
		if plans := len(s.oracle.plans); plans != 9 {
			t.Errorf("%d plans", plans)
		}
	})
	t.Run("one that is locked keeps no other from being published, and its error stands there until it is over", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.offer(2, sha("b"))
		s.board.fail = missing("comment #2")
		s.pass()
		if s.comment(1).Body == "" || s.item(1).Phase != v1alpha1.PullRequestPlanned {
			t.Errorf("%+v", s.status())
		}
		s.calls()
		s.later(2 * time.Second)
		s.expect("too early", "list")
		if got := s.status().Reason; got != "Forbidden" {
			t.Errorf("reason %q", got)
		}
		s.later(3 * time.Second)
		s.expect("once more", "list", "comment #2", "status bbbbbbb poolwright/plan (prod): success")
		if events := s.eventually(); len(events) != 1 {
			t.Errorf("events %q", events)
		}
		if after := s.later(time.Hour); after > 34*time.Second {
			t.Errorf("comes back after %s", after)
		}
	})
	t.Run("who may set no status still comments, once", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.board.fail = missing("status")
		s.pass()
		s.expect("refused", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
		if got := s.status(); got.Reason != "Forbidden" || got.Items[0].Reviewed == nil {
			t.Errorf("%+v", got)
		}
		s.board.fail = nil
		s.later(5 * time.Second)
		s.expect("granted", "list", "comment #1", "status aaaaaaa poolwright/plan (prod): success")
		s.later(30 * time.Second)
		s.expect("done", "list")
	})
	t.Run("a rate limit met while speaking ends the pass, and nothing is planned twice", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.offer(2, sha("b"))
		s.board.fail = func(call string) error {
			if strings.HasPrefix(call, "comment") {
				return &forge.Error{Operation: "speaking", Code: 403, Until: s.clock.Now().Add(time.Minute)}
			}
			return nil
		}
		if after := s.pass(); after != time.Minute {
			t.Errorf("comes back after %s", after)
		}
		s.expect("limited", "list", "status bbbbbbb poolwright/plan (prod): pending", "comment #2")
		s.board.fail = nil
		s.later(time.Minute)
		if len(s.oracle.plans) != 2 || s.comment(1).Body == "" || s.comment(2).Body == "" {
			t.Errorf("planned %v", s.oracle.plans)
		}
	})
}

func TestWhatCannotBePlanned(t *testing.T) {
	fix := state.Failf(state.Stalled, "InvalidManifests", "a.yaml:3: <script> @all")
	passing := state.Failf(state.Retry, "SourceUnavailable", "no answer of git")
	t.Run("the author's problem is published at once, escaped, and not tried again", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, fix }
		s.pass()
		s.expect("refused", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): error")
		if got := s.item(1); got.Phase != v1alpha1.PullRequestFailed || got.Headline != "cannot be planned: a.yaml:3: <script> @all" || got.Reviewed != nil {
			t.Errorf("%+v", got)
		}
		if body := s.comment(1).Body; !strings.HasPrefix(body, "### `aaaaaaa` cannot be planned\n") || strings.Contains(body, "<script>") || strings.Contains(body, "@all") {
			t.Errorf("it says %s", body)
		}
		s.later(6 * time.Minute)
		s.expect("later", "list")
		if len(s.oracle.plans) != 1 {
			t.Errorf("planned %v", s.oracle.plans)
		}
		s.oracle.plan = s.replacing(4)
		s.board.find(1).Head.SHA = sha("b")
		s.pass()
		if got := s.item(1); got.Phase != v1alpha1.PullRequestPlanned || strings.Contains(s.comment(1).Body, "cannot") {
			t.Errorf("mended: %+v\n%s", got, s.comment(1).Body)
		}
	})
	t.Run("the older report stays below, marked", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		older := s.comment(1).Body
		s.board.find(1).Head.SHA = sha("b")
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, fix }
		s.later(30 * time.Second)
		const first = "**Stale:** this was planned for `aaaaaaa`; `bbbbbbb` cannot be planned: "
		if body := s.comment(1).Body; !strings.HasPrefix(body, first) || !strings.HasSuffix(body, older) {
			t.Errorf("it says %s", body)
		}
	})
	t.Run("what passes is tried again, ever more slowly, and makes no comment", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, passing }
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			if after := s.pass(); after != want {
				t.Errorf("try %d: comes back after %s", i, after)
			}
			s.clock.Step(want)
		}
		s.expect("failing", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "status aaaaaaa poolwright/plan (prod): error", "list", "list")
		if len(s.board.comments) > 0 || len(s.oracle.plans) != 3 || s.item(1).Phase != v1alpha1.PullRequestFailed {
			t.Errorf("planned %v, %+v", s.oracle.plans, s.status())
		}
		s.oracle.plan = s.replacing(4)
		s.pass()
		s.expect("healed", "list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
		if got := s.metric("poolwright_pullrequest_plans_total", "failed"); got != 3 {
			t.Errorf("%v failures counted", got)
		}
	})
	t.Run("what passes marks a comment that still holds only when it endures", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		s.calls()
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, passing }
		s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
		s.pass()
		s.later(5 * time.Second)
		s.expect("twice", "list", "status aaaaaaa poolwright/plan (prod): pending", "list")
		s.later(10 * time.Second)
		s.expect("enduring", "list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): error")
		if body := s.comment(1).Body; !strings.HasPrefix(body, "**Stale:** `aaaaaaa` cannot be planned now again: ") {
			t.Errorf("it says %s", body)
		}
	})
	t.Run("a restart tries again what had failed", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{}, fix }
		s.pass()
		s.calls()
		s.restart()
		s.pass()
		s.expect("restarted", "list")
		s.oracle.plan = s.replacing(4)
		s.restart()
		s.pass()
		s.expect("mended", "list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
	})
}

func TestTheStatusIsWrittenWithoutHurtingOthers(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "syncs"}, "dev", errors.New("changed"))
	s := newStage(t)
	s.offer(1, sha("a"))
	s.refuse = conflict
	if after := s.pass(); after != limits.MinBackoff {
		t.Errorf("comes back after %s", after)
	}
	s.calls()
	// The Git loop writes meanwhile.
	s.refuse = nil
	s.change(func(y *v1alpha1.Sync) { y.Status.Objects = 7 })
	s.later(limits.MinBackoff)
	s.expect("again", "list")
	if got := s.sync().Status; got.Objects != 7 || got.PullRequests == nil || len(got.PullRequests.Items) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestASessionThatCannotBeBuilt(t *testing.T) {
	tests := []struct {
		name, reason string
		err          error
	}{
		{"a credential that is not there", "Unauthorized", state.Failf(state.Stalled, "Unauthorized", "secretRef names Secret forge, which is not there")},
		{"anything else", "SetupFailed", errBoom},
		{"the message of the forge", "NotFound", &forge.Error{Code: 404}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.noBuild = tt.err
			if after := s.pass(); after != limits.MinBackoff {
				t.Errorf("comes back after %s", after)
			}
			s.pass()
			s.later(limits.MinBackoff)
			if s.built != 2 {
				t.Errorf("built %d times", s.built)
			}
			if got := s.status(); got.Reason != tt.reason || got.Message != tt.err.Error() {
				t.Errorf("%+v", got)
			}
			s.noBuild = nil
			s.later(2 * limits.MinBackoff)
			if got := s.status(); got.Reason != "" || len(s.eventually()) != 1 {
				t.Errorf("healed: %+v", got)
			}
		})
	}
}
