package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// sha is a commit's name made of one letter.
func sha(letter string) string { return strings.Repeat(letter, 40) }

// board is a forge in memory.
type board struct {
	open, merged []forge.PullRequest
	// comments are bodies and tails by number and marker.
	comments map[string]forge.Comment
	statuses map[string]forge.Status
	checks   map[string]forge.Check
	// calls are what was asked of the forge since they were last cleared.
	calls []string
	// fail is what goes wrong with a call, before it does anything.
	fail func(call string) error
}

func (b *board) call(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	b.calls = append(b.calls, call)
	if b.fail == nil {
		return nil
	}
	return b.fail(call)
}

func (b *board) PullRequests(context.Context, forge.Listing) (forge.Listing, error) {
	return forge.Listing{Open: slices.Clone(b.open), Merged: slices.Clone(b.merged)}, b.call("list")
}

func place(number int, marker forge.Marker) string { return fmt.Sprintf("#%d %s", number, marker) }

func (b *board) Comment(_ context.Context, number int, c forge.Comment) (forge.PostedComment, error) {
	if err := b.call("comment #%d", number); err != nil {
		return forge.PostedComment{}, err
	}
	before, there := b.comments[place(number, c.Marker)]
	if !there && c.EditOnly {
		return forge.PostedComment{}, nil
	}
	c.EditOnly = false
	if c.Body == "" {
		c.Body = before.Body
	}
	if c != before {
		b.calls = append(b.calls, fmt.Sprintf("write #%d", number))
	}
	b.comments[place(number, c.Marker)] = c
	return forge.PostedComment{URL: fmt.Sprintf("https://forge/%d#comment", number), Written: c != before}, nil
}

func (b *board) Status(_ context.Context, commit string, s forge.Status) error {
	if err := b.call("status %s %s: %s", short(commit), s.Context, s.State); err != nil {
		return err
	}
	b.statuses[short(commit)+" "+s.Context] = s
	return nil
}

// Check is a status too, as at a forge without checks.
func (b *board) Check(ctx context.Context, commit string, c forge.Check) error {
	if err := b.Status(ctx, commit, c.Status); err != nil {
		return err
	}
	b.checks[short(commit)+" "+c.Context] = c
	return nil
}

func (b *board) Limit() int { return 60000 }

// find returns the open pull request.
func (b *board) find(number int) *forge.PullRequest {
	for i := range b.open {
		if b.open[i].Number == number {
			return &b.open[i]
		}
	}
	return nil
}

// oracle is a planner in memory.
type oracle struct {
	plan     func(pr forge.PullRequest) (oraclePlan, error)
	plans    []int
	stale    []provision.Node
	costs    map[string]provision.Amount
	since    []time.Time
	drift    report.Report
	drifts   int
	contains map[string]bool
	err      error
}

// oraclePlan is what the oracle plans for one pull request.
type oraclePlan struct {
	Report     report.Report
	Head, Base string
	Reviewed   *v1alpha1.ReviewedDisruption
	Took       time.Duration
}

func (o *oracle) Plan(_ context.Context, pr forge.PullRequest) (report.Report, *v1alpha1.ReviewedDisruption, time.Duration, error) {
	o.plans = append(o.plans, pr.Number)
	p, err := o.plan(pr)
	var provenance report.Provenance
	if p.Report.Provenance != nil {
		provenance = *p.Report.Provenance
	}
	provenance.HeadCommit, provenance.BaseCommit = p.Head, p.Base
	p.Report.Provenance = &provenance
	return p.Report, p.Reviewed, p.Took, err
}

func (o *oracle) PendingReplacement(_ context.Context, since time.Time) (NodeReplacements, error) {
	o.since = append(o.since, since)
	return NodeReplacements{Pending: o.stale, PoolCosts: o.costs}, o.err
}

func (o *oracle) Drift(context.Context) (report.Report, error) {
	o.drifts++
	return o.drift, o.err
}

func (o *oracle) Contains(_ context.Context, applied, merge string) (bool, error) {
	return o.contains[applied+merge], o.err
}

// stage is a Sync, a forge and a planner.
type stage struct {
	*testing.T
	r        *Reconciler
	board    *board
	oracle   *oracle
	clock    *clocktesting.FakeClock
	events   *record.FakeRecorder
	registry *prometheus.Registry
	client   client.Client
	patches  int
	// refuse is what a status patch fails with.
	refuse error
	// built counts the sessions, stale lets the next one be built.
	built    int
	outdated bool
	noBuild  error
}

var stageName = types.NamespacedName{Namespace: "poolwright-system", Name: "dev"}

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newSync is a Sync that comments on pull requests.
func newSync(name string) *v1alpha1.Sync {
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{
		Namespace: stageName.Namespace, Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(dawn),
	}}
	sync.Spec.Source.Git.URL = "https://forge/o/r.git"
	sync.Spec.PullRequests = &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitea, HoursPerDay: 24}
	sync.Status.LastAttemptedRevision = "main@sha1:" + sha("0")
	sync.Status.LastAppliedRevision = sync.Status.LastAttemptedRevision
	return sync
}

func newStage(t *testing.T, syncs ...*v1alpha1.Sync) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if len(syncs) == 0 {
		syncs = []*v1alpha1.Sync{newSync(stageName.Name)}
	}
	s := &stage{
		T: t, clock: clocktesting.NewFakeClock(dawn),
		board:  &board{comments: map[string]forge.Comment{}, statuses: map[string]forge.Status{}, checks: map[string]forge.Check{}},
		oracle: &oracle{contains: map[string]bool{}},
	}
	s.oracle.plan = s.replacing(4)
	objects := make([]client.Object, 0, len(syncs))
	for _, sync := range syncs {
		objects = append(objects, sync)
	}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Sync{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			s.patches++
			if s.refuse != nil {
				return s.refuse
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		}}).Build()
	s.restart()
	return s
}

// restart makes another process of it.
func (s *stage) restart() {
	s.Helper()
	s.registry, s.events = prometheus.NewRegistry(), record.NewFakeRecorder(100)
	metrics, err := NewMetrics(s.registry)
	if err != nil {
		s.Fatal(err)
	}
	s.r = &Reconciler{
		Client: s.client, AllSyncs: s.client, Namespace: stageName.Namespace, Recorder: s.events, Metrics: metrics, Clock: s.clock, Jitter: jitter.NoJitter,
		Build: func(context.Context, *v1alpha1.Sync) (ForgeAccess, error) {
			s.built++
			s.outdated = false
			return ForgeAccess{Forge: s.board, Planner: s.oracle, Cluster: "prod", Identity: "cluster-uid",
				Outdated: func(context.Context) bool { return s.outdated }}, s.noBuild
		},
	}
	r := s.r
	s.Cleanup(r.states.close)
}

// replacing plans that n nodes are replaced.
func (s *stage) replacing(n int32) func(forge.PullRequest) (oraclePlan, error) {
	return func(pr forge.PullRequest) (oraclePlan, error) {
		base := commit(s.sync().Status.LastAttemptedRevision)
		change := report.Change{Object: report.Object{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}, Action: "update",
			Fields: []report.Field{{Path: "spec.weight", Before: 1, After: n}}}
		return oraclePlan{
			Head: pr.Head.SHA, Base: base,
			Report: report.Report{
				Changes: []report.Change{change}, Summary: report.Summary{Update: 1},
				Provenance: &report.Provenance{Cluster: "prod", BaseCommit: base, HeadCommit: pr.Head.SHA, Observed: s.clock.Now()},
			},
			Reviewed: &v1alpha1.ReviewedDisruption{Objects: []v1alpha1.ReviewedObject{reviewed("NodePool", "gpu", "1")}, NodesReplaced: n},
		}, nil
	}
}

func reviewed(kind, name, hash string) v1alpha1.ReviewedObject {
	return v1alpha1.ReviewedObject{Kind: kind, Name: name, Hash: hash}
}

// nothing plans that the cluster is not touched.
func (s *stage) nothing(pr forge.PullRequest) (oraclePlan, error) {
	base := commit(s.sync().Status.LastAttemptedRevision)
	return oraclePlan{Head: pr.Head.SHA, Base: base, Report: report.Report{Provenance: &report.Provenance{HeadCommit: pr.Head.SHA, BaseCommit: base}}}, nil
}

// offer opens a pull request.
func (s *stage) offer(number int, head string) {
	s.board.open = append(s.board.open, forge.PullRequest{
		Number: number, Title: "<b>@all</b>", Author: "ada", URL: fmt.Sprintf("https://forge/%d", number),
		Head: forge.Branch{Name: fmt.Sprintf("b%d", number), SHA: head}, Base: forge.Branch{Name: "main", SHA: sha("0")}, Updated: s.clock.Now(),
	})
}

// merge merges an open pull request.
func (s *stage) merge(number int, commit string) {
	s.Helper()
	pr := s.board.find(number)
	if pr == nil {
		s.Fatalf("#%d is not open", number)
	}
	done := *pr
	done.Merged, done.MergeCommit = s.clock.Now(), commit
	s.shut(number)
	s.board.merged = append([]forge.PullRequest{done}, s.board.merged...)
}

// shut closes a pull request.
func (s *stage) shut(number int) {
	s.board.open = slices.DeleteFunc(s.board.open, func(pr forge.PullRequest) bool { return pr.Number == number })
}

// pass reconciles once, and is when the next pass is.
func (s *stage) pass() time.Duration {
	s.Helper()
	return s.passOf(stageName.Name)
}

func (s *stage) passOf(name string) time.Duration {
	s.Helper()
	result, err := s.r.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: stageName.Namespace, Name: name}})
	if err != nil {
		s.Fatal(err)
	}
	return result.RequeueAfter
}

// later lets time pass, and reconciles.
func (s *stage) later(d time.Duration) time.Duration {
	s.Helper()
	s.clock.Step(d)
	return s.pass()
}

func (s *stage) sync() *v1alpha1.Sync {
	s.Helper()
	var sync v1alpha1.Sync
	if err := s.client.Get(s.Context(), stageName, &sync); err != nil {
		s.Fatal(err)
	}
	return &sync
}

// change edits the Sync's status as the Git loop would.
func (s *stage) change(edit func(*v1alpha1.Sync)) {
	s.Helper()
	sync := s.sync()
	edit(sync)
	status := sync.Status
	if err := s.client.Update(s.Context(), sync); err != nil {
		s.Fatal(err)
	}
	sync.Status = status
	if err := s.client.Status().Update(s.Context(), sync); err != nil {
		s.Fatal(err)
	}
}

// status is the status, never nil.
func (s *stage) status() v1alpha1.PullRequestsStatus {
	s.Helper()
	if p := s.sync().Status.PullRequests; p != nil {
		return *p
	}
	return v1alpha1.PullRequestsStatus{}
}

// item is what the status says of a pull request.
func (s *stage) item(number int64) v1alpha1.PullRequestStatus {
	s.Helper()
	for _, i := range s.status().Items {
		if i.Number == number {
			return i
		}
	}
	return v1alpha1.PullRequestStatus{}
}

// comment is the only one of a pull request.
func (s *stage) comment(number int) forge.Comment {
	s.Helper()
	var found []forge.Comment
	for _, at := range slices.Sorted(maps.Keys(s.board.comments)) {
		if strings.HasPrefix(at, fmt.Sprintf("#%d ", number)) {
			found = append(found, s.board.comments[at])
		}
	}
	if len(found) > 1 {
		s.Errorf("#%d has %d comments", number, len(found))
	}
	return cmp.Or(append(found, forge.Comment{})[0], forge.Comment{})
}

// calls returns what the forge was asked since the last time.
func (s *stage) calls() string {
	out := strings.Join(s.board.calls, "\n")
	s.board.calls = nil
	return out
}

// expect compares what the forge was asked since the last time.
func (s *stage) expect(what string, calls ...string) {
	s.Helper()
	if got, want := s.calls(), strings.Join(calls, "\n"); got != want {
		s.Errorf("%s: the forge was asked\n%s\nwant\n%s", what, got, want)
	}
}

func (s *stage) eventually() []string {
	var out []string
	for {
		select {
		case e := <-s.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

var errBoom = errors.New("boom")
