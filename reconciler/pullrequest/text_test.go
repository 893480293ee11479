package pullrequest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
)

func TestNoErrorHasASecret(t *testing.T) {
	const password, credential = "hunter2hunter2", "ghp_0123456789abcdef0123456789abcdef0123"
	const text = "reading x: https://bot:" + password + "@git.example.com/o/r: token " + credential
	class := func(class state.FailureClass) func(s *stage) {
		return func(s *stage) {
			s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) {
				return oraclePlan{}, state.Failf(class, "SomeReason", text)
			}
		}
	}
	tests := []struct {
		name string
		do   func(s *stage)
		// where reads a text that the error must have reached.
		where func(s *stage) string
	}{
		{"of a head that cannot be planned", class(state.Stalled), func(s *stage) string { return s.comment(1).Body }},
		{"of a plan that failed", class(state.Retry), func(s *stage) string { return s.item(1).Headline }},
		{"of a head that cannot be planned, where there is a report", func(s *stage) {
			s.pass()
			s.board.find(1).Head.SHA = sha("b")
			class(state.Stalled)(s)
		}, func(s *stage) string { return s.comment(1).Body }},
		{"of a ForgeAccess that cannot be built", func(s *stage) { s.noBuild = state.Failf(state.Stalled, "InvalidSource", text) },
			func(s *stage) string { return s.status().Message }},
		{"of a forge", func(s *stage) {
			s.board.fail = func(string) error { return &forge.Error{Operation: "listing", Code: 403, Message: text} }
		}, func(s *stage) string { return s.status().Message }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			tt.do(s)
			s.pass()
			if !strings.Contains(tt.where(s), "reading x") {
				t.Fatalf("the error does not show: %q", tt.where(s))
			}
			got := fmt.Sprint(s.board.comments, s.board.statuses, s.status(), s.eventually())
			// Forges are kept from making links by characters without width.
			plain := strings.ReplaceAll(got, "\u200b", "")
			for _, secret := range []string{password, credential, "0123456789abcdef0123"} {
				if strings.Contains(plain, secret) {
					t.Errorf("it says %s", plain)
				}
			}
		})
	}
}

func TestWhatTheAuthorCannotFixIsNotReportedAtTheForge(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	s.pass()
	s.board.find(1).Head.SHA = sha("b")
	s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) {
		return oraclePlan{}, state.Failf(state.Retry, "AccessDenied", "arn:aws:sts::123456789012:assumed-role/x is not authorized")
	}
	s.later(30 * time.Second)
	if got := s.item(1); got.Phase != v1alpha1.PullRequestFailed || !strings.Contains(got.Headline, "assumed-role") {
		t.Errorf("the Sync says %+v", got)
	}
	body, line := s.comment(1).Body, s.board.statuses["bbbbbbb poolwright/plan (prod)"].Description
	if strings.Contains(body+line, "assumed") || !strings.Contains(body, "cannot be planned now: AccessDenied\n") || line != "cannot be planned now: AccessDenied" {
		t.Errorf("the forge says %q, %s", line, body)
	}
}
