package pullrequest

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/pullrequest/internal/limits"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// by makes an open pull request somebody else's.
func (s *stage) by(author string, number int, head string) {
	s.Helper()
	s.offer(number, head)
	s.board.find(number).Author = author
}

// taking lets each plan of an author work that long.
func (s *stage) taking(author string, d time.Duration) {
	plan := s.oracle.plan
	s.oracle.plan = func(pr forge.PullRequest) (oraclePlan, error) {
		out, err := plan(pr)
		if pr.Author == author {
			s.clock.Step(d)
			out.Took = d
		}
		return out, err
	}
}

func TestWhoPushesAllTheTimeKeepsNobodyFromBeingPlanned(t *testing.T) {
	s := newStage(t)
	s.by("ada", 1, sha("a"))
	s.by("eve", 2, sha("b"))
	s.pass()
	s.taking("eve", 20*time.Second)
	s.change(func(sync *v1alpha1.Sync) { sync.Status.LastAttemptedRevision = "main@sha1:" + sha("1") })
	s.oracle.plans = nil
	for n := range 4 {
		s.board.find(2).Head.SHA = fmt.Sprintf("%040x", n+1)
		s.later(time.Second)
	}
	if got := fmt.Sprint(s.oracle.plans); !strings.Contains(got, "1") {
		t.Errorf("planned %s: ada's waits for ever, as eve's newest push is more urgent", got)
	}
	if eve := s.r.states.open[stageName].usage; eve.Of("eve", s.clock.Now()) < 40*time.Second || eve.Of("ada", s.clock.Now()) != 0 {
		t.Errorf("used: %v", eve)
	}
}

func TestAnAuthorWhoHasUsedTheirShareWaits(t *testing.T) {
	s := newStage(t)
	for number := range 5 {
		s.by("eve", number+1, fmt.Sprintf("%040x", 1000+number))
	}
	s.taking("eve", 2*time.Minute)
	for n := range 20 {
		s.board.find(n%5 + 1).Head.SHA = fmt.Sprintf("%040x", n+1)
		s.later(time.Second)
	}
	planned := len(s.oracle.plans)
	if planned > 8 {
		t.Errorf("%d plans of two minutes each in %s", planned, s.clock.Since(dawn))
	}
	s.later(20 * time.Minute)
	if len(s.oracle.plans) <= planned {
		t.Error("is never planned again")
	}
}

func TestSoManyOpenPullRequestsArePlanned(t *testing.T) {
	s := newStage(t)
	for n := 1; n <= 300; n++ {
		s.by("eve", n, fmt.Sprintf("%07x%033x", n, n))
	}
	s.by("ada", 301, sha("a"))
	s.pass()
	if n := len(s.oracle.plans); n != limits.MaxPlannedPerAuthor+1 || s.oracle.plans[0] != 301 {
		t.Errorf("planned %d, the first #%d", n, s.oracle.plans[0])
	}
	for pass := 2; pass <= 50; pass++ {
		s.later(30 * time.Second)
	}
	reported := 0
	for at, status := range s.board.statuses {
		if strings.HasPrefix(status.Description, "not planned: 100 open pull requests of its author") && status.State == forge.Errored {
			reported++
		} else if strings.HasPrefix(status.Description, "not planned") {
			t.Errorf("%s: %+v", at, status)
		}
	}
	if reported != 200 {
		t.Errorf("%d are told that they are not planned", reported)
	}
	s.calls()
	s.later(30 * time.Second)
	s.expect("nothing is said twice", "list")

	// Where one is closed, the next has its turn.
	s.shut(1)
	s.oracle.plans = nil
	s.later(30 * time.Second)
	if got := fmt.Sprint(s.oracle.plans); !strings.HasPrefix(got, "[101") {
		t.Errorf("planned %s", got)
	}

	many := newStage(t)
	for n := 1; n <= 300; n++ {
		many.by(fmt.Sprint("author", n%150), n, fmt.Sprintf("%040x", n))
	}
	many.pass()
	authors := map[int]bool{}
	for _, n := range many.oracle.plans {
		authors[n%150] = true
	}
	if len(many.oracle.plans) != limits.MaxPlanned || len(authors) != 150 {
		t.Errorf("planned %d of %d authors", len(many.oracle.plans), len(authors))
	}
}

func TestAPlanThatStaysTheSameIsMadeAgainEverMoreRarely(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	s.pass()
	plans := func(d time.Duration) int {
		before := len(s.oracle.plans)
		for range int(d / (30 * time.Second)) {
			s.later(30 * time.Second)
		}
		return len(s.oracle.plans) - before
	}
	if n := plans(time.Hour); n != 3 { // After 5, 15 and 35 minutes.
		t.Errorf("%d plans in the first hour", n)
	}
	s.oracle.plan = s.replacing(5) // Nodes came.
	plans(maxReplanInterval + time.Minute)
	if n := plans(10 * time.Minute); n != 1 {
		t.Errorf("%d plans in the ten minutes after it came to something else", n)
	}
}

func TestWhatTakesLongIsNotMadeAgainSoon(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	s.taking("ada", 2*time.Minute)
	s.pass()
	for range 38 {
		s.later(30 * time.Second)
	}
	if len(s.oracle.plans) != 1 {
		t.Errorf("a plan that took two minutes was made %d times in twenty", len(s.oracle.plans))
	}
}

// flood is a forge that keeps nothing.
type flood struct{ open []forge.PullRequest }

func (f *flood) PullRequests(context.Context, forge.Listing) (forge.Listing, error) {
	return forge.Listing{Open: f.open}, nil
}
func (f *flood) Comment(context.Context, int, forge.Comment) (forge.PostedComment, error) {
	return forge.PostedComment{Written: true}, nil
}
func (f *flood) Status(context.Context, string, forge.Status) error { return nil }
func (f *flood) Limit() int                                         { return 256 << 10 }

// bulky plans what changes thousands of pools with long names, each time otherwise.
func bulky(s *stage) func(forge.PullRequest) (oraclePlan, error) {
	return func(pr forge.PullRequest) (oraclePlan, error) {
		p := oraclePlan{Head: pr.Head.SHA, Base: sha("0"), Reviewed: &v1alpha1.ReviewedDisruption{}}
		for n := range 1000 {
			name := fmt.Sprintf("%s-%d-%s", pr.Head.SHA, n, strings.Repeat("x", 200))
			p.Report.Changes = append(p.Report.Changes, report.Change{Object: report.Object{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: name}, Action: "create"})
			if n < 50 || pr.Number%2 == 0 { // Just within the bound of one, or far above it.
				p.Reviewed.Objects = append(p.Reviewed.Objects, reviewed("NodePool", name, "1"))
				p.Reviewed.Pools = append(p.Reviewed.Pools, v1alpha1.ReviewedPool{Name: name})
			}
		}
		p.Report.Summary.Create = 1000
		p.Report.Provenance = &report.Provenance{BaseCommit: sha("0"), HeadCommit: pr.Head.SHA, Observed: s.clock.Now()}
		return p, nil
	}
}

// heap is what lives after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAThousandPullRequestsLeaveLittleBehind(t *testing.T) {
	s := newStage(t)
	f := &flood{}
	s.r.Build = func(context.Context, *v1alpha1.Sync) (ForgeAccess, error) {
		return ForgeAccess{Forge: f, Planner: s.oracle, Cluster: "prod", Identity: "cluster-uid"}, nil
	}
	s.oracle.plan = bulky(s)
	s.pass()
	before := heap()
	for n := 1; n <= 1000; n++ {
		f.open = append(f.open, forge.PullRequest{
			Number: n, Title: strings.Repeat("t", 1024), Author: fmt.Sprint("author", n%20), URL: strings.Repeat("u", 1024),
			Head: forge.Branch{Name: strings.Repeat("b", 1024), SHA: fmt.Sprintf("%040x", n)}, Base: forge.Branch{Name: "main"}, Updated: s.clock.Now(),
		})
	}
	for push := range 3 {
		for i := range f.open {
			f.open[i].Head.SHA = fmt.Sprintf("%040x", (push+1)*10_000+i)
		}
		for range 5 {
			s.later(30 * time.Second)
		}
	}
	s.oracle.plans = slices.Clip(s.oracle.plans)
	grown := int64(heap()-before) / 1024
	kept, entries := 0, s.r.states.open[stageName].records
	for _, rec := range entries {
		kept += rec.commentBytes()
	}
	raw, err := json.Marshal(s.sync())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d plans; the heap grew by %d KiB, comments are %d KiB of that; the Sync has %d KiB", len(s.oracle.plans), grown, kept>>10, len(raw)>>10)
	if len(s.oracle.plans) < 3*limits.MaxPlanned {
		t.Errorf("only %d plans", len(s.oracle.plans))
	}
	if grown > 32<<10 || kept > maxCommentBytes {
		t.Errorf("the heap grew by %d KiB, %d KiB of comments are kept", grown, kept>>10)
	}
	if len(raw) > 512<<10 {
		t.Errorf("the Sync has %d bytes, which etcd would refuse with its managed fields", len(raw))
	}
	f.open = nil
	s.later(30 * time.Second)
	if len(s.r.states.open[stageName].records) > 0 {
		t.Errorf("%d pull requests are closed and not dropped", len(entries))
	}
}

func TestACommentThatIsNotKeptAnyMoreIsMadeAgainByAnotherPlan(t *testing.T) {
	s := newStage(t)
	s.offer(1, sha("a"))
	s.pass()
	before := s.comment(1)
	rec := s.r.states.open[stageName].records[1]
	rec.publication, rec.good = nil, nil // As shed does.
	clear(s.board.comments)              // A person deletes it.
	s.clock.Step(time.Second)
	s.board.find(1).Updated = s.clock.Now()
	s.pass()
	if len(s.oracle.plans) != 2 || s.comment(1).Body != before.Body {
		t.Errorf("planned %v, the comment is %q", s.oracle.plans, s.comment(1).Body)
	}
}

func TestWaitingForOthersIsChargedToNobody(t *testing.T) {
	s := newStage(t)
	s.by("ada", 1, sha("a"))
	s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) {
		s.clock.Step(PlanTime)
		return oraclePlan{}, fmt.Errorf("waiting for other children to end: %w", context.DeadlineExceeded)
	}
	for n := range 12 {
		s.board.find(1).Head.SHA = fmt.Sprintf("%040x", n+1)
		s.later(time.Second)
		if len(s.oracle.plans) != n+1 {
			t.Fatalf("push %d is not planned", n+1)
		}
	}
	open := s.r.states.open[stageName]
	if used, lasts := open.usage.Of("ada", s.clock.Now()), open.records[1].replanInterval(); used != 0 || lasts != planValidity {
		t.Errorf("charged %s, and planned again after %s", used, lasts)
	}
}

func TestWhatFailedIsChargedForItsWork(t *testing.T) {
	s := newStage(t)
	s.by("eve", 1, sha("a"))
	s.oracle.plan = func(forge.PullRequest) (oraclePlan, error) { return oraclePlan{Took: time.Minute}, errBoom }
	s.pass()
	if used := s.r.states.open[stageName].usage.Of("eve", s.clock.Now()); used != time.Minute {
		t.Errorf("charged %s", used)
	}
}

// TestAPullRequestLeavesItsAuthorAShare is about who may push to the branch of another's
// pull request.
func TestAPullRequestLeavesItsAuthorAShare(t *testing.T) {
	s := newStage(t)
	s.by("ada", 1, sha("a"))
	s.taking("ada", time.Minute)
	for n := range 20 {
		s.board.find(1).Head.SHA = fmt.Sprintf("%040x", n+1)
		s.later(time.Second)
	}
	if n := len(s.oracle.plans); n != 6 { // One more than its five minutes.
		t.Errorf("%d plans of one minute each", n)
	}
	s.oracle.plans = nil
	s.by("ada", 2, sha("b"))
	s.later(time.Second)
	if got := fmt.Sprint(s.oracle.plans); got != "[2]" {
		t.Errorf("planned %s: another one of hers waits", got)
	}
}
