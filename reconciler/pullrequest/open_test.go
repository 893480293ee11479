package pullrequest

import (
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func TestAPullRequestIsPlannedAndToldOnce(t *testing.T) {
	s := newStage(t)
	s.offer(7, sha("a"))
	if after := s.pass(); after < 30*time.Second || after > 33*time.Second {
		t.Errorf("comes back after %s", after)
	}
	s.expect("new", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #7", "write #7", "status aaaaaaa poolwright/plan (prod): success")
	item := s.item(7)
	if item.Phase != v1alpha1.PullRequestPlanned || item.Head != sha("a") || item.Base != sha("0") || item.Reviewed == nil || item.Reviewed.NodesReplaced != 4 || item.Verdict == "" {
		t.Errorf("recorded %+v", item)
	}
	want := forge.Status{Context: "poolwright/plan (prod)", State: forge.Success, Description: item.Verdict, URL: "https://forge/7#comment"}
	if got := s.board.statuses["aaaaaaa poolwright/plan (prod)"]; got != want {
		t.Errorf("status %+v", got)
	}
	patches := s.patches
	for range 9 {
		s.later(30 * time.Second)
		s.expect("idle", "list")
	}
	if len(s.oracle.plans) != 1 || s.patches != patches {
		t.Errorf("planned %v, %d patches more", s.oracle.plans, s.patches-patches)
	}
	s.later(31 * time.Second)
	s.expect("looked at again, and nothing is new", "list")
	if len(s.oracle.plans) != 2 || s.patches != patches {
		t.Errorf("planned %v, %d patches more", s.oracle.plans, s.patches-patches)
	}
}
