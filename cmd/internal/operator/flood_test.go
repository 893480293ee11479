package operator

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/jitter"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/poolwright/poolwright/cmd/internal/child"
	"github.com/poolwright/poolwright/cmd/internal/connect"
	"github.com/poolwright/poolwright/gitsource"
	"github.com/poolwright/poolwright/provision"
	"github.com/poolwright/poolwright/reconciler/api/v1alpha1"
	"github.com/poolwright/poolwright/reconciler/plan"
	"github.com/poolwright/poolwright/reconciler/preview"
	"github.com/poolwright/poolwright/reconciler/pullrequest"
	"github.com/poolwright/poolwright/reconciler/rendercache"
	"github.com/poolwright/poolwright/reconciler/report/forge"
	"github.com/poolwright/poolwright/reconciler/state"
	"github.com/poolwright/poolwright/reconciler/validation"
	"github.com/poolwright/poolwright/reconciler/variables"
)

// crowd is a forge with many open pull requests, and the repository that they are of. It
// keeps nothing that it is told.
type crowd struct {
	open []forge.PullRequest
	// writes counts comments.
	writes atomic.Int32
}

func (c *crowd) PullRequests(context.Context, forge.Listing) (forge.Listing, error) {
	return forge.Listing{Open: c.open}, nil
}

func (c *crowd) Comment(_ context.Context, number int, _ forge.Comment) (forge.PostedComment, error) {
	c.writes.Add(1)
	return forge.PostedComment{URL: fmt.Sprint(number), Written: true}, nil
}

func (c *crowd) Status(context.Context, string, forge.Status) error { return nil }
func (c *crowd) Limit() int                                         { return 256 << 10 }

func (c *crowd) Compare(_ context.Context, _, head string) (gitsource.Comparison, error) {
	base := at("base", oneMap)
	base.Commit = "base1"
	mergeBase := base
	mergeBase.Commit = "merge-base"
	return gitsource.Comparison{Base: base, MergeBase: mergeBase, Head: gitsource.Snapshot{TreeID: head, Commit: c.head(head), FS: heavy(head)}}, nil
}

// head is the commit of a reference.
func (c *crowd) head(ref string) string {
	for _, pr := range c.open {
		if pr.Ref() == ref {
			return pr.Head.SHA
		}
	}
	return ""
}

func (c *crowd) CompareCached(gitsource.Revision, gitsource.Revision) (gitsource.Comparison, bool) {
	return gitsource.Comparison{}, false
}

func (c *crowd) Contains(context.Context, string, string, string) (bool, error) { return false, nil }

// heavy is a folder of 1 MiB in 900 objects, made anew for each who opens it.
type heavy string

// Open implements fs.FS.
func (h heavy) Open(name string) (fs.File, error) {
	var out strings.Builder
	for n := range 900 {
		fmt.Fprintf(&out, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: %q}\n---\n", n, strings.Repeat(string(h)[:12], 92))
	}
	return at("", out.String()).FS.Open(name)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// enough is after how many plans all budgets are used up: of 200, which is how many are
// planned at all. Each starts a process.
const enough = 64

// Children, renderings, plans, reports, comments and the status are the product's own;
// Git, the forge and the API server are the test's, and keep nothing.
func TestAThousandOpenPullRequestsLeaveTheLeaderAsItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short: it starts some seventy processes")
	}
	sync := &v1alpha1.Sync{}
	sync.Name, sync.Namespace, sync.UID = "main", "poolwright", "u"
	sync.Spec.Source.Git.URL, sync.Spec.Path = "https://forge/o/r.git", "x"
	sync.Spec.PullRequests = &v1alpha1.PullRequests{Provider: v1alpha1.ForgeGitea, HoursPerDay: 24}
	sync.Status.LastAttemptedRevision = "main@sha1:base1"
	live := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(sync).WithStatusSubresource(&v1alpha1.Sync{}).Build()
	metrics, err := pullrequest.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	many, observed := &crowd{}, &preview.ObservedAt{}
	planner := &preview.Planner{Revisions: many, Sync: sync, Live: live, Clock: clock.RealClock{}, Previewer: &preview.Previewer{
		SchemaErrors: &validation.Errors{}, Renderer: &child.Runner{Semaphore: child.NewSemaphore(), Proposed: true}, Cache: &rendercache.Cache{}, Variables: &variables.Current{}, Now: time.Now, ObservedAt: observed, MaxChanges: maxChangedObjects,
		Targets: connect.CachedTargets(emptyTarget{}, emptyTarget{}, observed),
		Forecast: func(context.Context, state.Set, state.Set, []plan.Change) (*provision.Forecast, error) {
			return nil, nil
		},
	}}
	r := &pullrequest.Reconciler{
		Client: live, AllSyncs: live, Namespace: sync.Namespace, Recorder: record.NewFakeRecorder(10), Metrics: metrics, Clock: clock.RealClock{}, Jitter: jitter.NoJitter,
		Build: func(context.Context, *v1alpha1.Sync) (pullrequest.ForgeAccess, error) {
			return pullrequest.ForgeAccess{Forge: many, Planner: planner, Cluster: "prod", Identity: "i"}, nil
		},
	}
	pass := func() {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(sync)}); err != nil {
			t.Fatal(err)
		}
	}
	open := func(from, to int) {
		for n := from; n <= to; n++ {
			many.open = append(many.open, forge.PullRequest{
				Number: n, Author: fmt.Sprint("author", n%20), Head: forge.Branch{SHA: fmt.Sprintf("%07x%033x", n, n)}, Base: forge.Branch{Name: "main", SHA: "base1"}, Updated: time.Now(),
			})
		}
	}
	open(1, 1)
	pass()
	before := liveHeap()
	open(2, 1000)
	for last := int32(-1); many.writes.Load() != last && last < enough; {
		last = many.writes.Load()
		pass()
	}
	grew := liveHeap() - before
	t.Logf("%d of 1000 are planned, the heap grew by %d KiB, %d KiB of that are renderings", many.writes.Load(), grew>>10, planner.Cache.Bytes()>>10)
	if many.writes.Load() < enough || grew > 64<<20 {
		t.Errorf("%d are planned, the heap grew by %d MiB", many.writes.Load(), grew>>20)
	}
	runtime.KeepAlive(r)
}
