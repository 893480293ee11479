package pullrequest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

func TestAPullRequestIsPlannedAndReportedOnce(t *testing.T) {
	s := newStage(t)
	s.offer(7, sha("a"))
	if after := s.pass(); after < 30*time.Second || after > 33*time.Second {
		t.Errorf("comes back after %s", after)
	}
	s.expect("new", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #7", "write #7", "status aaaaaaa poolwright/plan (prod): success")
	item := s.item(7)
	if item.Phase != v1alpha1.PullRequestPlanned || item.Head != sha("a") || item.Base != sha("0") || item.Reviewed == nil || item.Reviewed.NodesReplaced != 4 || item.Headline == "" {
		t.Errorf("recorded %+v", item)
	}
	want := forge.Status{Context: "poolwright/plan (prod)", State: forge.Success, Description: item.Headline, URL: "https://forge/7#comment"}
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

func TestWhatAPassCosts(t *testing.T) {
	t.Run("a hundred idle pull requests cost one listing and no plan", func(t *testing.T) {
		s := newStage(t)
		for n := 1; n <= 100; n++ {
			s.offer(n, fmt.Sprintf("%040x", n))
		}
		s.pass()
		if len(s.oracle.plans) != 100 || s.oracle.plans[0] != 100 {
			t.Fatalf("planned %v", s.oracle.plans)
		}
		if got := s.status(); got.Open != 100 || len(got.Items) != 50 || got.Items[0].Number != 100 || got.Items[49].Number != 51 {
			t.Errorf("%d open, %d items", got.Open, len(got.Items))
		}
		s.calls()
		s.oracle.plans = nil
		for range 9 {
			s.later(30 * time.Second)
			s.expect("idle", "list")
		}
		if len(s.oracle.plans) > 0 {
			t.Errorf("planned %v", s.oracle.plans)
		}
		for pass := 1; pass <= 13; pass++ {
			s.later(30 * time.Second)
			// What came to the same is not read again for twice as long.
			if len(s.oracle.plans) != min(pass*maxRefreshes, 100) {
				t.Errorf("pass %d: planned %d", pass, len(s.oracle.plans))
			}
			s.expect("looked at again", "list")
		}
	})
	t.Run("plans end with the stint, and what waits comes soon, the newest first", func(t *testing.T) {
		s := newStage(t)
		for n := 1; n <= 20; n++ {
			s.offer(n, fmt.Sprintf("%040x", n))
		}
		plan := s.oracle.plan
		s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
			s.clock.Step(1900 * time.Millisecond)
			return plan(pr)
		}
		if after := s.pass(); after != time.Second {
			t.Errorf("comes back after %s", after)
		}
		if len(s.oracle.plans) != 6 || s.oracle.plans[0] != 20 {
			t.Errorf("planned %v", s.oracle.plans)
		}
		s.offer(21, sha("b"))
		s.later(time.Second)
		if s.oracle.plans[6] != 21 {
			t.Errorf("planned %v", s.oracle.plans)
		}
	})
	t.Run("a restart writes nothing, whatever is read again", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.offer(2, sha("b"))
		s.pass()
		s.calls()
		s.restart()
		patches := s.patches
		s.pass()
		s.expect("restarted", "list")
		if len(s.oracle.plans) != 4 || s.patches != patches {
			t.Errorf("planned %v, %d patches", s.oracle.plans, s.patches-patches)
		}
	})
	t.Run("a crash before anything was recorded writes no comment twice", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.refuse = errBoom
		if after := s.pass(); after != limits.MinBackoff {
			t.Errorf("comes back after %s", after)
		}
		s.calls()
		s.restart()
		s.refuse = nil
		s.pass()
		s.expect("again", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "status aaaaaaa poolwright/plan (prod): success")
	})
}

func TestWhenAPullRequestIsPlannedAnew(t *testing.T) {
	republished := []string{"list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success"}
	tests := []struct {
		name string
		do   func(s *stage)
		want []string
	}{
		{"its base moves", func(s *stage) {
			s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
		}, []string{"list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success"}},
		{"the Sync's rules change", func(s *stage) {
			s.oracle.plan = s.replacing(5)
			s.change(func(y *v1alpha1.Sync) { y.Generation++ })
		}, republished},
		{"live objects move, once they are stable", func(s *stage) {
			s.oracle.plan = s.replacing(5)
			s.change(func(y *v1alpha1.Sync) {
				y.Status.Pending = []v1alpha1.PendingChange{{Object: "NodePool/x", Action: "update"}}
			})
			if after := s.pass(); after != stabilizationWindow {
				s.Errorf("comes back after %s", after)
			}
			s.expect("unsettled", "list")
			s.clock.Step(10 * time.Second)
		}, republished},
		{"it is pushed to", func(s *stage) { s.board.find(1).Head.SHA = sha("c") },
			[]string{"list", "status ccccccc poolwright/plan (prod): pending", "comment #1", "write #1", "status ccccccc poolwright/plan (prod): success"}},
		{"five minutes have passed, and it has the same text", func(s *stage) { s.clock.Step(5 * time.Minute) }, []string{"list"}},
		{"nothing moves", func(*stage) {}, []string{"list"}},
		{"the loop catches up with the base that was planned", func(s *stage) {
			plan := s.oracle.plan
			s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
				p, err := plan(pr)
				p.Base = sha("9")
				return p, err
			}
			s.offer(2, sha("d"))
			s.pass()
			s.calls()
			s.oracle.plans = nil
			s.shut(1)
			s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
			s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { s.Error("planned again"); return oraclePlan{}, errBoom }
		}, []string{"list"}},
		{"the comment may have been deleted", func(s *stage) {
			clear(s.board.comments)
			s.clock.Step(time.Second)
			s.board.find(1).Updated = s.clock.Now()
		}, []string{"list", "comment #1", "write #1"}},
		{"somebody comments", func(s *stage) {
			s.clock.Step(time.Second)
			s.board.find(1).Updated = s.clock.Now()
		}, []string{"list", "comment #1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			s.pass()
			s.calls()
			tt.do(s)
			s.pass()
			s.expect("then", tt.want...)
			s.later(30 * time.Second)
			s.expect("and after that", "list")
		})
	}
	t.Run("a base that moves has all planned again, the oldest plan first", func(t *testing.T) {
		s := newStage(t)
		for n := 1; n <= 30; n++ {
			s.offer(n, fmt.Sprintf("%040x", n))
		}
		s.pass()
		s.oracle.plans = nil
		s.change(func(y *v1alpha1.Sync) { y.Status.LastAttemptedRevision = "main@sha1:" + sha("9") })
		s.later(time.Second)
		if len(s.oracle.plans) != 30 {
			t.Errorf("planned %v", s.oracle.plans)
		}
		if got := s.item(17).Base; got != sha("9") {
			t.Errorf("base %s", got)
		}
	})
}

func TestWhatHappensWhileAPlanIsMade(t *testing.T) {
	tests := []struct {
		name      string
		meanwhile func(s *stage)
		want      []string
		then      []string
	}{
		{"it is closed", func(s *stage) { s.shut(1) }, []string{"list"}, []string{"list"}},
		{"it is pushed to", func(s *stage) { s.board.find(1).Head.SHA = sha("b") }, []string{"list"},
			[]string{"list", "status bbbbbbb poolwright/plan (prod): pending", "comment #1", "write #1", "status bbbbbbb poolwright/plan (prod): success"}},
		{"it gets another base", func(s *stage) { s.board.find(1).Base.Name = "other" }, []string{"list"}, []string{"list"}},
		{"the Sync is suspended", func(s *stage) {
			s.change(func(y *v1alpha1.Sync) { y.Spec.Suspend = true; y.Generation++ })
		}, nil, nil},
		{"the Sync is deleted", func(s *stage) {
			if err := s.client.Delete(s.Context(), s.sync()); err != nil {
				s.Fatal(err)
			}
		}, nil, nil},
		{"the forge goes away", func(s *stage) {
			s.board.fail = func(string) error { return &forge.Error{Operation: "listing", Message: "gone"} }
		}, []string{"list"}, nil},
		{"nothing happens", func(*stage) {}, []string{"list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success"}, []string{"list"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			plan := s.oracle.plan
			s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
				p, err := plan(pr)
				s.oracle.plan = plan
				s.clock.Step(3 * time.Second)
				tt.meanwhile(s)
				return p, err
			}
			s.pass()
			s.expect("planning", append([]string{"list", "status aaaaaaa poolwright/plan (prod): pending"}, tt.want...)...)
			s.later(time.Second)
			s.expect("afterwards", tt.then...)
		})
	}
}

func TestWhichPullRequestsGetAReport(t *testing.T) {
	tests := []struct {
		name string
		do   func(s *stage)
		want []string
		open int32
	}{
		{"a pull request into another branch is none of the Sync's", func(s *stage) { s.board.open[0].Base.Name = "other" }, []string{"list"}, 0},
		{"a fork is counted and not planned", func(s *stage) { s.board.open[0].Fork = true }, []string{"list"}, 1},
		{"a fork is planned where the Sync declares so", func(s *stage) {
			s.board.open[0].Fork = true
			s.change(func(y *v1alpha1.Sync) { y.Spec.PullRequests.Forks = true })
		}, []string{"list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success"}, 1},
		{"a head that is gone is counted and not planned", func(s *stage) { s.board.open[0].Head.SHA = "" }, []string{"list"}, 1},
		{"the branch is the Sync's", func(s *stage) {
			s.board.open[0].Base.Name = "live"
			s.change(func(y *v1alpha1.Sync) { y.Spec.Source.Git.Ref.Branch = "live" })
		}, []string{"list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success"}, 1},
		{"nothing is published about a change that does not touch the cluster", func(s *stage) { s.oracle.plan = s.nothing },
			[]string{"list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "status aaaaaaa poolwright/plan (prod): success"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			s.offer(1, sha("a"))
			tt.do(s)
			s.pass()
			s.expect("told", tt.want...)
			if got := s.status().Open; got != tt.open {
				t.Errorf("%d open", got)
			}
			s.later(30 * time.Second)
			s.expect("after that", "list")
		})
	}
	t.Run("a comment that is there is put right when the change leaves the cluster alone", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		before := s.comment(1).Body
		s.oracle.plan = s.nothing
		s.board.find(1).Head.SHA = sha("b")
		s.later(30 * time.Second)
		if got := s.comment(1).Body; got == before || strings.Contains(got, "gpu") {
			t.Errorf("it says %s", got)
		}
	})
	t.Run("a closed pull request is dropped", func(t *testing.T) {
		s := newStage(t)
		s.offer(1, sha("a"))
		s.pass()
		s.shut(1)
		s.later(30 * time.Second)
		if got := s.status(); got.Open != 0 || len(got.Items) != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("two Syncs on one repository do not get in each other's way", func(t *testing.T) {
		young := newSync("young")
		young.CreationTimestamp.Time = dawn.Add(time.Hour)
		young.Spec.Source.Git.URL = "https://Forge/o/r/"
		s := newStage(t, newSync(stageName.Name), young)
		s.offer(1, sha("a"))
		s.pass()
		s.expect("the older", "list", "status aaaaaaa poolwright/plan (prod): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
		s.passOf("young")
		s.expect("the younger", "list", "status aaaaaaa poolwright/plan (prod/young): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod/young): success")
		if len(s.board.comments) != 2 {
			t.Errorf("%d comments", len(s.board.comments))
		}
		s.pass()
		s.expect("the older again", "list")
	})
	t.Run("a Sync whose older one on the repository is not selected keeps away from that one's status", func(t *testing.T) {
		young := newSync("young")
		young.CreationTimestamp.Time = dawn.Add(time.Hour)
		s := newStage(t, newSync(stageName.Name), young)
		// The cache has only the Syncs that are selected.
		s.r.Client = interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
				list.(*v1alpha1.SyncList).Items = []v1alpha1.Sync{*young}
				return nil
			},
		})
		s.offer(1, sha("a"))
		s.passOf("young")
		s.expect("the younger", "list", "status aaaaaaa poolwright/plan (prod/young): pending", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod/young): success")
	})
}

func TestDetailsThatChangeAllDayAreReportedNowAndThen(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	plan := s.oracle.plan
	n := 0
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		p, err := plan(pr)
		n++
		p.Report.Changes[0].Fields[0].Before = n
		return p, err
	}
	s.pass()
	s.calls()
	s.later(5 * time.Minute)
	s.later(5 * time.Minute)
	s.expect("details", "list", "list")
	s.later(5 * time.Minute)
	s.expect("details, after a while", "list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
	s.later(5 * time.Minute)
	s.expect("details again", "list")
	s.restart()
	s.pass()
	s.expect("details after a restart", "list")
	s.oracle.plan = s.replacing(9)
	s.later(5 * time.Minute)
	s.expect("more than details", "list", "comment #1", "write #1", "status aaaaaaa poolwright/plan (prod): success")
}

func TestALaterListingTakesPrecedence(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	s.offer(2, sha("b"))
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		s.clock.Step(3 * time.Second)
		s.shut(1) // while #2 is planned
		return plan(pr)
	}
	s.pass()
	s.expect("planned", "list", "status bbbbbbb poolwright/plan (prod): pending", "list", "comment #2", "write #2", "status bbbbbbb poolwright/plan (prod): success")
}
