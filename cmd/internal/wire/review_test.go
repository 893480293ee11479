package wire

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/provision/catalog"
	"github.com/poolwright/poolwright/provision/engine"
	"github.com/poolwright/poolwright/provision/simulate"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/impact"
	"github.com/poolwright/poolwright/reconciler/impact/impacttest"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// fewRevisions is a repository in which heads lie before the tip of a branch, and that counts
// how often it is asked for them.
type fewRevisions struct {
	tip   string
	heads map[string]string
	count int
	err   error
	// forgets is true once its mirror does not hold what was compared any more.
	forgets bool
}

func (c *fewRevisions) Compare(_ context.Context, _, head string) (gitsource.Comparison, error) {
	c.count++
	out := between()
	out.Base.Commit, out.Head.Commit = c.tip, c.heads[head]
	return out, c.err
}

func (c *fewRevisions) Recall(base, head gitsource.Revision) (gitsource.Comparison, bool) {
	out := between()
	out.Base.Commit, out.Head.Commit = base.Commit, head.Commit
	return out, !c.forgets
}

func (c *fewRevisions) Contains(context.Context, string, string, string) (bool, error) {
	return false, nil
}

// stageReview is a reviewer of pull request 1 into branch main, which the Sync looked at
// last when it stood at base1. pods counts how often all pods were read.
func stageReview(t *testing.T, edit func(*v1alpha1.Sync)) (r *reviewer, git *fewRevisions, pods *int) {
	t.Helper()
	if _, err := DirectClient(&rest.Config{Host: "http://127.0.0.1:1"}); err != nil { // registers the kinds
		t.Fatal(err)
	}
	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Name: "main", Namespace: "poolwright"}}
	sync.Spec.Path, sync.Status.LastAttemptedRevision = "p", "main@sha1:base1"
	if edit != nil {
		edit(sync)
	}
	pods = new(int)
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(append(impacttest.Live(t), sync)...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				*pods++
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
	was, is := poolItem("a", 1), poolItem("a", 2)
	p := steps{parted: loaded(was), base: loaded(was), head: loaded(is), live: seen(was)}.proposer()
	p.forecast = impact.Live(func(ctx context.Context) (*v1alpha1.Cluster, error) {
		now, err := readStance(ctx, live)
		return now.cluster, err
	}, &impact.Fleet{Reader: live, MaxAge: fleetMaxAge, Observed: p.seen.note}, simulateHere)
	git = &fewRevisions{tip: "base1", heads: map[string]string{"refs/pull/1/head": "head1", "refs/pull/2/head": "head2"}}
	return &reviewer{proposer: p, repository: git, sync: sync, live: live, clock: clock.RealClock{}}, git, pods
}

// simulateHere runs in this process; a test's binary cannot be the child.
func simulateHere(ctx context.Context, cluster v1alpha1.ClusterSpec, before, after provision.Fleet) (provision.Forecast, error) {
	types, err := catalog.Load()
	if err != nil {
		return provision.Forecast{}, err
	}
	return simulate.Compare(engine.Offline(ctx, EngineSettings(cluster)), before, after, types)
}

func TestAnIdlePullRequestCostsNoRequestToGitAndOneLookAtTheFleet(t *testing.T) {
	r, git, pods := stageReview(t, nil)
	for range 3 {
		for number, head := range map[int]string{1: "head1", 2: "head2"} {
			told, err := r.Plan(t.Context(), forge.PullRequest{Number: number, Head: forge.Branch{SHA: head}})
			if err != nil {
				t.Fatal(err)
			}
			if told.Head != head || told.Base != "base1" || len(told.Report.Changes) != 1 || told.Report.Forecast == nil {
				t.Fatalf("#%d: %+v", number, told)
			}
		}
	}
	if git.count != 2 || *pods != 1 {
		t.Errorf("six plans of two pull requests asked Git %d times and read all pods %d times", git.count, *pods)
	}
}

func TestGitIsAskedAgain(t *testing.T) {
	at := func(sha string) forge.PullRequest { return forge.PullRequest{Number: 1, Head: forge.Branch{SHA: sha}} }
	first, second := at("head1"), at("head2")
	second.Number = 2
	attempted := func(t *testing.T, r *reviewer, revision string) {
		sync, err := r.current(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sync.Status.LastAttemptedRevision = revision
		writer, _ := r.live.(client.Client)
		if err := writer.Update(t.Context(), sync); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct {
		edit func(*v1alpha1.Sync)
		// between are the plan that is remembered and the one that is asked for.
		between func(t *testing.T, r *reviewer, git *fewRevisions) forge.PullRequest
		want    int
	}{
		"not while nothing moved": {nil, func(*testing.T, *reviewer, *fewRevisions) forge.PullRequest { return first }, 1},
		"when the head moved":     {nil, func(*testing.T, *reviewer, *fewRevisions) forge.PullRequest { return at("head9") }, 2},
		"when the forge's base moved": {nil, func(*testing.T, *reviewer, *fewRevisions) forge.PullRequest {
			p := first
			p.Base.SHA = "base9"
			return p
		}, 2},
		"when the Sync saw another base": {nil, func(t *testing.T, r *reviewer, _ *fewRevisions) forge.PullRequest {
			attempted(t, r, "main@sha1:base2")
			return first
		}, 2},
		"when another comparison found another base": {nil, func(t *testing.T, r *reviewer, git *fewRevisions) forge.PullRequest {
			git.tip = "base2"
			if _, err := r.Plan(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			return first
		}, 3},
		"when the plan failed": {nil, func(t *testing.T, r *reviewer, git *fewRevisions) forge.PullRequest {
			kept := r.renders.kept
			r.renders.kept = nil
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := r.Plan(ctx, first); err == nil {
				t.Fatal("there is nothing rendered, and no time for it")
			}
			r.renders.kept = kept
			return first
		}, 2},
		"when the mirror was replaced": {nil, func(_ *testing.T, _ *reviewer, git *fewRevisions) forge.PullRequest {
			git.forgets = true
			return first
		}, 2},
		"while the Sync is suspended": {func(s *v1alpha1.Sync) { s.Spec.Suspend = true }, func(*testing.T, *reviewer, *fewRevisions) forge.PullRequest { return first }, 2},
		"while the Sync looked at nothing yet": {
			func(s *v1alpha1.Sync) { s.Status.LastAttemptedRevision = "" }, func(*testing.T, *reviewer, *fewRevisions) forge.PullRequest { return first }, 2,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, git, _ := stageReview(t, tt.edit)
			if _, err := r.Plan(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			pr := tt.between(t, r, git)
			git.heads["refs/pull/1/head"] = pr.Head.SHA
			told, err := r.Plan(t.Context(), pr)
			if err != nil {
				t.Fatal(err)
			}
			if git.count != tt.want || told.Head != pr.Head.SHA || told.Base != git.tip {
				t.Errorf("Git was asked %d times, not %d; told are %s and %s", git.count, tt.want, told.Head, told.Base)
			}
		})
	}
}

func TestWhatGitRefusesIsNotRemembered(t *testing.T) {
	r, git, _ := stageReview(t, nil)
	pr := forge.PullRequest{Number: 1, Head: forge.Branch{SHA: "head1"}}
	git.err = gitsource.ErrUnreachable
	if _, err := r.Plan(t.Context(), pr); err == nil {
		t.Error("Git is away")
	}
	git.err = nil
	if _, err := r.Plan(t.Context(), pr); err != nil {
		t.Error(err)
	}
}

func TestTheMirrorOfPullRequestsGoesWithThem(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1alpha1.Sync)
		gone bool
		want bool
	}{
		"it stays while only the session is built anew":         {func(s *v1alpha1.Sync) { s.Spec.PullRequests = &v1alpha1.PullRequests{} }, false, true},
		"it goes when the Sync has pull requests no more":       {nil, false, false},
		"it stays where nobody knows, and Forget takes it away": {nil, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, _, _ := stageReview(t, tt.edit)
			direct, _ := r.live.(client.Client)
			if tt.gone {
				if err := direct.Delete(t.Context(), r.sync.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			mirror := newMirrors(Config{CacheDir: t.TempDir()}).pullRequestsDir(r.sync)
			if err := os.MkdirAll(filepath.Join(mirror, "gen-1"), 0o700); err != nil {
				t.Fatal(err)
			}
			a := &attempt{direct: direct, cfg: Config{Logger: logr.Discard()}}
			a.unmirror(r.sync, mirror)
			_, err := os.Stat(mirror)
			if diff := cmp.Diff(tt.want, err == nil); diff != "" {
				t.Errorf("there is a mirror (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnApplyDoesNotWaitForTheChildrenOfPullRequests(t *testing.T) {
	c := newChildren()
	if c.ahead.Limits.Deadline != impact.Timeout {
		t.Errorf("a child that forecasts before an apply may run %s, not %s", c.ahead.Limits.Deadline, impact.Timeout)
	}
	if c.followed.Proposal || c.ahead.Proposal || !c.proposed.Proposal {
		t.Error("pull requests may take every slot, or an apply may not")
	}
	if of := c.forPullRequests("https://forge/o/r"); of.Repository != "https://forge/o/r" || !of.Proposal || c.proposed.Repository != "" {
		t.Errorf("the children of a repository's pull requests: %+v", of)
	}
	if c.followed.Semaphore != nil || c.ahead.Semaphore != nil || c.proposed.Semaphore != nil {
		t.Error("not all children share the slots of the process")
	}
}
