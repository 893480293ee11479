package preview

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/declared/substitute"
	"github.com/poolwright/poolwright/reconciler/forecasting"
	"github.com/poolwright/poolwright/reconciler/forecasting/forecasttest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// fewRevisions is a repository in which heads lie before the tip of a branch, and that counts
// how often it is asked for them.
type fewRevisions struct {
	tip   string
	heads map[string]string
	count int
	err   error
	// evicted is true once its cache does not hold what was compared any more.
	evicted bool
}

func (c *fewRevisions) Compare(_ context.Context, _, head string) (gitsource.Comparison, error) {
	c.count++
	out := between()
	out.Base.Commit, out.Head.Commit = c.tip, c.heads[head]
	return out, c.err
}

func (c *fewRevisions) CompareCached(base, head gitsource.Revision) (gitsource.Comparison, bool) {
	out := between()
	out.Base.Commit, out.Head.Commit = base.Commit, head.Commit
	return out, !c.evicted
}

func (c *fewRevisions) Contains(context.Context, string, string, string) (bool, error) {
	return false, nil
}

// failing renders nothing.
type failing struct{ inProcess }

func (failing) Render(context.Context, fs.FS, string, substitute.Values) ([]byte, error) {
	return nil, errors.New("the worker cannot be started")
}

// stageReview is a reviewer of pull request 1 into branch main, which the Sync looked at
// last when it stood at base1. pods counts how often all pods were read.
func stageReview(t *testing.T, edit func(*v1alpha1.Sync)) (r *Planner, git *fewRevisions, pods *int) {
	t.Helper()
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "poolwright"}}
	sync.Spec.Path, sync.Status.LastAttemptedRevision = "p", "main@sha1:base1"
	if edit != nil {
		edit(sync)
	}
	pods = new(int)
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(append(forecasttest.Live(t), sync)...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				*pods++
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	was, is := poolItem("a", 1), poolItem("a", 2)
	p := steps{mergeBase: loaded(was), base: loaded(was), head: loaded(is), live: liveItems(was)}.proposer()
	p.Forecast = forecasting.Live{Cluster: firstCluster(live), Snapshot: &forecasting.SnapshotReader{Reader: live, MaxAge: 10 * time.Second, Observed: p.ObservedAt.Add}, Simulate: simulateNothing}.Forecast
	git = &fewRevisions{tip: "base1", heads: map[string]string{"refs/pull/1/head": "head1", "refs/pull/2/head": "head2"}}
	return &Planner{Previewer: p, Revisions: git, Sync: sync, Live: live, Clock: clock.RealClock{}}, git, pods
}

// firstCluster reads the only Cluster; nil without one.
func firstCluster(live client.Reader) forecasting.LiveCluster {
	return func(ctx context.Context) (*v1alpha1.Cluster, error) {
		var all v1alpha1.ClusterList
		if err := live.List(ctx, &all); err != nil || len(all.Items) == 0 {
			return nil, err
		}
		return &all.Items[0], nil
	}
}

// simulateNothing forecasts that nothing happens.
func simulateNothing(context.Context, v1alpha1.ClusterSpec, provision.ClusterSnapshot, provision.ClusterSnapshot) (provision.Forecast, error) {
	return provision.Forecast{}, nil
}

func TestAnIdlePullRequestCostsNoRequestToGitAndOneReadOfTheCluster(t *testing.T) {
	r, git, pods := stageReview(t, nil)
	for range 3 {
		for number, head := range map[int]string{1: "head1", 2: "head2"} {
			reported, _, _, err := r.Plan(t.Context(), forge.PullRequest{Number: number, Head: forge.Branch{SHA: head}})
			if err != nil {
				t.Fatal(err)
			}
			if reported.Provenance.HeadCommit != head || reported.Provenance.BaseCommit != "base1" || len(reported.Changes) != 1 || reported.Forecast == nil {
				t.Fatalf("#%d: %+v", number, reported)
			}
		}
	}
	if git.count != 2 || *pods != 1 {
		t.Errorf("six plans of two pull requests asked Git %d times and read all pods %d times", git.count, *pods)
	}
}

func TestGitIsRequestedAgain(t *testing.T) {
	at := func(sha string) forge.PullRequest { return forge.PullRequest{Number: 1, Head: forge.Branch{SHA: sha}} }
	first, second := at("head1"), at("head2")
	second.Number = 2
	attempted := func(t *testing.T, r *Planner, revision string) {
		sync, err := r.current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sync.Status.LastAttemptedRevision = revision
		writer, _ := r.Live.(client.Client)
		if err := writer.Update(t.Context(), sync); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		edit func(*v1alpha1.Sync)
		// between are the plan that is remembered and the one that is asked for.
		between func(t *testing.T, r *Planner, git *fewRevisions) forge.PullRequest
		want    int
	}{
		"not while nothing moved": {nil, func(*testing.T, *Planner, *fewRevisions) forge.PullRequest { return first }, 1},
		"when the head moved":     {nil, func(*testing.T, *Planner, *fewRevisions) forge.PullRequest { return at("head9") }, 2},
		"when the forge's base moved": {nil, func(*testing.T, *Planner, *fewRevisions) forge.PullRequest {
			p := first
			p.Base.SHA = "base9"
			return p
		}, 2},
		"when the Sync observed another base": {nil, func(t *testing.T, r *Planner, _ *fewRevisions) forge.PullRequest {
			attempted(t, r, "main@sha1:base2")
			return first
		}, 2},
		"when another comparison found another base": {nil, func(t *testing.T, r *Planner, git *fewRevisions) forge.PullRequest {
			git.tip = "base2"
			if _, _, _, err := r.Plan(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			return first
		}, 3},
		"when the plan failed": {nil, func(t *testing.T, r *Planner, git *fewRevisions) forge.PullRequest {
			cache, working := r.Cache, r.Renderer
			r.Cache, r.Renderer = &rendercache.Cache{}, failing{}
			if _, _, _, err := r.Plan(t.Context(), first); err == nil {
				t.Fatal("nothing can be rendered")
			}
			r.Cache, r.Renderer = cache, working
			return first
		}, 2},
		"when the cache was replaced": {nil, func(_ *testing.T, _ *Planner, git *fewRevisions) forge.PullRequest {
			git.evicted = true
			return first
		}, 2},
		"while the Sync is suspended": {func(s *v1alpha1.Sync) { s.Spec.Suspend = true }, func(*testing.T, *Planner, *fewRevisions) forge.PullRequest { return first }, 2},
		"while the Sync observed nothing yet": {
			func(s *v1alpha1.Sync) { s.Status.LastAttemptedRevision = "" }, func(*testing.T, *Planner, *fewRevisions) forge.PullRequest { return first }, 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, git, _ := stageReview(t, tt.edit)
			if _, _, _, err := r.Plan(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			pr := tt.between(t, r, git)
			git.heads["refs/pull/1/head"] = pr.Head.SHA
			reported, _, _, err := r.Plan(t.Context(), pr)
			if err != nil {
				t.Fatal(err)
			}
			if git.count != tt.want || reported.Provenance.HeadCommit != pr.Head.SHA || reported.Provenance.BaseCommit != git.tip {
				t.Errorf("Git was asked %d times, not %d; told are %s and %s", git.count, tt.want, reported.Provenance.HeadCommit, reported.Provenance.BaseCommit)
			}
		})
	}
}

func TestWhatGitRefusesIsNotCached(t *testing.T) {
	r, git, _ := stageReview(t, nil)
	pr := forge.PullRequest{Number: 1, Head: forge.Branch{SHA: "head1"}}
	git.err = gitsource.ErrUnreachable
	if _, _, _, err := r.Plan(t.Context(), pr); err == nil {
		t.Error("Git is away")
	}
	git.err = nil
	if _, _, _, err := r.Plan(t.Context(), pr); err != nil {
		t.Error(err)
	}
}
