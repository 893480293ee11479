package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/gitsource/gogit"
	"github.com/poolwright/poolwright/provision/sandbox/gitlab"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/forgeclient"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/report"
	"github.com/poolwright/poolwright/reconciler/report/forge"
)

// fetchedPlanner fetches both commits of a merge request, and plans one update. There is no cluster that it could be compared with.
type fetchedPlanner struct{ repository *gogit.Repository }

// Plan implements pullrequest.Planner.
func (p fetchedPlanner) Plan(ctx context.Context, pr forge.PullRequest) (report.Report, *v1alpha1.ReviewedDisruption, time.Duration, error) {
	c, err := p.repository.Compare(ctx, "refs/heads/"+pr.Base.Name, pr.Ref())
	if err != nil {
		return report.Report{}, nil, 0, err
	}
	change := report.Change{Object: report.Object{Target: "kubernetes", Group: "karpenter.sh", Kind: "NodePool", Name: "gpu"}, Action: "update", Fields: []report.Field{{Path: "spec.weight", Before: 1, After: 2}}}
	return report.Report{
		Changes: []report.Change{change}, Summary: report.Summary{Update: 1},
		Provenance: &report.Provenance{Cluster: "dev", BaseCommit: c.Base.Commit, HeadCommit: c.Head.Commit, Observed: time.Now()},
	}, &v1alpha1.ReviewedDisruption{}, 0, nil
}

// PendingReplacement implements pullrequest.Planner.
func (fetchedPlanner) PendingReplacement(context.Context, time.Time) (pullrequest.NodeReplacements, error) {
	return pullrequest.NodeReplacements{}, nil
}

// Drift implements pullrequest.Planner.
func (fetchedPlanner) Drift(context.Context) (report.Report, error) { return report.Report{}, nil }

// Contains implements pullrequest.Planner.
func (fetchedPlanner) Contains(context.Context, string, string) (bool, error) { return false, nil }

// gitLabProject is a project with one merge request: its API, and its Git.
type gitLabProject struct {
	*gitlab.Server
	at   *httptest.Server
	bare string
}

func newGitLabProject(t *testing.T) *gitLabProject {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	p := &gitLabProject{bare: filepath.Join(root, "platform", "nodes.git"), Server: gitlab.New("platform/nodes", time.Now(), map[string]gitlab.User{"glpat-s3cret": {ID: 7, Name: "poolwright"}})}
	backend := &cgi.Handler{Path: git, Args: []string{"http-backend"}, Stderr: io.Discard, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}}
	mux := http.NewServeMux()
	mux.Handle("/api/v4/", p.Server)
	mux.Handle("/", backend)
	p.at = httptest.NewServer(mux)
	t.Cleanup(p.at.Close)
	return p
}

// setRef sets a reference of the repository, as GitLab does for the head of a merge request.
func (p *gitLabProject) setRef(t *testing.T, ref, commit string) {
	t.Helper()
	if out, err := exec.Command("git", "--git-dir", p.bare, "update-ref", ref, commit).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// proposes makes a commit the head of the merge request.
func (p *gitLabProject) proposes(t *testing.T, base, text string) (head string) {
	t.Helper()
	head = commitTo(t, p.bare, "a.yaml", text)
	p.setRef(t, "refs/merge-requests/1/head", head)
	p.setRef(t, "refs/heads/main", base)
	p.Change(func(now time.Time) { p.MergeRequests[0].SHA, p.MergeRequests[0].Updated = head, now })
	return head
}

// has checks that the merge request has one note, which is of a commit, and that this has one status. Of those of one name in a
// pipeline, GitLab shows the newest: one that has ended is not changed.
func (p *gitLabProject) has(t *testing.T, when, head string) {
	t.Helper()
	p.Change(func(time.Time) {
		if len(p.Notes) != 1 || !strings.Contains(p.Notes[0].Body, head[:7]) || !strings.Contains(p.Notes[0].Body, "spec.weight") {
			t.Errorf("%s there are %d notes", when, len(p.Notes))
		}
		got := map[string]string{}
		for _, s := range p.Statuses {
			if s.SHA == head {
				got[fmt.Sprintf("%s in %d", s.Name, s.PipelineID)] = s.State
			}
		}
		if want := map[string]string{fmt.Sprintf("poolwright/plan (dev) in %d", p.Pipelines[len(p.Pipelines)-1].ID): "success"}; !cmp.Equal(want, got) {
			t.Errorf("%s %s has the statuses %v, want %v", when, head[:7], got, want)
		}
	})
}

// The controller, its client of the forge and its Git are the product's own; a second process knows nothing of the first but what the
// cluster and GitLab have.
func TestAMergeRequestOfGitLabHasOneNoteAndOneStatus(t *testing.T) {
	p := newGitLabProject(t)
	base := commitTo(t, p.bare, "a.yaml", "one\n")
	p.Open(1, gitlab.User{ID: 8, Name: "ada"})
	head := p.proposes(t, base, "two\n")

	sync := &v1alpha1.Sync{ObjectMeta: metav1.ObjectMeta{Namespace: "poolwright-system", Name: "dev", UID: "1", Generation: 1}}
	sync.Spec.Source.Git = v1alpha1.GitSource{URL: p.at.URL + "/platform/nodes.git", Ref: v1alpha1.GitRef{Branch: "main"}}
	sync.Spec.PullRequests = &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitLab, SecretRef: v1alpha1.SecretRef{Name: "gitlab"}, HoursPerDay: 24}
	sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = "main@sha1:"+base, "main@sha1:"+base
	direct := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(&v1alpha1.Sync{}).WithObjects(sync,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "cluster"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: "gitlab"}, Data: map[string][]byte{"token": []byte("glpat-s3cret")}}).Build()
	// started is another process, and pass what it does when it is polled.
	started := func() (pass func()) {
		a := &app{direct: direct, cfg: Config{Namespace: sync.Namespace, caches: newCaches(Config{CacheDir: t.TempDir()})}}
		metrics, err := pullrequest.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		r := &pullrequest.Reconciler{
			Client: direct, AllSyncs: direct, Namespace: sync.Namespace, Recorder: record.NewFakeRecorder(100), Metrics: metrics, Clock: clock.RealClock{}, Jitter: jitter.NoJitter,
			Build: func(ctx context.Context, sync *v1alpha1.Sync) (pullrequest.ForgeAccess, error) {
				return a.gitLabAccess(ctx, sync)
			},
		}
		return func() {
			t.Helper()
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(sync)}); err != nil {
				t.Fatal(err)
			}
		}
	}

	first := started()
	first()
	p.has(t, "after the first pass", head)
	first()
	p.has(t, "after another pass", head)

	started()()
	p.has(t, "after a restart", head)

	// The next process does not know what one wrote that ended before the status of the Sync was written.
	var live v1alpha1.Sync
	if err := direct.Get(t.Context(), client.ObjectKeyFromObject(sync), &live); err != nil {
		t.Fatal(err)
	}
	if live.Status.PullRequests == nil || len(live.Status.PullRequests.Items) != 1 || live.Status.PullRequests.Reason != "" {
		t.Fatalf("the status is %+v", live.Status.PullRequests)
	}
	live.Status.PullRequests = nil
	if err := direct.Status().Update(t.Context(), &live); err != nil {
		t.Fatal(err)
	}
	second := started()
	second()
	p.has(t, "after a crash", head)

	next := p.proposes(t, base, "three\n")
	second()
	p.has(t, "after another commit", next)
	for _, r := range p.Counted() {
		if strings.Contains(r, "s3cret") {
			t.Errorf("the token is in the address of a request: %s", r)
		}
	}
}

// gitLabAccess is what reviews makes, without what needs an API server: the lease, and the targets.
func (a *app) gitLabAccess(ctx context.Context, sync *v1alpha1.Sync) (pullrequest.ForgeAccess, error) {
	secret, err := a.forgeSecret(ctx, sync)
	if err != nil {
		return pullrequest.ForgeAccess{}, err
	}
	identity, _, err := a.identity(ctx)
	if err != nil {
		return pullrequest.ForgeAccess{}, err
	}
	at, err := forgeclient.New(sync, secret.Data, time.Now, func(next http.RoundTripper) http.RoundTripper { return next })
	if err != nil {
		return pullrequest.ForgeAccess{}, err
	}
	config := a.gitConfig(sync)
	config.Dir, config.Disk = a.cfg.caches.pullRequestsDir(sync), a.cfg.caches.pullRequests
	repository, err := gogit.Open(config)
	if err != nil {
		return pullrequest.ForgeAccess{}, fmt.Errorf("opening the repository: %w", err)
	}
	return pullrequest.ForgeAccess{Forge: at, Planner: fetchedPlanner{repository}, Cluster: "dev", Identity: identity}, nil
}
